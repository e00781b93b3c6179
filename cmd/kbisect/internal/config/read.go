package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// configReader walks the decoded document against the schema. It collects
// problems instead of stopping at one.
type configReader struct {
	file     string
	lines    lineIndex
	problems []ConfigProblem
	warnings []string
}

// tableReader is one table of the document.
type tableReader struct {
	r      *configReader
	path   []string // with indices, for lines
	values map[string]any
}

// label is the path as a person writes it: without indices.
func label(path []string) string {
	var parts []string
	for _, p := range path {
		if !strings.HasPrefix(p, "#") {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ".")
}

func (r *configReader) add(path []string, format string, args ...any) {
	r.problems = append(r.problems, ConfigProblem{Line: r.lines.of(path...), Key: label(path), Text: fmt.Sprintf(format, args...)})
}

func (r *configReader) warn(path []string, format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf("%s:%d: %s: ", r.file, r.lines.of(path...), label(path))+fmt.Sprintf(format, args...))
}

// at is the path of a key, or of an element, below the table.
func (t tableReader) at(keys ...string) []string {
	return append(append([]string(nil), t.path...), keys...)
}

func (t tableReader) errorf(key, format string, args ...any) {
	t.r.add(t.at(key), format, args...)
}

func (t tableReader) has(key string) bool { _, ok := t.values[key]; return ok }

// wrongType says what stands there and what should.
func (t tableReader) wrongType(key, want string) {
	t.errorf(key, "wrong type: this is %s; wanted is %s", typeName(t.values[key]), want)
}

func typeName(v any) string {
	switch v := v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a number"
	case bool:
		return "a boolean"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "an array of tables"
	case []any:
		if len(v) > 0 {
			return "an array whose first element is " + typeName(v[0])
		}
		return "an empty array"
	case time.Time:
		return "a date"
	default:
		return "of another type"
	}
}

// unknown complains about every key that is not allowed here.
func (t tableReader) unknown(allowed []string, elsewhere map[string][]string) {
	for key := range t.values {
		if slices.Contains(allowed, key) {
			continue
		}
		text := "unknown key" + wording.DidYouMean(key, allowed)
		if tables := homesOf(key, elsewhere); wording.Nearest(key, allowed) == "" && len(tables) > 0 {
			text += "; it belongs in " + strings.Join(tables, " or ")
		}
		t.errorf(key, "%s; allowed here: %s", text, strings.Join(allowed, ", "))
	}
}

// homesOf lists the tables that have this very key.
func homesOf(key string, schema map[string][]string) []string {
	var out []string
	for table, keys := range schema {
		if table != "" && slices.Contains(keys, key) {
			out = append(out, "["+table+"]")
		}
	}
	slices.Sort(out)
	return out
}

func (t tableReader) str(key string) string {
	v, ok := t.values[key]
	if !ok {
		return ""
	}
	s, ok := v.(string)
	switch {
	case !ok:
		t.wrongType(key, "a string")
	case s == "" && key == "problem":
		t.errorf(key, "empty; name the folder that holds the task.yml of the problem, which may lie outside of the repository")
	case s == "":
		t.errorf(key, "empty; leave the key out instead")
	case strings.ContainsRune(s, 0):
		t.errorf(key, "contains a zero byte")
		return ""
	}
	return s
}

// choice reads one of a few words.
func (t tableReader) choice(key string, choices []string) string {
	s := t.str(key)
	if s != "" && !slices.Contains(choices, s) {
		t.errorf(key, "%q is not known%s; allowed: %s", s, wording.DidYouMean(s, choices), OneOf(choices))
		return ""
	}
	return s
}

func (t tableReader) boolean(key string) *bool {
	v, ok := t.values[key]
	if !ok {
		return nil
	}
	b, ok := v.(bool)
	if !ok {
		t.wrongType(key, "true or false")
		return nil
	}
	return &b
}

// number reads an integer or a float that is finite.
func (t tableReader) number(key, want string) (float64, bool) {
	switch v := t.values[key].(type) {
	case int64:
		return float64(v), true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.errorf(key, "must be a finite number")
			return 0, false
		}
		return v, true
	default:
		t.wrongType(key, want)
		return 0, false
	}
}

// strs reads an array of strings; what says what its elements are.
func (t tableReader) strs(key, want string) []string {
	v, ok := t.values[key]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		t.wrongType(key, want)
		return nil
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		switch {
		case !ok:
			t.r.add(t.at(key, indexOf(i)), "wrong type: element %d is %s; wanted is %s", i+1, typeName(e), want)
		case strings.ContainsRune(s, 0):
			t.r.add(t.at(key, indexOf(i)), "element %d contains a zero byte", i+1)
		default:
			out = append(out, s)
		}
	}
	return out
}

// command reads argv.
func (t tableReader) command(key string) []string {
	const want = `an array of words, as ["make", "-j2"]; for a line of shell ["sh", "-c", "…"]`
	argv := t.strs(key, want)
	if list, ok := t.values[key].([]any); ok && (len(list) == 0 || len(argv) == len(list) && argv[0] == "") {
		t.errorf(key, "no command; wanted is %s", want)
	}
	return argv
}

func (t tableReader) duration(key string) time.Duration {
	if !t.has(key) {
		return 0
	}
	s, ok := t.values[key].(string)
	if !ok {
		t.wrongType(key, `a duration in quotes, as "90s", "2m" or "1h30m"`)
		return 0
	}
	d, err := ParseDuration(s)
	if err != nil {
		t.errorf(key, "%v", err)
	}
	return d
}

// table reads a table that may be missing.
func (t tableReader) table(key string) (tableReader, bool) {
	v, ok := t.values[key]
	if !ok {
		return tableReader{}, false
	}
	m, ok := v.(map[string]any)
	if !ok {
		t.wrongType(key, "a table, as ["+label(t.at(key))+"]")
		return tableReader{}, false
	}
	return tableReader{t.r, t.at(key), m}, true
}

// tables reads an array of tables.
func (t tableReader) tables(key string) []tableReader {
	var list []any
	switch v := t.values[key].(type) {
	case nil:
		return nil
	case []map[string]any:
		for _, m := range v {
			list = append(list, m)
		}
	case []any:
		list = v
	default:
		t.wrongType(key, "an array of tables, each under its own [["+label(t.at(key))+"]]")
		return nil
	}
	var out []tableReader
	for i, e := range list {
		path := t.at(key, indexOf(i))
		m, ok := e.(map[string]any)
		if !ok {
			t.r.add(path, "wrong type: element %d is %s; wanted is a table", i+1, typeName(e))
			continue
		}
		out = append(out, tableReader{t.r, path, m})
	}
	return out
}
