package config

import (
	"errors"
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

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// isName reports whether s is a name of at most 64 letters, digits and marks, where only the marks in first may
// begin it.
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

// isValue reports whether a text can be the value of a flag. Commas separate flags in an assignment (a=1,b=2).
func isValue(s string) bool {
	const longest = 256
	n := utf8.RuneCountInString(s)
	return n > 0 && n <= longest && !strings.ContainsFunc(s, func(r rune) bool { return r == ',' || unicode.Is(unicode.C, r) })
}

// readFlags reads [[flag]]. Names are checked before conditions, because a condition may name a flag that comes
// later.
func readFlags(t table) []Flag {
	tables := t.tables("flag")
	flags := make([]Flag, len(tables))
	seen, carriers := map[string]bool{}, map[string]bool{}
	for i, ft := range tables {
		flags[i] = readFlag(ft)
		if name := flags[i].Name; name != "" && seen[name] {
			ft.errorf("name", "duplicate flag %q", name)
		}
		seen[flags[i].Name] = true
		checkCarrier(ft, flags[i], carriers)
	}
	for i, ft := range tables {
		checkConditions(ft, "requires", flags, flags[i], flags[i].Requires)
		checkConditions(ft, "excludes", flags, flags[i], flags[i].Excludes)
		checkConditions(ft, "parts", flags, flags[i], flags[i].Parts)
	}
	if len(t.r.problems) == 0 && len(flags) > 0 {
		checkFlagSpace(t, flags)
	}
	return flags
}

// checkFlagSpace finds mistakes that show only in all flags together: a cycle of conditions, or a value that no
// combination can have. It runs only if nothing else is wrong, or it would complain about the same mistakes again.
func checkFlagSpace(t table, all []Flag) {
	const most = 1000 // values; a search checks larger spaces itself
	values := 0
	for _, f := range all {
		values += len(f.Values)
	}
	if values > most {
		return
	}
	_, err := FlagSpace(all)
	if err == nil {
		return
	}
	wrong := &flags.Error{}
	errors.As(err, &wrong)
	i := slices.IndexFunc(all, func(f Flag) bool { return f.Name == wrong.Flag })
	t.r.add(t.at("flag", indexOf(max(0, i))), "%v", err)
}

// readFlag reads one flag and checks its name and values. Its conditions are checked once all flags are known.
func readFlag(t table) Flag {
	ordered, _ := value[bool](t, "ordered", "true or false")
	f := Flag{
		Flag: flags.Flag{
			Name:     t.str("name"),
			Values:   t.strs("values", `an array of strings, such as ["off", "on"]`),
			Bad:      t.str("bad"),
			Ordered:  ordered,
			Requires: t.strs("requires", `an array of conditions, such as ["compile!=off"]`),
			Excludes: t.strs("excludes", `an array of conditions, such as ["graph=on"]`),
			Parts:    t.strs("parts", `an array of settings, such as ["autotune=on", "graphs=on"]`),
		},
		Env: t.str("env"), Define: t.str("define"), Arg: t.str("arg"), Option: t.str("option"),
	}
	t.require("name", "values")
	if f.Name != "" && !isName(f.Name, "_", "_.-") {
		t.errorf("name", "invalid flag name %q; use letters, digits, and - _ .", f.Name)
	}
	checkValues(t, f)
	return f
}

// checkValues checks the values of a flag: at least two, no two alike, and the bad one not the first, which is the safe
// base. It says nothing if values is not an array of strings, as strs has complained already.
func checkValues(t table, f Flag) {
	list, ok := t.values["values"].([]any)
	if !ok || len(f.Values) != len(list) {
		return
	}
	if len(list) < 2 {
		t.errorf("values", "expected at least two values, the safe base first")
		return
	}
	for i, v := range f.Values {
		if !isValue(v) {
			t.r.add(t.at("values", indexOf(i)), "invalid value %q; it must not be empty or contain a comma or a control character; to pass nothing write \"unset\"", v)
		}
		if slices.Contains(f.Values[:i], v) {
			t.r.add(t.at("values", indexOf(i)), "duplicate value %q", v)
		}
	}
	switch {
	case f.Bad == "":
	case !slices.Contains(f.Values, f.Bad):
		t.errorf("bad", "%q is not one of the values%s; allowed: %s", f.Bad, wording.DidYouMean(f.Bad, f.Values[1:]), OneOf(f.Values[1:]))
	case f.Bad == f.Values[0]:
		t.errorf("bad", "%q is the safe base, the first value; allowed: %s", f.Bad, OneOf(f.Values[1:]))
	}
}

// checkCarrier checks that exactly one key says how a value reaches the program, and that no two flags use the same
// way. seen holds the ways taken so far, as key, zero byte, text.
func checkCarrier(t table, f Flag, seen map[string]bool) {
	var given []string
	for _, key := range []string{"env", "define", "arg", "option"} {
		if t.has(key) {
			given = append(given, key)
		}
	}
	if len(given) != 1 {
		t.r.add(t.path, `flag %q: expected exactly one of env, define, arg and option, got %d`, f.Name, len(given))
		return
	}
	key := given[0]
	text, _ := t.values[key].(string)
	switch {
	case text == "":
		return
	case (key == "env" || key == "define") && !envName.MatchString(text):
		t.errorf(key, "invalid variable name %q; use letters, digits and _", text)
	case key == "env" && strings.HasPrefix(text, "KBISECT_"):
		t.errorf(key, "%q: names that begin with KBISECT_ are reserved", text)
	case (key == "arg" || key == "option") && !strings.Contains(text, "{value}") && f.On() == "":
		t.errorf(key, `%q needs {value}, as in "--name={value}"; for a switch that is passed only when "on", write values = ["off", "on"]`, text)
	case seen[key+"\x00"+text]:
		t.errorf(key, "%q is already used by another flag", text)
	}
	seen[key+"\x00"+text] = true
	if i := slices.IndexFunc(f.Values, isWordOff); key == "define" && i >= 0 {
		t.r.warn(t.at("values", indexOf(i)), `-D%s=%s defines %s too, so #ifdef %s is true; the value "unset" leaves it undefined`, text, f.Values[i], text, text)
	}
}

// isWordOff reports a word that people use for off and that the preprocessor does not treat as false.
func isWordOff(value string) bool {
	return slices.Contains([]string{"off", "no", "false", "none", "disabled"}, strings.ToLower(value))
}

// On is the value at which an argument or option without {value} is passed, for a switch: a flag with two values of
// which the other one means off. It is "" for every other flag.
func (f Flag) On() string {
	off := func(v string) bool { return v == "0" || v == kernels.Unset || isWordOff(v) }
	if len(f.Values) != 2 || off(f.Values[0]) == off(f.Values[1]) {
		return ""
	}
	return f.Values[slices.IndexFunc(f.Values, func(v string) bool { return !off(v) })]
}

// resolveCondition reads a condition and checks that its flag and value exist. path is where mistakes are reported.
func resolveCondition(t table, path []string, s string, all []Flag) (flags.Term, bool) {
	c, ok := flags.ParseTerm(s)
	if !ok {
		t.r.add(path, `invalid condition %q; write "flag=value"`, s)
		return c, false
	}
	if wrong := Unknown(c, all); wrong != "" {
		t.r.add(path, "%q: %s", s, wrong)
		return c, false
	}
	return c, true
}

// Unknown says that a flag, or a value of it, does not exist, and names the nearest one; "" if it exists.
func Unknown(c flags.Term, all []Flag) string {
	i := slices.IndexFunc(all, func(f Flag) bool { return f.Name == c.Flag })
	if i < 0 {
		names := make([]string, len(all))
		for j, f := range all {
			names[j] = f.Name
		}
		return fmt.Sprintf("unknown flag %q%s; flags: %s", c.Flag, wording.DidYouMean(c.Flag, names), strings.Join(names, ", "))
	}
	if values := all[i].Values; !slices.Contains(values, c.Value) {
		return fmt.Sprintf("flag %q has no value %q%s; allowed: %s", c.Flag, c.Value, wording.DidYouMean(c.Value, values), OneOf(values))
	}
	return ""
}

// checkConditions checks that each condition names a value of another flag.
func checkConditions(t table, key string, flags []Flag, own Flag, list []string) {
	for i, s := range list {
		path := t.at(key, indexOf(i))
		if c, ok := resolveCondition(t, path, s, flags); ok && c.Flag == own.Name {
			t.r.add(path, "%q: a flag cannot refer to itself", s)
		}
	}
}

// readHypotheses reads [[hypothesis]]. Names must differ, since reports tell the hypotheses apart by them. Claims refer
// to flags, so the flags have to be read before.
func readHypotheses(t table, flags []Flag) []Hypothesis {
	var out []Hypothesis
	seen := map[string]bool{}
	for _, ht := range t.tables("hypothesis") {
		ht.require("name", "claim")
		h := Hypothesis{Name: ht.str("name"), Claim: ht.strs("claim", `an array of settings, such as ["compile=max-autotune"]`)}
		if h.Name != "" && seen[h.Name] {
			ht.errorf("name", "duplicate hypothesis %q", h.Name)
		}
		seen[h.Name] = true
		checkClaim(ht, h, flags)
		out = append(out, h)
	}
	return out
}

// checkClaim checks that a claim names one value for each of some flags. "flag!=value" is refused, since it would be a
// claim about several values.
func checkClaim(t table, h Hypothesis, flags []Flag) {
	if list, ok := t.values["claim"].([]any); ok && len(list) == 0 {
		t.errorf("claim", `empty; name the suspected settings, such as ["compile=max-autotune"]`)
	}
	claimed := map[string]bool{}
	for i, s := range h.Claim {
		path := t.at("claim", indexOf(i))
		c, ok := resolveCondition(t, path, s, flags)
		switch {
		case !ok:
		case c.Not:
			t.r.add(path, `%q: a claim must name a value; write "flag=value"`, s)
		case claimed[c.Flag]:
			t.r.add(path, "%q: flag %q is claimed twice", s, c.Flag)
		}
		claimed[c.Flag] = true
	}
}

// FlagSpace is the space of all combinations of the flags that their conditions allow. A contradiction among these is a
// [*flags.Error], which names the flag.
func FlagSpace(all []Flag) (*flags.Flags, error) {
	var out []flags.Flag
	for _, f := range all {
		out = append(out, f.Flag)
	}
	return flags.New(out)
}
