package config

import (
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// reader collects what is wrong with a document instead of stopping at the first mistake.
type reader struct {
	file     string
	lines    lineIndex
	schema   map[string][]string // the keys that each table may have; "" is the root
	problems []problem
	warnings []string
}

// table reads the keys of one table of the document. Its methods return the zero value for a key that is missing or
// wrong, and note what is wrong with the reader, so that callers need no error handling. A missing table is empty.
type table struct {
	r      *reader
	path   []string // from the root, with indices (indexOf)
	values map[string]any
}

// label is a path as a person writes it: with dots and without indices.
func label(path []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(path), func(p string) bool { return strings.HasPrefix(p, "#") }), ".")
}

// add notes a mistake at a path. Reading goes on.
func (r *reader) add(path []string, format string, args ...any) {
	r.problems = append(r.problems, problem{line: r.lines.of(path...), key: label(path), text: fmt.Sprintf(format, args...)})
}

// warn notes something that is allowed but looks like a mistake.
func (r *reader) warn(path []string, format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf("%s:%d: %s: ", r.file, r.lines.of(path...), label(path))+fmt.Sprintf(format, args...))
}

// at is the path of a key or an element below the table.
func (t table) at(keys ...string) []string { return slices.Concat(t.path, keys) }

// errorf notes a mistake at a key of the table.
func (t table) errorf(key, format string, args ...any) { t.r.add(t.at(key), format, args...) }

// has reports whether the key is there, whatever its type.
func (t table) has(key string) bool { _, ok := t.values[key]; return ok }

// require reports missing keys, on the line of the table.
func (t table) require(keys ...string) {
	for _, key := range keys {
		if !t.has(key) {
			t.r.add(t.path, "missing key %q", key)
		}
	}
}

// wrongType notes that a key has a value of another type than want, which is in words.
func (t table) wrongType(key, want string) {
	t.errorf(key, "expected %s, got %s", want, typeName(t.values[key]))
}

// typeName is the type of a value in TOML's words, with an article, for "expected …, got …".
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
	case []any:
		if len(v) == 0 {
			return "an empty array"
		}
		if _, ok := v[0].(map[string]any); ok {
			return "an array of tables"
		}
		return "an array whose first element is " + typeName(v[0])
	default: // TOML's four types of date and time are all that remain
		return "a date or time"
	}
}

// allow reports every key that the schema does not list for a table of this name, with the closest name or the
// table where the key belongs.
func (t table) allow(name string) {
	allowed := t.r.schema[name]
	for key := range t.values {
		if slices.Contains(allowed, key) {
			continue
		}
		text := "unknown key" + wording.DidYouMean(key, allowed)
		if tables := homesOf(key, t.r.schema); wording.Nearest(key, allowed) == "" && len(tables) > 0 {
			text += "; it belongs in " + strings.Join(tables, " or ")
		}
		t.errorf(key, "%s; allowed here: %s", text, strings.Join(allowed, ", "))
	}
}

// homesOf lists the tables that have exactly this key, as [name]: a key in the wrong table is a frequent mistake, and
// harder to see than a misspelt one.
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

// value reads a key of type T; want names the type for people. ok is false if the key is missing or of another
// type.
func value[T any](t table, key, want string) (v T, ok bool) {
	if !t.has(key) {
		return v, false
	}
	if v, ok = t.values[key].(T); !ok {
		t.wrongType(key, want)
	}
	return v, ok
}

// optional is value for a key whose absence matters: nil if it is missing.
func optional[T any](t table, key, want string) *T {
	if v, ok := value[T](t, key, want); ok {
		return &v
	}
	return nil
}

// str reads a string. An empty one is a mistake: leaving the key out says that more clearly.
func (t table) str(key string) string {
	s, ok := value[string](t, key, "a string")
	switch {
	case !ok:
	case s == "" && key == "problem":
		t.errorf(key, "empty; name the folder with the problem's task.yml, which may lie outside the repository")
	case s == "":
		t.errorf(key, "empty; leave the key out instead")
	case strings.ContainsRune(s, 0):
		t.errorf(key, "contains a zero byte")
		return ""
	}
	return s
}

// choice reads one of a few words; "" if the key is missing or the word is none of them.
func (t table) choice(key string, choices []string) string {
	s := t.str(key)
	if s != "" && !slices.Contains(choices, s) {
		t.errorf(key, "unknown value %q%s; allowed: %s", s, wording.DidYouMean(s, choices), OneOf(choices))
		return ""
	}
	return s
}

