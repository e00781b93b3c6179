package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kbisect/kbisect/bisect/sets/flags"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
)

func envName() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) } // isName reports that s is made of letters, digits and some marks, and begins with none of these but those in first.
func isName(s, first, marks string) bool {
	const longest = 64
	for i, r := range s {
		allowed := marks
		if i == 0 {
			allowed = first
		}
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune(allowed, r) {
			return false
		}
	}
	return s != "" && utf8.RuneCountInString(s) <= longest
}

// isValue reports that a text can be the value of a flag.
func isValue(s string) bool {
	const longest = 256
	n := utf8.RuneCountInString(s)
	return n > 0 && n <= longest && !strings.ContainsFunc(s, func(r rune) bool { return r == ',' || unicode.Is(unicode.C, r) })
}

// flags reads [[flag]]; names are checked against each other before conditions
// are, because a condition may name a flag that comes later.
func (t tableReader) flags() []Flag {
	tables := t.tables("flag")
	flags := make([]Flag, len(tables))
	seen, carriers := map[string]bool{}, map[string]bool{}
	for i, ft := range tables {
		ft.known("flag")
		flags[i] = ft.flag()
		if name := flags[i].Name; name != "" && seen[name] {
			ft.errorf("name", "the flag %q is there twice", name)
		}
		seen[flags[i].Name] = true
		ft.carrier(flags[i], carriers)
	}
	for i, ft := range tables {
		ft.conditions("requires", flags, flags[i], flags[i].Requires)
		ft.conditions("excludes", flags, flags[i], flags[i].Excludes)
		ft.conditions("parts", flags, flags[i], flags[i].Parts)
	}
	if len(t.r.problems) == 0 && len(flags) > 0 {
		t.together(flags)
	}
	return flags
}

// together checks what only shows when all flags are there: a circle of conditions, or a value out of reach.
func (t tableReader) together(flags []Flag) {
	const most = 1000 // values that are checked when a file is read; a search of more checks them itself
	values := 0
	for _, f := range flags {
		values += len(f.Values)
	}
	if values > most {
		return
	}
	_, err := FlagSpace(flags)
	if err == nil {
		return
	}
	text := strings.TrimPrefix(err.Error(), "flags: ")
	for i, f := range flags {
		if circle := circleFrom(flags, f.Name); circle != nil && strings.Contains(text, "circle") {
			t.r.add(t.at("flag", indexOf(i), "requires"), "the conditions go round in a circle, so that none of these could ever be set: %s", strings.Join(circle, " needs "))
			return
		}
	}
	i := slices.IndexFunc(flags, func(f Flag) bool { return strings.Contains(" "+text, " "+f.Name+":") })
	t.r.add(t.at("flag", indexOf(max(0, i))), "%s", text)
}

