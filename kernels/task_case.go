package kernels

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// casePair is what the strictest of the evaluations reads.
func casePair() *regexp.Regexp {
	return regexp.MustCompile(`^([a-zA-Z_]+): ([a-zA-Z]+|[+-]?[0-9]+)$`)
}

// maxCasePair bounds one `key: value` of a case, in bytes: some cases hold a list.
const maxCasePair = 2000

// lines writes cases as a case file has them: `key: value; key: value`, in the order of the file.
func (t *Task) lines(cases []yaml.MapSlice) []string {
	var out []string
	for _, c := range cases {
		var parts []string
		for _, kv := range lastOfEqual(c) {
			t.world(kv)
			parts = append(parts, protocol.Plain(fmt.Sprintf("%v: %v", kv.Key, pythonValue(kv.Value)), maxCasePair))
		}
		out = append(out, strings.Join(parts, "; "))
	}
	return out
}

// lastOfEqual leaves the last value of equal keys in the place of the first, as Python's dict does: a merged
// mapping has been overridden.
func lastOfEqual(m yaml.MapSlice) (out yaml.MapSlice) {
	at := map[string]int{}
	for _, kv := range m {
		key := fmt.Sprint(kv.Key)
		if i, known := at[key]; known {
			out[i].Value = kv.Value
			continue
		}
		at[key] = len(out)
		out = append(out, kv)
	}
	return out
}

// odd are the values of all cases that not every evaluation reads: one word about all of them, since
// the evaluation of such a problem mostly does.
func (t *Task) odd() {
	pair, n, first := casePair(), 0, ""
	for _, line := range append(append([]string(nil), t.Tests...), t.Benchmarks...) {
		for part := range strings.SplitSeq(line, "; ") {
			if pair.MatchString(part) {
				continue
			}
			if n++; n == 1 {
				first = protocol.Plain(part, 80)
			}
		}
	}
	if n > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("case values that are more than letters or a whole number (%d, such as %q): an evaluation that reads no others ends with exit 113", n, first))
	}
}

func (t *Task) world(kv yaml.MapItem) {
	if n, ok := kv.Value.(uint64); ok && kv.Key == "world_size" && n < 1<<10 {
		t.World = max(t.World, int(n))
	}
}

// pythonValue is a value as Python's str prints it, which writes the case file of the server.
func pythonValue(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case nil:
		return "None"
	case float64:
		return pythonFloat(v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = pythonRepr(v[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case yaml.MapSlice:
		parts := make([]string, len(v))
		for i, kv := range v {
			parts[i] = pythonRepr(kv.Key) + ": " + pythonRepr(kv.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// pythonRepr is a value within a list or a mapping, where Python quotes strings.
func pythonRepr(v any) string {
	s, ok := v.(string)
	if !ok {
		return pythonValue(v)
	}
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + s + `"`
	}
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`).Replace(s) + "'"
}

// pythonFloat has a point or an exponent, and the exponent where Python has it.
func pythonFloat(f float64) string {
	a := math.Abs(f)
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
