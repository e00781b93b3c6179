package metric

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// worstKernel stands for the name of a kernel where whichever is worst in a build is meant.
const worstKernel = "the worst kernel"

// kernel says how the kernel of an exact number is found in builds that may name it otherwise, or lack it.
type kernel struct {
	names  []string        // at the good and at the bad end
	others map[string]bool // names that the ends give, and so of other kernels where not among these
	worst  bool            // whichever kernel of a build is worst: the ends have none in common
}

// Figure is the number of one kernel in one build.
type Figure struct {
	Level float64
	name  string // as the build gives it; "" where there is no such kernel
}

// Figure finds the kernel in a build: by name, or else by the name of its function where exactly one other kernel of
// that function is left. ok is false where the build does not tell the number.
func (c Channel) Figure(o bisect.Outcome) (f Figure, ok bool) {
	var own, kin []Figure
	told := false
	for i, s := range o.Series {
		y, good := c.Metric.Level(bisect.Outcome{Series: o.Series[i : i+1]})
		if s.Metric != c.Metric.Name || !good {
			continue
		}
		told = true
		switch x := (Figure{y, s.Case}); {
		case c.kernel.worst || slices.Contains(c.kernel.names, s.Case):
			own = append(own, x)
		case !c.kernel.others[s.Case] && Family(s.Case) == Family(c.Case):
			kin = append(kin, x)
		}
	}
	switch {
	case len(own) > 0:
		return slices.MaxFunc(own, func(a, b Figure) int { return cmp.Compare(a.Level, b.Level) }), true
	case len(kin) == 1:
		return kin[0], true
	case len(kin) == 0 && told && c.Metric.fromNothing():
		return Figure{Level: math.Log(zeroAs)}, true
	}
	return Figure{}, false
}

// Was is the case as the first of two launches names it, where the second has the kernel under another name; "" for a
// number that is not of a kernel.
func (c Channel) Was() string {
	if c.kernel == nil || c.kernel.worst {
		return ""
	}
	return c.kernel.names[0]
}

// OfWorst reports whether the number is that of whichever kernel is worst in a build.
func (c Channel) OfWorst() bool { return c.kernel != nil && c.kernel.worst }

// Words are a figure for people, with the kernel where the channel does not name it.
func (c Channel) Words(f Figure) string {
	v := fmt.Sprintf("%.8g", c.Value(f.Level))
	switch {
	case f.name == "":
		return v + " (no such kernel)"
	case c.kernel.worst || f.name != c.Case:
		return fmt.Sprintf("%s (%s)", v, f.name)
	}
	return v
}

// Family is the name of a kernel without template arguments and parameters: its function.
func Family(name string) string {
	i := strings.IndexAny(name, "<(")
	if i < 0 {
		return name
	}
	return name[:i] + name[strings.LastIndexAny(name, ">)")+1:]
}

// without is a list less one name.
func without(all []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == name })
}

// Renamed pairs names that only one of two builds has, where they are the only such names of their family: a template
// with other arguments.
func Renamed(a, b []string, family func(string) string) (pairs [][2]string) {
	alone := func(all []string, others map[string]bool) map[string]string {
		out, count := map[string]string{}, map[string]int{}
		for _, n := range all {
			if f := family(n); !others[n] {
				out[f] = n
				count[f]++
			}
		}
		for f, n := range count {
			if n > 1 {
				delete(out, f)
			}
		}
		return out
	}
	inA, inB := alone(a, setOf(b)), alone(b, setOf(a))
	for _, n := range a {
		if other := inB[family(n)]; other != "" && inA[family(n)] == n {
			pairs = append(pairs, [2]string{n, other})
		}
	}
	return pairs
}

// Kernels are the channels of an exact metric: the kernels that both ends have, under one name or as the only one of
// their function, since a template with other arguments is still one kernel.
//
// A kernel that only one end has counts as appearing or disappearing. But if its number is not larger than that of a
// kernel which only the other end has, it may be the same kernel renamed, and does not count. If that leaves no
// channel, the worst kernels of both builds are compared. left are the names of either end that are not compared.
func Kernels(m Metric, g, b bisect.Outcome) (cs []Channel, left [2][]string) {
	names := [2][]string{Cases(m, g), Cases(m, b)}
	others := setOf(slices.Concat(names[0], names[1]))
	of := func(names ...string) Channel {
		return Channel{Metric: m, Case: names[len(names)-1], kernel: &kernel{names: names, others: others}}
	}
	shared := setOf(InCommon(names[0], names[1]))
	for _, n := range names[0] {
		if shared[n] {
			cs = append(cs, of(n))
		}
	}
	for side := range left {
		left[side] = slices.DeleteFunc(slices.Clone(names[side]), func(n string) bool { return shared[n] })
	}
	for _, p := range Renamed(names[0], names[1], Family) {
		cs = append(cs, of(p[:]...))
		for side := range left {
			left[side] = without(left[side], p[side])
		}
	}
	if m.fromNothing() {
		var more []Channel
		ends := [2]Parts{NewParts(g), NewParts(b)}
		more, left = fromNothing(m, left, ends, of)
		cs = append(cs, more...)
	}
	if len(cs) == 0 {
		return []Channel{{Metric: m, Case: worstKernel, kernel: &kernel{worst: true}}}, left
	}
	return cs, left
}

// fromNothing takes the kernels of one end that exceed every kernel that only the other end has; left are the others.
func fromNothing(m Metric, only [2][]string, ends [2]Parts, of func(...string) Channel) (cs []Channel, left [2][]string) {
	level := func(side int, n string) float64 {
		y, _ := m.Level(bisect.Outcome{Series: ends[side].by[n]})
		return y
	}
	most := [2]float64{math.Log(zeroAs), math.Log(zeroAs)}
	for side, names := range only {
		for _, n := range names {
			most[side] = max(most[side], level(side, n))
		}
	}
	for side, names := range only {
		for _, n := range names {
			if level(side, n) > most[1-side] {
				cs = append(cs, of(n))
			} else {
				left[side] = append(left[side], n)
			}
		}
	}
	return cs, left
}