// circleFrom is the way from a flag back to it along what flags require, nil where there is none.
func circleFrom(flags []Flag, start string) []string {
	needs := map[string][]string{}
	for _, f := range flags {
		for _, s := range f.Requires {
			c, _ := ParseCondition(s)
			needs[f.Name] = append(needs[f.Name], c.Flag)
		}
	}
	seen := map[string]bool{}
	var follow func(name string) []string
	follow = func(name string) []string {
		for _, next := range needs[name] {
			if next == start {
				return []string{name, start}
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if rest := follow(next); rest != nil {
				return append([]string{name}, rest...)
			}
		}
		return nil
	}
	return follow(start)
}

func (t tableReader) flag() Flag {
	f := Flag{
		Name:     t.str("name"),
		Values:   t.strs("values", `an array of strings, as ["off", "on"]`),
		Bad:      t.str("bad"),
		Env:      t.str("env"),
		Define:   t.str("define"),
		Arg:      t.str("arg"),
		Option:   t.str("option"),
		Requires: t.strs("requires", `an array of conditions, as ["compile!=off"]`),
		Excludes: t.strs("excludes", `an array of conditions, as ["graph=on"]`),
		Parts:    t.strs("parts", `an array of settings, as ["autotune=on", "graphs=on"]`),
	}
	if b := t.boolean("ordered"); b != nil {
		f.Ordered = *b
	}
	t.need("name")
	t.need("values")
	if f.Name != "" && !isName(f.Name, "_", "_.-") {
		t.errorf("name", "%q is no name of a flag; use letters, digits, and - _ .", f.Name)
	}
	t.checkValues(f)
	return f
}

// need complains about a key that has to be there, on the line of its table.
func (t tableReader) need(key string) {
	if !t.has(key) {
		t.r.add(t.path, "%s is missing", key)
	}
}

func (t tableReader) checkValues(f Flag) {
	list, ok := t.values["values"].([]any)
	if !ok || len(f.Values) != len(list) {
		return
	}
	if len(list) < 2 {
		t.errorf("values", "a flag has at least two values, the safe base first")
		return
	}
	for i, v := range f.Values {
		if !isValue(v) {
			t.r.add(t.at("values", indexOf(i)), "%q is no value; it must not be empty nor hold a comma or a control character; the value \"unset\" passes nothing on", v)
		}
		if slices.Contains(f.Values[:i], v) {
			t.r.add(t.at("values", indexOf(i)), "%q is there twice", v)
		}
	}
	switch {
	case f.Bad == "":
	case !slices.Contains(f.Values, f.Bad):
		t.errorf("bad", "%q is none of the values%s; allowed: %s", f.Bad, wording.DidYouMean(f.Bad, f.Values[1:]), OneOf(f.Values[1:]))
	case f.Bad == f.Values[0]:
		t.errorf("bad", "%q is the safe base, the first of values; allowed: %s", f.Bad, OneOf(f.Values[1:]))
	}
}

// carrier checks that exactly one key says how a value reaches the program, and
// that no two flags use the same way.
func (t tableReader) carrier(f Flag, seen map[string]bool) {
	var given []string
	for _, key := range []string{"env", "define", "arg", "option"} {
		if t.has(key) {
			given = append(given, key)
		}
	}
	if len(given) != 1 {
		t.r.add(t.path, `flag %q: exactly one of env, define, arg or option says how a value reaches the program; here are %d`, f.Name, len(given))
		return
	}
	key := given[0]
	text, _ := t.values[key].(string)
	switch {
	case text == "":
		return
	case (key == "env" || key == "define") && !envName().MatchString(text):
		t.errorf(key, "%q is no name of a variable; use letters, digits and _", text)
	case key == "env" && strings.HasPrefix(text, "KBISECT_"):
		t.errorf(key, "%q: names that begin with KBISECT_ are kbisect's own", text)
	case (key == "arg" || key == "option") && !strings.Contains(text, "{value}") && f.On() == "":
		t.errorf(key, `%q lacks {value}, so that every value would look the same; write "--name={value}", or values = ["off", "on"] for a switch that is passed at "on" alone`, text)
	case seen[key+"\x00"+text]:
		t.errorf(key, "%q already belongs to another flag", text)
	}
	seen[key+"\x00"+text] = true
	if i := slices.IndexFunc(f.Values, isWordOff); key == "define" && i >= 0 {
		t.r.warn(t.at("values", indexOf(i)), `-D%s=%s defines %s as well, so that #ifdef %s holds; the value "unset" leaves it undefined`, text, f.Values[i], text, text)
	}
}

// isWordOff knows the words for off that the preprocessor does not know.
func isWordOff(value string) bool {
	return slices.Contains([]string{"off", "no", "false", "none", "disabled"}, strings.ToLower(value))
}

// On is the value of a switch at which an argument or option without {value} is passed: the one of two of which
// the other says that it is off. "": the flag is no such switch.
func (f Flag) On() string {
	off := func(v string) bool { return v == "0" || v == kernels.Unset || isWordOff(v) }
	if len(f.Values) != 2 || off(f.Values[0]) == off(f.Values[1]) {
		return ""
	}
	return f.Values[slices.IndexFunc(f.Values, func(v string) bool { return !off(v) })]
}

// condition is "flag=value" or "flag!=value" taken apart.
type condition struct {
	Flag, Value string
	Not         bool
}

func ParseCondition(s string) (condition, bool) {
	if name, value, ok := strings.Cut(s, "!="); ok && !strings.Contains(name, "=") {
		return condition{strings.TrimSpace(name), strings.TrimSpace(value), true}, true
	}
	name, value, ok := strings.Cut(s, "=")
	return condition{Flag: strings.TrimSpace(name), Value: strings.TrimSpace(value)}, ok
}

// resolve checks one condition against the flags and reports whether it holds water.
func (t tableReader) resolve(path []string, s string, flags []Flag) (condition, bool) {
	c, ok := ParseCondition(s)
	if !ok {
		t.r.add(path, `%q is no condition; write "flag=value"`, s)
		return c, false
	}
	if wrong := c.Unknown(flags); wrong != "" {
		t.r.add(path, "%q: %s", s, wrong)
		return c, false
	}
	return c, true
}

// Unknown says that there is no such flag, or no such value of it, or is "".
func (c condition) Unknown(flags []Flag) string {
	i := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == c.Flag })
	if i < 0 {
		names := make([]string, len(flags))
		for j, f := range flags {
			names[j] = f.Name
		}
		return fmt.Sprintf("there is no flag %q%s; flags: %s", c.Flag, wording.DidYouMean(c.Flag, names), strings.Join(names, ", "))
	}
	if values := flags[i].Values; !slices.Contains(values, c.Value) {
		return fmt.Sprintf("the flag %q has no value %q%s; allowed: %s", c.Flag, c.Value, wording.DidYouMean(c.Value, values), OneOf(values))
	}
	return ""
}

