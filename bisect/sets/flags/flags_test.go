package flags

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// oracle times out where guilty says so, and keeps which sets it was asked.
type oracle struct {
	guilty func(on lattice.Set) bool
	asked  []lattice.Set
}

func (o *oracle) Test(_ context.Context, r sets.Request) (sets.Result, error) {
	o.asked = append(o.asked, r.Set)
	if o.guilty(r.Set) {
		return sets.Result{Answer: sets.Fail, Seconds: 180, Class: bisect.Timeout}, nil
	}
	return sets.Result{Answer: sets.Pass, Seconds: 12, Class: bisect.OK}, nil
}

// find searches for all guilty sets of flags, each set tested once.
func find(t testing.TB, f *Flags, o *oracle) sets.Finding {
	t.Helper()
	found, err := (&sets.Search{Space: f.Space, Oracle: o, Goal: sets.All, Repeats: 1}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func newFlags(t testing.TB, list ...Flag) *Flags {
	t.Helper()
	f, err := New(list)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// assigned lists what a set changes, as NAME=VALUE.
func assigned(f *Flags, on lattice.Set) string {
	base := f.Assign(nil)
	var out []string
	for name, v := range f.Assign(on) {
		if v != base[name] {
			out = append(out, name+"="+v)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func round9Levels() []Flag {
	return []Flag{
		{Name: "mode", Values: []string{"off", "default", "reduce-overhead", "max-autotune"}, Ordered: true},
		{Name: "fullgraph", Values: []string{"0", "1"}, Requires: []string{"mode!=off"}},
		{Name: "warmup", Values: []string{"3", "10"}},
		{Name: "block_m", Values: []string{"64", "128"}},
	}
}

// The case of section 5 with levels: 28 states are valid, the least guilty level is found.
func TestCaseLevels(t *testing.T) {
	f := newFlags(t, round9Levels()...)
	valid := 0
	for bits := range 1 << f.Space.Len() {
		if f.Space.Valid((lattice.Set{uint64(bits)}).And(lattice.First(f.Space.Len()))) {
			valid++
		}
	}
	if valid != 28 {
		t.Errorf("%d valid states", valid)
	}
	o := &oracle{guilty: func(on lattice.Set) bool {
		v := f.Assign(on)
		return v["mode"] == "max-autotune" && v["warmup"] == "10"
	}}
	found := find(t, f, o)
	for _, on := range o.asked {
		if v := f.Assign(on); !f.Space.Valid(on) || v["fullgraph"] == "1" && v["mode"] == "off" {
			t.Errorf("invalid: %v", v)
		}
	}
	tests, fails, seconds := found.Counts.Tests-2, -1, found.Counts.Seconds-180-12 // without the ends
	for _, x := range found.Tests {
		if !x.Inferred && x.Answer == sets.Fail {
			fails++
		}
	}
	if tests > 10 || fails > 4 || seconds > 900 {
		t.Errorf("%d tests, %d failures, %.0f s", tests, fails, seconds)
	}
	if len(found.Minimal) != 1 || assigned(f, found.Minimal[0].Atoms) != "mode=max-autotune warmup=10" {
		t.Fatalf("%+v", found.Minimal)
	}
	var culprits []string
	for _, m := range found.Minimal[0].Members {
		if m.Role == sets.Culprit {
			culprits = append(culprits, f.Space.Atom(m.Atom).Name)
		}
	}
	if want := []string{"mode: reduce-overhead->max-autotune", "warmup: 3->10"}; !slices.Equal(culprits, want) {
		t.Errorf("culprits %q", culprits)
	}
	var safe []string
	for _, s := range found.Safe {
		safe = append(safe, assigned(f, s.Atoms))
	}
	slices.Sort(safe)
	want := []string{"block_m=128 fullgraph=1 mode=max-autotune", "block_m=128 fullgraph=1 mode=reduce-overhead warmup=10"}
	if !slices.Equal(safe, want) || !found.Complete {
		t.Errorf("safe %q, complete %v", safe, found.Complete)
	}
}

// The other values of a nominal flag are tried once it is guilty.
func TestNominalValues(t *testing.T) {
	f := newFlags(t, Flag{Name: "backend", Values: []string{"eager", "triton", "cutlass", "aten"}},
		Flag{Name: "graph", Values: []string{"0", "1"}, Requires: []string{"backend!=eager"}},
		Flag{Name: "fast", Values: []string{"0", "1"}})
	o := &oracle{guilty: func(on lattice.Set) bool {
		v := f.Assign(on)
		return v["graph"] == "1" && v["backend"] != "cutlass" && v["backend"] != "eager"
	}}
	found := find(t, f, o)
	if len(found.Minimal) != 1 || assigned(f, found.Minimal[0].Atoms) != "backend=aten graph=1" {
		t.Fatalf("%+v", found.Minimal)
	}
	got := map[string]sets.Answer{}
	for _, x := range found.Minimal[0].Others {
		got[f.Space.Atom(x.Atom).Name] = x.Answer
	}
	if want := map[string]sets.Answer{"backend: eager->triton": sets.Fail, "backend: eager->cutlass": sets.Pass}; !maps.Equal(got, want) {
		t.Errorf("other values %v", got)
	}
}

func TestClaimsOfFlags(t *testing.T) {
	f := newFlags(t, round9Levels()...)
	set, err := f.Claim([]string{"mode=reduce-overhead", "warmup=10"})
	if err != nil || assigned(f, set) != "mode=reduce-overhead warmup=10" {
		t.Errorf("%v %v", set, err)
	}
	for _, terms := range [][]string{nil, {"mode=off"}, {"mode!=default"}, {"nope=1"}, {"mode=x"}, {"mode"}} {
		if _, err := f.Claim(terms); err == nil {
			t.Errorf("claim %q was taken", terms)
		}
	}
}

// What no space can be made of: the flag and what was expected of it.
func TestFlagsRefused(t *testing.T) {
	two, three := []string{"0", "1"}, []string{"0", "1", "2"}
	a, b := Flag{Name: "a", Values: two}, Flag{Name: "b", Values: two}
	with := func(f Flag, change func(*Flag)) Flag { change(&f); return f }
	parts := func(terms ...string) Flag { return with(a, func(f *Flag) { f.Parts = terms }) }
	for name, c := range map[string]struct {
		list []Flag
		want string
	}{
		"one value":                {[]Flag{{Name: "a", Values: []string{"0"}}}, "flag a: expected a base value and at least one other"},
		"one name twice":           {[]Flag{a, b, a}, "flag a: duplicate name"},
		"one value twice":          {[]Flag{{Name: "a", Values: []string{"0", "1", "0"}}}, `flag a: duplicate value "0"`},
		"an unknown bad value":     {[]Flag{with(a, func(f *Flag) { f.Bad = "2" })}, `flag a: invalid bad value "2"`},
		"the base as bad value":    {[]Flag{with(a, func(f *Flag) { f.Bad = "0" })}, `flag a: invalid bad value "0"`},
		"a circle":                 {[]Flag{with(a, func(f *Flag) { f.Requires = []string{"b=1"} }), with(b, func(f *Flag) { f.Requires = []string{"a=1"} })}, "flag a: cyclic requirements, so that none of these can be on: a: 0->1 needs b: 0->1 needs a: 0->1"},
		"an unknown flag":          {[]Flag{with(a, func(f *Flag) { f.Requires = []string{"c=1"} })}, `flag a: requires: invalid term "c=1": unknown flag`},
		"an unknown value":         {[]Flag{b, with(a, func(f *Flag) { f.Excludes = []string{"b=7"} })}, `flag a: excludes: invalid term "b=7": unknown value "7" (expected 0, 1)`},
		"no term":                  {[]Flag{b, with(a, func(f *Flag) { f.Excludes = []string{"b"} })}, `flag a: excludes: invalid term "b": expected NAME=VALUE or NAME!=VALUE`},
		"about itself":             {[]Flag{with(a, func(f *Flag) { f.Excludes = []string{"a=0"} })}, "it is about the flag itself"},
		"beyond the bad value":     {[]Flag{{Name: "b", Values: three, Bad: "1", Ordered: true}, with(a, func(f *Flag) { f.Requires = []string{"b=2"} })}, "flag a: requires: b=2 is beyond the bad value 1"},
		"one part":                 {[]Flag{parts("b=1"), b}, "flag a: parts: expected at least two, got b=1 alone"},
		"an unknown part":          {[]Flag{parts("b=1", "c=1"), b}, `flag a: parts: invalid term "c=1"`},
		"a part at its base":       {[]Flag{parts("b=1", "c=0"), b, {Name: "c", Values: two}}, `flag a: parts: "c=0" must name a value other than the base 0`},
		"a part of another value":  {[]Flag{parts("b=1", "c!=1"), b, {Name: "c", Values: two}}, `"c!=1" must name a value other than`},
		"itself as a part":         {[]Flag{parts("b=1", "a=1"), b}, "flag a: parts: a has parts itself"},
		"a part with parts":        {[]Flag{parts("b=1", "c=1"), b, {Name: "c", Values: two, Parts: []string{"b=1", "d=1"}}, {Name: "d", Values: two}}, "flag a: parts: c has parts itself"},
		"one part twice":           {[]Flag{parts("b=1", "b=1"), b}, "flag a: parts: b is a part already"},
		"a part with requirements": {[]Flag{parts("b=1", "c=1"), with(b, func(f *Flag) { f.Requires = []string{"c=1"} }), {Name: "c", Values: two}}, "flag a: parts: a part cannot require or exclude anything, but b does"},
		"a condition about a part": {[]Flag{parts("b=1", "c=1"), b, {Name: "c", Values: two}, {Name: "d", Values: two, Requires: []string{"b=1"}}}, `flag d: "b=1" is about a part of a: name that flag instead`},
	} {
		f, err := New(c.list)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			continue
		}
		var flag *Error
		if !errors.As(err, &flag) || f != nil {
			t.Errorf("%s: %#v", name, err)
		}
	}
}

// A value that stands for parts is one atom until it is blamed; then its parts are searched in its place, and the
// claims and texts of sets say what is set.
func TestParts(t *testing.T) {
	f := newFlags(t, Flag{Name: "x", Values: []string{"0", "1"}},
		Flag{Name: "all", Values: []string{"off", "half", "on"}, Parts: []string{"p=2", "q=1"}},
		Flag{Name: "p", Values: []string{"0", "1", "2"}}, Flag{Name: "q", Values: []string{"0", "1"}})
	atom := map[string]int{}
	for i := range f.Space.Len() {
		atom[f.Space.Atom(i).Name] = i
	}
	if len(atom) != 3 {
		t.Fatalf("parts have atoms of their own: %v", atom)
	}
	on := lattice.Of(atom["all: off->on"])
	for name, c := range map[string]struct {
		set  lattice.Set
		want string
	}{
		"nothing":       {nil, "x=0,all=off,p=0,q=0"},
		"another value": {lattice.Of(atom["all: off->half"]), "x=0,all=half,p=0,q=0"},
		"the value":     {on, "x=0,all=on"}, // it says what its parts are
	} {
		if got := f.Text(c.set); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if _, err := f.Claim([]string{"q=1"}); err == nil || !strings.Contains(err.Error(), `"q=1" is a part of all=on: claim that instead`) {
		t.Errorf("a claim of a part: %v", err)
	}
	if got := f.Expand(atom["x: 0->1"]); got != nil {
		t.Errorf("parts of a flag without any: %v", got)
	}
	if got := f.Expand(atom["all: off->half"]); got != nil {
		t.Errorf("parts of another value: %v", got)
	}
	parts := f.Expand(atom["all: off->on"])
	space, err := f.Space.Expand(atom["all: off->on"], parts)
	if err != nil || len(parts) != 2 || parts[0].Name != "p: 0->2" || parts[1].Name != "q: 0->1" {
		t.Fatalf("%v %v", parts, err)
	}
	f.Space = space
	one := lattice.Of(space.Len() - 1)
	if got := f.Text(one); got != "x=0,all=off,p=0,q=1" || f.Words(one) != "q=1" {
		t.Errorf("one part: %s", got)
	}
}

// A search whose blamed value has parts names the part.
func TestSearchOfParts(t *testing.T) {
	f := newFlags(t, Flag{Name: "x", Values: []string{"0", "1"}},
		Flag{Name: "all", Values: []string{"off", "on"}, Parts: []string{"p=1", "q=1", "r=1"}},
		Flag{Name: "p", Values: []string{"0", "1"}}, Flag{Name: "q", Values: []string{"0", "1"}}, Flag{Name: "r", Values: []string{"0", "1"}})
	o := &oracle{guilty: func(on lattice.Set) bool {
		v := f.Assign(on)
		return v["x"] == "1" && (v["all"] == "on" || v["q"] == "1")
	}}
	search := &sets.Search{Space: f.Space, Oracle: o, Goal: sets.All, Repeats: 1, Expand: f.Expand}
	found, err := search.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Minimal) != 1 || f.Words(found.Minimal[0].Atoms) != "x=1 q=1" {
		t.Errorf("%+v", found.Minimal)
	}
}

// Every term means for valid sets what it says about the values.
func TestTermsMeanWhatTheySay(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		values := []string{"0", "1", "2", "3"}
		for _, value := range values {
			for _, equal := range []bool{false, true} {
				for _, excludes := range []bool{false, true} {
					term := fmt.Sprintf("b!=%s", value)
					if equal {
						term = "b=" + value
					}
					a := Flag{Name: "a", Values: []string{"0", "1"}}
					if excludes {
						a.Excludes = []string{term}
					} else {
						a.Requires = []string{term}
					}
					f, err := New([]Flag{a, {Name: "b", Values: values, Ordered: ordered}})
					if err != nil {
						continue // said to be out of reach
					}
					for bits := range 1 << f.Space.Len() {
						on := (lattice.Set{uint64(bits)}).And(lattice.First(f.Space.Len()))
						v := f.Assign(on)
						holds := (v["b"] == value) == equal
						if f.Space.Valid(on) && v["a"] == "1" && holds == excludes {
							t.Errorf("ordered %v, excludes %v, %s: %v is valid", ordered, excludes, term, v)
						}
					}
				}
			}
		}
	}
}

func FuzzTerm(f *testing.F) {
	fl, err := New(round9Levels())
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"mode=off", "mode!=off", "warmup=10", "=", "!=", "mode"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := fl.Claim([]string{text})
		if err == nil && !fl.Space.Valid(set) {
			t.Errorf("%q: %v", text, set)
		}
	})
}

// A condition that leaves out a value in the middle takes the order of the other flag away, and says so.
func TestFlagsLoseTheirOrder(t *testing.T) {
	f, err := New([]Flag{
		{Name: "a", Values: []string{"0", "1"}, Requires: []string{"b!=1"}},
		{Name: "b", Values: []string{"0", "1", "2"}, Ordered: true},
	})
	if err != nil || len(f.Notes) != 1 {
		t.Fatalf("%v %q", err, f.Notes)
	}
	one, err := f.Claim([]string{"a=1", "b=2"})
	if err != nil || !f.Space.Valid(one) || f.Text(one) != "a=1,b=2" || f.Words(one) != "a=1 b=2" || f.Words(nil) != "all flags at their base" {
		t.Errorf("%v %v %q", err, one, f.Text(one))
	}
	for i := range f.Space.Len() {
		if set := f.Space.Close(lattice.Of(i)).Or(lattice.Of(0)); f.Assign(set)["b"] == "1" && f.Space.Valid(set) {
			t.Errorf("%s is valid", f.Text(set))
		}
	}
}
