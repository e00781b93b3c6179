// Package figures holds what is seen of two sides, row by row: how far a figure moved, whether that is more than noise,
// and which figures explain a difference. A [Row] is one figure of both sides; [Rank] picks the few that explain most,
// and [Summary] says so in a sentence. It must not know where figures come from or how a report shows them.
package figures

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Number is null in JSON when it is not known.
type Number = bisect.Number

// Row is one figure of A and of B.
type Row struct {
	Group  string  `json:"group"`  // phases, metrics, kernels, resources, instructions, profiler
	Kernel string  `json:"kernel"` // which it is about; "" for the program as a whole
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	A      Number  `json:"a"`
	B      Number  `json:"b"`
	TextA  string  `json:"a_text"` // where it is text rather than a number
	TextB  string  `json:"b_text"`
	Sort   Sort    `json:"sort"`
	Share  Number  `json:"share"`  // of the device's time that the kernel takes, in the slower of both
	Better string  `json:"better"` // lower, higher or unknown, of a metric
	Noise  float64 `json:"noise"`  // relative change that means nothing
	Whole  Number  `json:"whole"`  // of which the figure is a part, where a part as small as this moves easily
	Key    bool    `json:"key"`    // shown even if it did not move
	Score  Number  `json:"score"`  // how far it moved, weighted; see [Rank]

	Metric, Case string `json:"-"` // of which the row is, where a search may have been about it

	found  *bisect.Effect // what the search found of this very number, from more launches
	beside bool           // a time that is not what was searched for
}

// Sort says what kind of figure a row holds: how much its change explains, and which direction is worse.
type Sort string

// The sorts. Of each, at most one row is among those that moved most.
const (
	SortTime         Sort = "time"   // how long it takes: what is to be explained
	SortPhase        Sort = "phase"  // likewise
	SortConfig       Sort = "config" // grid, block
	SortLaunches     Sort = "launches"
	SortGraphs       Sort = "graphs"
	SortCompiles     Sort = "compiles"
	SortRegisters    Sort = "registers"
	SortSpills       Sort = "spills"
	SortShared       Sort = "shared"
	SortOccupancy    Sort = "occupancy"
	SortInstructions Sort = "instructions"
	SortMix          Sort = "mix"
	SortUse          Sort = "use" // how well a unit of the device is used
	SortTraffic      Sort = "traffic"
	SortStalls       Sort = "stalls"
	SortLimit        Sort = "limit" // what bounds the occupancy: a text, which explains the others
	SortNone         Sort = ""
)

// weight is how much a change in a row of this sort explains, relative to 1 for the time itself, and whether more is
// worse (1), better (-1) or neither (0). The weights are judgement: what is rare and usually decisive (spills, graph breaks,
// recompiles, occupancy) counts more than what moves with every change (instructions, their mix).
func (s Sort) weight() (weight float64, worse int) {
	w := map[Sort]struct {
		weight float64
		worse  int
	}{
		SortTime: {1, 1}, SortPhase: {1, 1}, SortConfig: {0.9, 0}, SortLaunches: {1, 1}, SortGraphs: {1.2, -1}, SortCompiles: {1.2, 1},
		SortRegisters: {0.8, 1}, SortSpills: {1.3, 1}, SortShared: {0.8, 1}, SortOccupancy: {1.2, -1},
		SortInstructions: {0.6, 1}, SortMix: {0.5, 0}, SortUse: {0.6, -1}, SortTraffic: {0.7, 1}, SortStalls: {0.6, 1},
	}[s]
	return w.weight, w.worse
}

// effect reports whether rows of this sort are the effect to be explained rather than an explanation.
func (s Sort) effect() bool { return s == SortTime || s == SortPhase }

// Numbers makes a row of two numbers; NaN is not known.
func Numbers(group, kernel, name, unit string, sort Sort, a, b float64) Row {
	return Row{Group: group, Kernel: kernel, Name: name, Unit: unit, Sort: sort, A: Number(a), B: Number(b), Share: bisect.Unknown(), Whole: bisect.Unknown(), Score: bisect.Unknown()}
}

// Texts makes a row of two texts; "" is not known.
func Texts(group, kernel, name string, sort Sort, a, b string) Row {
	r := Numbers(group, kernel, name, "", sort, math.NaN(), math.NaN())
	r.TextA, r.TextB = a, b
	return r
}

// isNumber tells rows of numbers from those of texts, also when they were read from JSON.
func (r Row) isNumber() bool { return r.TextA == "" && r.TextB == "" }

// Empty reports whether a row has no figure at all.
func (r Row) Empty() bool { return r.isNumber() && !r.A.Known() && !r.B.Known() }

// mostMoved is the magnitude beyond which a change counts as no larger: tenfold, or from nothing.
var mostMoved = math.Log(10)

