package kernelbot

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// strictPair matches the pairs that the strictest evaluation program parses.
var strictPair = regexp.MustCompile(`^([a-zA-Z_]+): ([a-zA-Z]+|[+-]?[0-9]+)$`)

// IsStrictPair reports whether every evaluation program can parse a `key: value` of a case.
func IsStrictPair(pair string) bool { return strictPair.MatchString(pair) }

// maxPair bounds one `key: value` of a case, in bytes. It is generous: some values are lists.
const maxPair = 2000

// caseLines writes cases as the server does in a case file: `key: value; key: value`, one line each, in the order of
// the YAML.
func caseLines(cases []yaml.MapSlice) []string {
	var out []string
	for _, c := range cases {
		var pairs []string
		for _, kv := range dict(c) {
			pair := fmt.Sprintf("%v: %v", kv.Key, pythonStr(kv.Value))
			if len(pair) > maxPair || strings.ContainsFunc(pair, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
				pair = protocol.Plain(pair, maxPair) // a line break would begin another case
			}
			pairs = append(pairs, pair)
		}
		out = append(out, strings.Join(pairs, "; "))
	}
	return out
}

// dict resolves repeated keys as a Python dict does: the last value, in the place of the first. The parser lets them
// pass for this reason (decodeYAML).
func dict(m yaml.MapSlice) (out yaml.MapSlice) {
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

// unusualPairs counts the pairs that a strict evaluation program rejects, and returns the first. They are counted over
// all cases because such problems mostly come with an evaluation program that accepts them: one warning is enough.
func unusualPairs(lists ...[]string) (n int, first string) {
	for _, lines := range lists {
		for _, line := range lines {
			for pair := range strings.SplitSeq(line, "; ") {
				if IsStrictPair(pair) {
					continue
				}
				if n++; n == 1 {
					first = protocol.Plain(pair, 80)
				}
			}
		}
	}
	return n, first
}

// worldSize is the largest number of devices that a case asks for; 0 where none does. Absurd numbers (1,024 and more)
// do not count.
func worldSize(cases []yaml.MapSlice) (most int) {
	for _, c := range cases {
		for _, kv := range dict(c) {
			if n, ok := kv.Value.(uint64); ok && kv.Key == "world_size" && n < 1<<10 {
				most = max(most, int(n))
			}
		}
	}
	return most
}

// pythonStr prints a value as Python's str does.
func pythonStr(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		if v {
			return "True"
		}
		return "False"
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

// pythonRepr prints a value inside a list or a dict, where Python quotes strings: in single quotes, unless the text
// has only those.
func pythonRepr(v any) string {
	s, ok := v.(string)
	if !ok {
		return pythonStr(v)
	}
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\t' || r == '\n' || r == '\r':
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

// pythonFloat always writes a point or an exponent. Python uses an exponent below
// 1e-4 and from 1e16 on.
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
