package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kbisect/kbisect/bisect"
)

// ExplanationSchema names the JSON document of an explanation and its version.
const ExplanationSchema = "kbisect.explanation/1"

// Explanation is why B differs from A: one table of what was seen of both, and what of it moved most.
// Numbers that are not known are null.
type Explanation struct {
	Schema    string     `json:"schema"`
	Session   string     `json:"session"`
	Result    string     `json:"result"`  // explained, partly, infra, interrupted
	Summary   string     `json:"summary"` // what moved most, in a sentence
	A         Candidate  `json:"a"`
	B         Candidate  `json:"b"`
	Rows      []Row      `json:"rows"`
	Moved     []Row      `json:"moved"` // those that moved most, two or three
	Added     []string   `json:"kernels_added"`
	Gone      []string   `json:"kernels_gone"`
	Profilers []string   `json:"profilers"` // that were used, with their versions
	Missing   []string   `json:"missing"`   // what could not be looked at, and why
	Builds    []BuildEnd `json:"builds"`    // that failed or did not end
	Totals    Totals     `json:"totals"`
	Devices   []string   `json:"devices"`
	Warnings  []string   `json:"warnings"`
	Error     *string    `json:"error"`

	About *bisect.Effect `json:"-"` // what was searched for and is to be explained; nil: whatever moved
}

// Row is one figure of A and of B.
type Row struct {
	Group  string  `json:"group"`  // phases, kernels, resources, instructions, profiler
	Kernel string  `json:"kernel"` // which it is about; "" for the program as a whole
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	A      Number  `json:"a"`
	B      Number  `json:"b"`
	TextA  string  `json:"a_text"` // where it is no number
	TextB  string  `json:"b_text"`
	Sort   Sort    `json:"sort"`
	Share  Number  `json:"share"` // of the device's time that the kernel takes, in the slower of both
	Noise  float64 `json:"noise"` // relative change that means nothing
	Whole  Number  `json:"whole"` // of which the figure is a part, where a part as small as this moves easily
	Key    bool    `json:"key"`   // shown even if it did not move
	Score  Number  `json:"score"` // how far it moved, weighted; see [Explanation.Rank]
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
	SortNone         Sort = ""
)

// weights say how much a change of each sort explains, and whether more of it is worse (1) or better (-1).
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

// effect reports rows that are what is to be explained rather than an explanation.
func (s Sort) effect() bool { return s == SortTime || s == SortPhase }

// BuildEnd is a build that did not end well.
type BuildEnd struct {
	Side    string   `json:"side"` // A or B
	Failure *Failure `json:"failure"`
	Seconds float64  `json:"seconds"`
	Tail    string   `json:"tail"` // what it said last
}

// Numbers makes a row of two numbers; NaN is not known.
func Numbers(group, kernel, name, unit string, sort Sort, a, b float64) Row {
	return Row{Group: group, Kernel: kernel, Name: name, Unit: unit, Sort: sort, A: Number(a), B: Number(b), Share: unknown(), Whole: unknown(), Score: unknown()}
}

// Texts makes a row of two texts; "" is not known.
func Texts(group, kernel, name string, sort Sort, a, b string) Row {
	r := Numbers(group, kernel, name, "", sort, math.NaN(), math.NaN())
	r.TextA, r.TextB = a, b
	return r
}

func unknown() Number { return Number(math.NaN()) }

// isNumber tells rows of numbers from those of texts, also when they were read from JSON.
func (r Row) isNumber() bool { return r.TextA == "" && r.TextB == "" }

// empty reports a row without any figure.
func (r Row) empty() bool { return r.isNumber() && !r.A.Known() && !r.B.Known() }

// mostMoved is the magnitude from which on a change counts as no larger: tenfold, or from nothing.
var mostMoved = math.Log(10)

// leastOfWhole is the share of a whole launch below which a phase has not moved.
const leastOfWhole = 0.04