// leastOfWhole is the share of a whole launch by which a phase must have moved to count.
const leastOfWhole = 0.04

// magnitude is how far a row moved: the logarithm of the ratio, or of percentages the points, at most mostMoved and 0
// within noise. up is the direction, 0 where there is none.
func (r Row) magnitude() (size float64, up int) {
	if r.beside {
		return 0, 0
	}
	if f := r.found; f != nil {
		return min(math.Abs(math.Log(f.Ratio)), mostMoved), cmp.Compare(f.Ratio, 1)
	}
	if !r.isNumber() {
		if r.TextA == "" || r.TextB == "" || r.TextA == r.TextB {
			return 0, 0
		}
		return mostMoved / 3, 0
	}
	a, b := float64(r.A), float64(r.B)
	if !r.A.Known() || !r.B.Known() || a == b {
		return 0, 0
	}
	up = cmp.Compare(b, a)
	switch {
	case r.Unit == "%":
		size = math.Abs(b-a) / 100 * mostMoved
	case r.Whole > 0:
		if r.scatter() {
			return 0, up
		}
		if size = min(math.Abs(b-a)/float64(r.Whole), 1) * mostMoved; size <= leastOfWhole*mostMoved {
			return 0, up
		}
		return size, up
	case a > 0 && b > 0:
		size = min(math.Abs(math.Log(b/a)), mostMoved)
	default:
		size = mostMoved
	}
	if size <= math.Log1p(r.Noise) {
		return 0, up
	}
	return size, up
}

// Rank scores rows, in place, and returns those that moved most: first the time that moved most, if one did, then what
// explains it, each of another sort. What moved against that time counts less, and rows of a kernel count by the
// kernel's share of the time.
//
// Where something was searched for (about), that is the time, and other times of the whole program explain nothing. A
// number of the compiler is not explained by times, and best by other numbers of its kernel.
func Rank(rows []Row, about *bisect.Effect) (moved []Row) {
	e := &ranking{rows: rows, about: about, moved: []Row{}}
	e.rank()
	return e.moved
}

// ranking is rows on their way to be ranked.
type ranking struct {
	rows  []Row
	about *bisect.Effect // what was searched for and is to be explained; nil: whatever moved
	moved []Row
}

func (e *ranking) rank() {
	about := slices.ContainsFunc(e.rows, e.searched)
	for i := range e.rows {
		r := &e.rows[i]
		switch {
		case !e.searched(*r):
			r.beside = about && r.Kernel == "" && r.Sort.effect()
		case e.about.Ratio > 0 && e.about.Case == r.Case && !exact(e.about):
			r.found = e.about
		}
		size, _ := r.magnitude()
		weight, _ := e.rows[i].Sort.weight()
		if share := e.rows[i].Share; share.Known() {
			weight *= math.Sqrt(float64(share)) // a small kernel may still be the one that matters
		}
		if exact(e.about) && (e.rows[i].Kernel == e.about.Case || strings.HasPrefix(e.rows[i].Kernel, e.about.Case+"<")) {
			weight *= 10
		}
		e.rows[i].Score = Number(size * weight)
	}
	direction := 0
	// The time comes first, since the rest is held against its direction.
	r, ok := e.top(e.searched)
	if !ok && !about && !exact(e.about) {
		r, ok = e.top(func(r Row) bool { return r.Sort.effect() })
	}
	if ok {
		_, direction = r.magnitude()
		e.moved = append(e.moved, r)
	}
	for i, r := range e.rows {
		_, up := r.magnitude()
		if _, worse := r.Sort.weight(); worse != 0 && !r.Sort.effect() && up*worse*direction < 0 {
			e.rows[i].Score *= 0.3
		}
	}
	for range 3 - len(e.moved) {
		r, ok := e.top(func(r Row) bool {
			return !r.Sort.effect() && !slices.ContainsFunc(e.moved, func(m Row) bool { return m.Sort == r.Sort })
		})
		if ok {
			e.moved = append(e.moved, r)
		}
	}
}

// exact reports whether a number of the compiler is to be explained.
func exact(about *bisect.Effect) bool { return about != nil && about.Exact != nil }

// searched reports whether a row is of the number that was searched for.
func (e *ranking) searched(r Row) bool {
	if e.about == nil || r.Kernel != "" {
		return false
	}
	return r.Metric == e.about.Metric && (e.about.Case == "" || r.Case == e.about.Case)
}

// top is the row with the highest score of those that count.
func (e *ranking) top(counts func(Row) bool) (best Row, ok bool) {
	for _, r := range e.rows {
		if counts(r) && r.Score > 0 && (!ok || r.Score > best.Score) {
			best, ok = r, true
		}
	}
	return best, ok
}

