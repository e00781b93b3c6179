package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/figures"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// ExplanationSchema names the JSON document of an explanation and its version.
const ExplanationSchema = "kbisect.explanation/1"

// Explanation is why B differs from A: one table of what was seen of both, and what of it moved most.
// Numbers that are not known are null.
type Explanation struct {
	Schema    string        `json:"schema"`
	Session   string        `json:"session"`
	Result    string        `json:"result"`  // explained, partly, infra, interrupted
	Summary   string        `json:"summary"` // the largest changes, in a sentence
	A         Candidate     `json:"a"`
	B         Candidate     `json:"b"`
	Rows      []figures.Row `json:"rows"`
	Moved     []figures.Row `json:"moved"` // those that moved most, two or three
	Added     []string      `json:"kernels_added"`
	Gone      []string      `json:"kernels_gone"`
	Profilers []string      `json:"profilers"` // that were used, with their versions
	Missing   []string      `json:"missing"`   // what could not be looked at, and why
	Builds    []BuildEnd    `json:"builds"`    // that failed or did not end
	Totals    Totals        `json:"totals"`
	Devices   []string      `json:"devices"`
	Warnings  []string      `json:"warnings"`
	Error     *string       `json:"error"`

	Facts
}

func (*Explanation) schema() string { return ExplanationSchema }

// about implements Document.
func (x *Explanation) about() subject { return subject{totals: x.Totals, devices: x.Devices} }

// next implements Document.
func (x *Explanation) next(l Ledger) []Command { return []Command{every(l, x.Session)} }

// Rank scores all rows, sets Moved to those that moved most, and sums these up. about is the effect that was searched
// for, nil where whatever moved is of interest. To be called once all rows are there.
func (e *Explanation) Rank(about *bisect.Effect) {
	e.Moved = figures.Rank(e.Rows, about)
	e.Summary = figures.Summary(e.Moved, e.Rows)
}

// Limiter is what bounds the occupancy of the kernel that moved most; "" where that is not known.
func (e *Explanation) Limiter() string {
	for _, m := range e.Moved {
		for _, r := range e.Rows {
			switch {
			case r.Sort != figures.SortLimit || r.Kernel != m.Kernel || r.TextA == "" || r.TextB == "":
			case r.TextA == r.TextB:
				return r.TextB + ", on both sides"
			default:
				return fmt.Sprintf("%s (A: %s)", r.TextB, r.TextA)
			}
		}
	}
	return ""
}

// BuildEnd is a build that did not end well.
type BuildEnd struct {
	Side    string   `json:"side"` // A or B
	Failure *Failure `json:"failure"`
	Seconds float64  `json:"seconds"`
	Tail    string   `json:"tail"` // what it said last
}

// Bounds of the table: kernels shown (all are in the JSON), and characters of a name of one and of a cell. How a
// launch ended stands in whole beside the table.
const (
	kernelsShown = 6
	cellMost     = 48
)

// Table is what was seen of both sides, which are called a and b: the program, then each kernel.
func (e *Explanation) Table(title, a, b string) Table {
	t := Table{Title: title, Columns: []string{"about", "figure", a, b, "change"}, Rows: [][]string{}}
	rows, left, alone := e.shown()
	for i, r := range rows {
		t.Rows = append(t.Rows, []string{cmp.Or(figures.KernelName(r.Kernel), r.Group), r.Figure(), words.Cut(r.CellA(), cellMost), words.Cut(r.CellB(), cellMost), r.Change()})
		t.Values = append(t.Values, [2]Number{r.A, r.B})
		if r.Changed() {
			t.Changed = append(t.Changed, i)
		}
	}
	only := func(what string, names []string) {
		for _, k := range names {
			t.Changed = append(t.Changed, len(t.Rows))
			t.Rows = append(t.Rows, []string{figures.KernelName(k), "kernel " + what, "", "", ""})
		}
	}
	only("added", e.Added)
	only("gone", e.Gone)
	t.Notes = append(t.Notes, e.Summary)
	if left > 0 {
		t.Notes = append(t.Notes, "Not shown: "+words.Count(left, "more kernel")+".")
	}
	if alone > 0 {
		t.Notes = append(t.Notes, "Not shown: "+words.Count(alone, "figure")+" that only one side has.")
	}
	for _, x := range e.Profilers {
		t.Notes = append(t.Notes, "measured with "+x)
	}
	for _, x := range e.Missing {
		t.Notes = append(t.Notes, "not measured: "+x)
	}
	return t
}

// shown drops rows that did not change, unless they are key figures; figures of the program that only one side has; all
// but the times of kernels that only one side has; and kernels beyond the first few. Kernels that changed most come
// first, then those in which anything changed. left counts the kernels dropped, single the figures of one side.
func (e Explanation) shown() (rows []figures.Row, left, single int) {
	var kernels []string
	of, moved := map[string][]figures.Row{}, map[string]bool{}
	alone := slices.Concat(e.Added, e.Gone)
	for _, r := range e.Rows {
		one := r.Kernel != "" && slices.Contains(alone, r.Kernel)
		if r.Empty() || one && r.Sort != figures.SortTime || r.Change() == "" && !r.Key && r.A.Known() == r.B.Known() {
			continue
		}
		if r.Kernel == "" && r.A.Known() != r.B.Known() {
			single++
			continue
		}
		if r.Kernel != "" && !slices.Contains(kernels, r.Kernel) {
			kernels = append(kernels, r.Kernel)
		}
		of[r.Kernel] = append(of[r.Kernel], r)
		moved[r.Kernel] = moved[r.Kernel] || r.Changed()
	}
	order := func(kernel string) int {
		i := slices.IndexFunc(e.Moved, func(r figures.Row) bool { return r.Kernel == kernel })
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
	return rows, max(0, len(kernels)-kernelsShown), single
}