// number reads a finite number. TOML tells 1 from 1.0; people do not, so both are accepted.
func (t table) number(key, want string) (float64, bool) {
	if n, ok := t.values[key].(int64); ok {
		return float64(n), true
	}
	f, ok := value[float64](t, key, want)
	if ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		t.errorf(key, "must be a finite number")
		return 0, false
	}
	return f, ok
}

// strs reads an array of strings; want says in words what they are. Elements that are wrong are left out.
func (t table) strs(key, want string) []string {
	list, ok := value[[]any](t, key, want)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		switch {
		case !ok:
			t.r.add(t.at(key, indexOf(i)), "expected %s, but element %d is %s", want, i+1, typeName(e))
		case strings.ContainsRune(s, 0):
			t.r.add(t.at(key, indexOf(i)), "element %d contains a zero byte", i+1)
		default:
			out = append(out, s)
		}
	}
	return out
}

// command reads a command as a list of words. No shell splits it, so that a word may contain spaces. Like strs, it
// leaves out wrong elements; the whole file is refused then anyway.
func (t table) command(key string) []string {
	const want = `an array of words, such as ["make", "-j2"]; for a line of shell ["sh", "-c", "…"]`
	argv := t.strs(key, want)
	if list, ok := t.values[key].([]any); ok && (len(list) == 0 || len(argv) == len(list) && argv[0] == "") {
		t.errorf(key, "no command; expected %s", want)
	}
	return argv
}

// duration reads a positive duration in quotes. A bare number is a mistake: nothing says whether it is in seconds.
func (t table) duration(key string) time.Duration {
	s, ok := value[string](t, key, `a duration in quotes, such as "90s", "2m" or "1h30m"`)
	if !ok {
		return 0
	}
	d, err := ParseDuration(s)
	if err != nil {
		t.errorf(key, "%v", err)
	}
	return d
}

// bytes reads an amount of memory in quotes and returns bytes. Less than 1 MB is taken for a missing unit.
func (t table) bytes(key string) int64 {
	const least = 1_000_000 // 1M in humanize's units, which are decimal
	s, ok := value[string](t, key, `an amount in quotes, such as "8G" or "512M"`)
	if !ok {
		return 0
	}
	n, err := humanize.ParseBytes(s)
	if err != nil || n < least || n > math.MaxInt64 {
		t.errorf(key, `invalid amount %q; expected at least 1M, such as "8G" or "512M"`, s)
		return 0
	}
	return int64(n)
}

// paths reads an array of paths that must stay inside the repository: what lies outside is the same for every commit.
func (t table) paths(key, example string) []string {
	list := t.strs(key, "an array of paths, such as "+example)
	for i, p := range list {
		if p == "" || path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") {
			t.r.add(t.at(key, indexOf(i)), "%q is not inside the repository; write paths relative to its top, without \"..\"", p)
		}
	}
	return list
}

// file reads one path that must stay inside the repository, and returns it clean and with slashes; "" if the key is
// missing.
func (t table) file(key string) string {
	s := t.str(key)
	if s == "" {
		return ""
	}
	if !filepath.IsLocal(s) {
		t.errorf(key, "%q is not inside the repository; write a path relative to its top, without \"..\"", s)
	}
	return path.Clean(filepath.ToSlash(s))
}

// table reads a table. One that the schema does not list may have any keys.
func (t table) table(key string) table {
	m, _ := value[map[string]any](t, key, "a table, written ["+label(t.at(key))+"]")
	sub := table{t.r, t.at(key), m}
	if t.r.schema[key] != nil {
		sub.allow(key)
	}
	return sub
}

// tables reads an array of tables, written [[key]]. Elements that are not tables are noted and left out.
func (t table) tables(key string) []table {
	list, _ := value[[]any](t, key, "an array of tables, each under its own [["+label(t.at(key))+"]]")
	var out []table
	for i, e := range list {
		path := t.at(key, indexOf(i))
		m, ok := e.(map[string]any)
		if !ok {
			t.r.add(path, "expected a table, but element %d is %s", i+1, typeName(e))
			continue
		}
		sub := table{t.r, path, m}
		sub.allow(key)
		out = append(out, sub)
	}
	return out
}