// magnitude is how far a row moved: the logarithm of the ratio; of percentages, the points. Up tells
// in which direction, 0 where there is none.
func (r Row) magnitude() (size float64, up int) {
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

// Rank scores all rows and names those that moved most: the time that moved most, if one did, then
// what explains it, each of another sort. What moved against that time counts less, and rows of a
// kernel by the kernel's share of the time. Where something was searched for, that is the time; a number of
// the compiler is not explained by times, and best by the kernel that it is of.
func (e *Explanation) Rank() {
	e.Moved = []Row{}
	for i := range e.Rows {
		size, _ := e.Rows[i].magnitude()
		weight, _ := e.Rows[i].Sort.weight()
		if share := e.Rows[i].Share; share.Known() {
			weight *= math.Sqrt(float64(share)) // a small kernel may still be the one that matters
		}
		if e.exact() && (e.Rows[i].Kernel == e.About.Case || strings.HasPrefix(e.Rows[i].Kernel, e.About.Case+"<")) {
			weight *= 10
		}
		e.Rows[i].Score = Number(size * weight)
	}
	direction := 0
	r, ok := e.top(e.searched)
	if !ok && !e.exact() {
		r, ok = e.top(func(r Row) bool { return r.Sort.effect() })
	}
	if ok {
		_, direction = r.magnitude()
		e.Moved = append(e.Moved, r)
	}
	for i, r := range e.Rows {
		_, up := r.magnitude()
		if _, worse := r.Sort.weight(); worse != 0 && !r.Sort.effect() && up*worse*direction < 0 {
			e.Rows[i].Score *= 0.3
		}
	}
	for range 3 - len(e.Moved) {
		r, ok := e.top(func(r Row) bool {
			return !r.Sort.effect() && !slices.ContainsFunc(e.Moved, func(m Row) bool { return m.Sort == r.Sort })
		})
		if ok {
			e.Moved = append(e.Moved, r)
		}
	}
	e.Summary = e.moved()
}

// exact reports that a number of the compiler is to be explained.
func (e *Explanation) exact() bool { return e.About != nil && e.About.Exact != nil }

// searched reports the rows of the number that was searched for.
func (e *Explanation) searched(r Row) bool {
	if e.About == nil || r.Kernel != "" {
		return false
	}
	measured := "measured " + e.About.Name()
	return r.Name == measured || e.About.Case == "" && (strings.HasPrefix(r.Name, measured+" of ") || "phase."+r.Name == e.About.Metric)
}

// top is the row with the highest score of those that count.
func (e *Explanation) top(counts func(Row) bool) (best Row, ok bool) {
	for _, r := range e.Rows {
		if counts(r) && r.Score > 0 && (!ok || r.Score > best.Score) {
			best, ok = r, true
		}
	}
	return best, ok
}

// moved is what moved most, in a sentence.
func (e *Explanation) moved() string {
	if len(e.Moved) == 0 {
		if len(e.Rows) == 0 {
			return "Nothing of the two could be looked at."
		}
		moved := func(r Row) bool { return r.isNumber() && r.moved() != "" && !r.scatter() }
		ended := func(r Row) bool { return !r.isNumber() && r.moved() != "" }
		switch {
		case e.exact():
			return "No kernel that both have has moved."
		case slices.ContainsFunc(e.Rows, moved):
			if slices.ContainsFunc(e.Rows, ended) {
				return "No figure that was looked at tells why."
			}
			return "What moved is too small a part of a launch to be the reason."
		case slices.ContainsFunc(e.Rows, ended):
			return "No figure that was looked at has moved."
		}
		return "Nothing that was looked at has moved."
	}
	var parts []string
	for i, r := range e.Moved {
		where := ""
		if r.Kernel != "" && (i == 0 || e.Moved[i-1].Kernel != r.Kernel) {
			where = " of " + cut(r.Kernel, 60)
		}
		part := fmt.Sprintf("%s%s %s to %s", r.Name, where, r.a(), r.b())
		if change := r.change(); change != "" {
			part += " (" + change + ")"
		}
		parts = append(parts, part)
	}
	return "What moved most: " + strings.Join(parts, "; ") + "."
}

func (r Row) a() string { return r.cell(r.A, r.TextA) }
func (r Row) b() string { return r.cell(r.B, r.TextB) }

// cell is one figure for people.
func (r Row) cell(n Number, text string) string {
	switch {
	case !r.isNumber():
		return cmp.Or(printable(text), "-")
	case !n.Known():
		return "-"
	case r.Unit == "s" || r.Unit == "B/s":
		return quantity(n, r.Unit)
	case float64(n) == math.Trunc(float64(n)) && math.Abs(float64(n)) < 1e6:
		return fmt.Sprintf("%.0f%s", float64(n), unitWord(r.Unit))
	case math.Abs(float64(n)) >= 1e6:
		scale, name := prefixed(float64(n), cmp.Or(r.Unit, "op/s"))
		return strings.TrimSuffix(figure(n*scale)+unitWord(name), "op/s")
	}
	return figure(n) + unitWord(r.Unit)
}

// change is how far a row moved, for people, and whether that is more than scatter.
func (r Row) change() string {
	s := r.moved()
	if s != "" && r.scatter() {
		s += ", scatter"
	}
	return s
}

// scatter reports a change that means nothing.
func (r Row) scatter() bool {
	a, b := float64(r.A), float64(r.B)
	return r.Unit != "%" && a > 0 && b > 0 && math.Abs(math.Log(b/a)) <= math.Log1p(r.Noise)
}

func (r Row) moved() string {
	a, b := float64(r.A), float64(r.B)
	switch {
	case !r.isNumber():
		return map[bool]string{true: "changed"}[r.TextA != r.TextB && r.TextA != "" && r.TextB != ""]
	case !r.A.Known() || !r.B.Known() || a == b:
		return ""
	case r.Unit == "%":
		return fmt.Sprintf("%+.3g points", b-a)
	case a > 0 && b/a >= 10:
		return fmt.Sprintf("%.3g times", b/a)
	case a > 0:
		return fmt.Sprintf("%+.3g %%", 100*(b/a-1))
	}
	return "new"
}

// kernelsShown is how many kernels the text shows; all are in the JSON.
const kernelsShown = 6

// ExplanationText writes an explanation for people.
func ExplanationText(w io.Writer, e Explanation) error {
	p := &printer{w: w}
	if e.Error != nil {
		p.f("  %s\n\n", indent(*e.Error, "  "))
	}
	p.f("  A  %s\n  B  %s\n", e.A.line(), e.B.line())
	p.explained(e)
	p.names("added", e.Added)
	p.names("gone", e.Gone)
	for _, b := range e.Builds {
		p.f("\n  build of %s: %s, after %s\n", b.Side, printable(b.Failure.Why), secs(b.Seconds))
		for _, line := range lastLines(b.Tail, 5) {
			p.f("    | %s\n", cut(printable(line), 120))
		}
	}
	p.f("\n")
	for _, x := range e.Profilers {
		p.f("  seen by %s\n", x)
	}
	for _, x := range e.Missing {
		p.f("  not seen: %s\n", indent(x, "    "))
	}
	p.launches("A", e.A)
	p.launches("B", e.B)
	p.price(e.Totals, e.Devices)
	p.warnings(e.Warnings)
	p.f("\n%s\n", printable(e.Summary))
	return p.err
}

// explained is the table: the program, then each kernel.
func (p *printer) explained(e Explanation) {
	rows, left := e.shown()
	var widths [3]int
	for _, r := range rows {
		for i, cell := range []string{r.Name, r.a(), r.b()} {
			if !r.wide() {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	line := func(cells ...string) {
		text := " "
		for i, cell := range cells {
			text += fmt.Sprintf(" %-*s ", widths[min(i, 2)], cell) // the last one ends the line
		}
		p.f("%s\n", strings.TrimRight(text, " "))
	}
	p.f("\n")
	line("", "A", "B", "change")
	last := ""
	for _, r := range rows {
		if head := cmp.Or(r.Kernel, r.Group); head != last {
			last = head
			if r.Kernel != "" {
				head = "kernel " + cut(printable(r.Kernel), 100)
			}
			p.f("%s\n", head)
		}
		if !r.wide() {
			line(printable(r.Name), r.a(), r.b(), r.change())
			continue
		}
		p.f("  %s\n", printable(r.Name))
		for i, cell := range []string{r.a(), r.b()} {
			if cell != "-" {
				p.f("    %c  %s\n", 'A'+i, cut(cell, 110))
			}
		}
	}
	if left > 0 {
		p.f("  %s more; --json has them\n", count(left, "kernel"))
	}
}

// wide reports a row whose texts need lines of their own.
func (r Row) wide() bool { return max(len(r.TextA), len(r.TextB)) > 32 }

// shown leaves out what did not move and is no key figure, the kernels that only one side has but for
// their times, and those beyond the first few; kernels that moved most come first, then those of which
// something moved. left is the number of those left out.
func (e Explanation) shown() (rows []Row, left int) {
	var kernels []string
	of, moved := map[string][]Row{}, map[string]bool{}
	alone := slices.Concat(e.Added, e.Gone)
	for _, r := range e.Rows {
		one := r.Kernel != "" && slices.Contains(alone, r.Kernel)
		if r.empty() || one && r.Sort != SortTime || r.change() == "" && !r.Key && r.A.Known() == r.B.Known() {
			continue
		}
		if r.Kernel != "" && !slices.Contains(kernels, r.Kernel) {
			kernels = append(kernels, r.Kernel)
		}
		of[r.Kernel] = append(of[r.Kernel], r)
		moved[r.Kernel] = moved[r.Kernel] || r.moved() != "" && !r.scatter()
	}
	order := func(kernel string) int {
		i := slices.IndexFunc(e.Moved, func(r Row) bool { return r.Kernel == kernel })
		switch {
		case i >= 0:
			return i
		case moved[kernel]:
			return len(e.Moved)
		}
		return len(e.Moved) + 1
	}
	slices.SortStableFunc(kernels, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	rows = of[""]
	for _, k := range kernels[:min(kernelsShown, len(kernels))] {
		rows = append(rows, of[k]...)
	}
	return rows, max(0, len(kernels)-kernelsShown)
}

// names lists kernels that only one side has.
func (p *printer) names(what string, all []string) {
	for i, name := range all {
		if i == kernelsShown {
			p.f("  and %d more\n", len(all)-i)
			return
		}
		p.f("  kernel %s: %s\n", what, cut(printable(name), 110))
	}
}

// lastLines are the last lines of a text that say something.
func lastLines(text string, n int) []string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	return lines[max(0, len(lines)-n):]
}

// cellMost bounds the texts of a table's cells: how a launch ended stands in whole above it.
const cellMost = 48

// kernelMost bounds the names of kernels in the table.
const kernelMost = 60

// Cells is the table for other writers: the names of the columns, the rows, and what there is to say
// beside it.
func (e Explanation) Cells() (columns []string, rows [][]string, notes []string) {
	shown, left := e.shown()
	for _, r := range shown {
		rows = append(rows, []string{cut(cmp.Or(r.Kernel, r.Group), kernelMost), r.Name, cut(r.a(), cellMost), cut(r.b(), cellMost), r.change()})
	}
	for _, k := range e.Added {
		rows = append(rows, []string{cut(k, kernelMost), "kernel added", "", "", ""})
	}
	for _, k := range e.Gone {
		rows = append(rows, []string{cut(k, kernelMost), "kernel gone", "", "", ""})
	}
	notes = append(notes, e.Summary)
	if left > 0 {
		notes = append(notes, "Not shown: "+count(left, "more kernel")+".")
	}
	for _, x := range e.Profilers {
		notes = append(notes, "seen by "+x)
	}
	for _, x := range e.Missing {
		notes = append(notes, "not seen: "+x)
	}
	return []string{"about", "figure", "A", "B", "change"}, rows, notes
}