// Summary is the largest changes in a sentence: rows are those that moved most of all, as Rank returns them.
func Summary(rows, all []Row) string {
	switch {
	case len(all) == 0:
		return "Neither side could be examined."
	case len(rows) == 0 && slices.ContainsFunc(all, Row.Changed):
		return "No figure explains the difference."
	case len(rows) == 0:
		return "Nothing that was examined has changed."
	}
	var parts []string
	for i, r := range rows {
		parts = append(parts, r.Words(i == 0 || rows[i-1].Kernel != r.Kernel))
	}
	return "Largest changes: " + strings.Join(parts, "; ") + "."
}

// Words are a row in a sentence; named says of which kernel it is.
func (r Row) Words(named bool) string {
	where := ""
	if named && r.Kernel != "" {
		where = " of " + KernelName(r.Kernel)
	}
	text := fmt.Sprintf("%s%s %s to %s", r.Figure(), where, r.CellA(), r.CellB())
	if change := r.Change(); change != "" {
		text += " (" + change + ")"
	}
	return text
}

// Figure is what a row is of; of a metric, which values are better, where that is known.
func (r Row) Figure() string {
	if r.Better != words.Direction(true) && r.Better != words.Direction(false) {
		return r.Name
	}
	return r.Name + " (" + r.Better + " is better)"
}

// CellA and CellB are the figures of the two sides for people.
func (r Row) CellA() string { return r.cell(r.A, r.TextA) }
func (r Row) CellB() string { return r.cell(r.B, r.TextB) }

// cell is one figure for people.
func (r Row) cell(n Number, text string) string {
	switch {
	case !r.isNumber():
		return cmp.Or(words.Printable(text), "-")
	case !n.Known():
		return "-"
	case r.Unit == "s" || r.Unit == "B/s":
		return words.Quantity(float64(n), r.Unit)
	case float64(n) == math.Trunc(float64(n)) && math.Abs(float64(n)) < 1e6:
		return fmt.Sprintf("%.0f%s", float64(n), words.Unit(r.Unit))
	case math.Abs(float64(n)) >= 1e6:
		scale, name := words.Prefixed(float64(n), cmp.Or(r.Unit, "op/s"))
		return strings.TrimSuffix(words.Figure(float64(n)*scale)+words.Unit(name), "op/s")
	}
	return words.Figure(float64(n)) + words.Unit(r.Unit)
}

// Change is how far a row moved, for people, and whether that is more than noise and what is to be explained.
func (r Row) Change() string {
	s := r.moved()
	switch f := r.found; {
	case f != nil && !r.agrees():
		return strings.TrimPrefix(s+" here, ", " here, ") + words.Interval(f.Ratio, f.Low, f.High, 0.95) + " in the search"
	case f != nil:
		return words.Change(f.Ratio) + " in the search"
	case s == "":
	case r.scatter():
		s += " (within noise)"
	case r.beside:
		s += " (not searched for)"
	}
	return s
}

// agrees reports whether the launches that are compared show what the search found.
func (r Row) agrees() bool {
	ratio := float64(r.B / r.A)
	return r.found.Low <= ratio && ratio <= r.found.High
}

// Changed reports whether a row moved by more than noise and has to do with what was searched for.
func (r Row) Changed() bool { return r.found != nil || r.moved() != "" && !r.scatter() && !r.beside }

// scatter reports whether a change is within noise.
func (r Row) scatter() bool {
	a, b := float64(r.A), float64(r.B)
	return r.Unit != "%" && a > 0 && b > 0 && math.Abs(math.Log(b/a)) <= math.Log1p(r.Noise)
}

// moved is how far a row moved, for people: "new" where it was nothing before, "" where it did not or is not known.
func (r Row) moved() string {
	a, b := float64(r.A), float64(r.B)
	switch {
	case !r.isNumber():
		if r.TextA != r.TextB && r.TextA != "" && r.TextB != "" {
			return "changed"
		}
		return ""
	case !r.A.Known() || !r.B.Known() || a == b:
		return ""
	case r.Unit == "%":
		return fmt.Sprintf("%+.3g points", b-a)
	case a > 0:
		return words.Change(b / a)
	}
	return "new"
}

// kernelMost bounds the characters of a kernel's name.
const kernelMost = 48

// qualifier is what stands before a name in C++: namespaces, and the return type of a template.
var qualifier = regexp.MustCompile(`^void |\(anonymous namespace\)::|\b[A-Za-z_]\w*::`)

// KernelName is the name of a kernel as a table has room for it. A long one loses its namespaces before it is cut:
// the kernels of PyTorch are templates of the same few names, and only their arguments tell them apart.
func KernelName(s string) string {
	if utf8.RuneCountInString(s) > kernelMost {
		s = qualifier.ReplaceAllString(s, "")
	}
	return words.Cut(s, kernelMost)
}