func (t tableReader) conditions(key string, flags []Flag, own Flag, list []string) {
	for i, s := range list {
		path := t.at(key, indexOf(i))
		if c, ok := t.resolve(path, s, flags); ok && c.Flag == own.Name {
			t.r.add(path, "%q: a flag cannot speak about itself", s)
		}
	}
}

func (t tableReader) hypotheses(flags []Flag) []Hypothesis {
	var out []Hypothesis
	seen := map[string]bool{}
	for _, ht := range t.tables("hypothesis") {
		ht.known("hypothesis")
		ht.need("name")
		ht.need("claim")
		h := Hypothesis{Name: ht.str("name"), Claim: ht.strs("claim", `an array of settings, as ["compile=max-autotune"]`)}
		if h.Name != "" && seen[h.Name] {
			ht.errorf("name", "the hypothesis %q is there twice", h.Name)
		}
		seen[h.Name] = true
		ht.claim(h, flags)
		out = append(out, h)
	}
	return out
}

func (t tableReader) claim(h Hypothesis, flags []Flag) {
	if list, ok := t.values["claim"].([]any); ok && len(list) == 0 {
		t.errorf("claim", `empty; name what is to blame, as ["compile=max-autotune"]`)
	}
	claimed := map[string]bool{}
	for i, s := range h.Claim {
		path := t.at("claim", indexOf(i))
		c, ok := t.resolve(path, s, flags)
		switch {
		case !ok:
		case c.Not:
			t.r.add(path, `%q: a claim names a value; write "flag=value"`, s)
		case claimed[c.Flag]:
			t.r.add(path, "%q: the flag %q is there twice", s, c.Flag)
		}
		claimed[c.Flag] = true
	}
}

// Terms writes conditions without spaces, as they are compared.
func Terms(list []string) (out []string) {
	for _, s := range list {
		c, _ := ParseCondition(s) // checked when the configuration was read
		sign := "="
		if c.Not {
			sign = "!="
		}
		out = append(out, c.Flag+sign+c.Value)
	}
	return out
}

// FlagSpace is the space of the combinations of flags.
func FlagSpace(all []Flag) (*flags.Flags, error) {
	var out []flags.Flag
	for _, f := range all {
		out = append(out, flags.Flag{Name: f.Name, Values: f.Values, Bad: f.Bad, Ordered: f.Ordered, Requires: Terms(f.Requires), Excludes: Terms(f.Excludes), Parts: Terms(f.Parts)})
	}
	return flags.New(out)
}
