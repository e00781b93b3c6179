// Package page makes what people read of a document: one [Page] of a headline, facts and sections, which package
// render writes as text, Markdown and HTML, in the same order and with the same words.
//
// [New] makes a page from a document of package report and the ledger that it rests on, and from nothing else.
// Pictures are data in it: HTML draws them, the others show the tables that hold the same values, or less. The
// package knows no session, no store and no command line; commands to run next are text to it.
package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/chart"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Page is a report to look at. A section without data is not in it.
type Page struct {
	Session  string
	Result   string
	State    State // of the answer
	Headline string
	Cards    []Card // the answer: one, or one for each of several culprits
	Strip    Strip  // the range of a search over commits, where its order is known
	Totals   string // what the job took, in a line
	Sections []Section
	Next     []report.Command // that a reader would give now
}

// Section is one topic of a page. All its parts may be missing.
// What a document does not have takes no room: that of an old session, or of a search that was cut off, has less.
type Section struct {
	ID      string // its address within the page: lower-case letters and "-"
	Title   string
	Words   string // what is to be seen, in a sentence or two; of a section with pictures, about these
	Facts   []Row
	Charts  []Chart
	Tables  []Table
	Diff    *Diff
	Output  []Output
	List    []string
	Missing string // what could not be shown, and why
	Brief   bool   // it stands beside the answer where that alone is shown
}

// Chart is a picture. Every chart stands in a section whose tables hold the same values.
type Chart struct {
	Label   string
	Picture chart.Picture
	More    bool // one of several that show the same of something else: folded
}

// Table is a table as readers see it.
// It is whole. What is left out where there is little room is up to who renders it, by the fields from Detail on.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
	Notes   []string
	Right   []string // columns of numbers, by name
	States  []State  // of the rows
	Detail  bool     // the values of a picture, or a list of everything: not in text, folded elsewhere
	Most    int      // rows that text shows; 0 is all
	First   []int    // rows that are shown before others where there are more than Most
	Few     []string // columns that matter most, in their order, where there is little room
}

// Narrow is the table with only the columns that matter most (Few).
func (x Table) Narrow() Table {
	if len(x.Few) == 0 {
		return x
	}
	var columns []int
	for _, name := range x.Few {
		if i := slices.Index(x.Columns, name); i >= 0 {
			columns = append(columns, i)
		}
	}
	return x.only(columns)
}

// only is the table with some of its columns.
func (x Table) only(columns []int) Table {
	pick := func(row []string) (out []string) {
		for _, i := range columns {
			if i < len(row) {
				out = append(out, row[i])
			}
		}
		return out
	}
	rows := make([][]string, len(x.Rows))
	for i, row := range x.Rows {
		rows[i] = pick(row)
	}
	x.Columns, x.Rows = pick(x.Columns), rows
	return x
}

// Numeric reports whether column i holds numbers.
func (x Table) Numeric(i int) bool {
	return i < len(x.Columns) && slices.Contains(x.Right, x.Columns[i])
}

// Bounded picks at most so many rows by index, keeping their order and preferring First; 0 is all. left are not
// picked.
func (x Table) Bounded(most int) (rows []int, left int) {
	if most == 0 || most > len(x.Rows) {
		most = len(x.Rows)
	}
	first := len(slices.DeleteFunc(slices.Clone(x.First), func(i int) bool { return i >= len(x.Rows) }))
	// The rows shown keep their order, since a reader looks for a row where its neighbours are.
	others := most - min(first, most)
	for i := range x.Rows {
		switch {
		case len(rows) == most:
		case slices.Contains(x.First, i):
			rows = append(rows, i)
		case others > 0:
			rows, others = append(rows, i), others-1
		}
	}
	return rows, len(x.Rows) - len(rows)
}

// filled is the table without its empty columns.
// Many columns are for some programs or metrics only, and an empty one pushes others off a narrow screen.
func (x Table) filled() Table {
	var columns []int
	for i := range x.Columns {
		if slices.ContainsFunc(x.Rows, func(row []string) bool { return i < len(row) && row[i] != "" }) {
			columns = append(columns, i)
		}
	}
	return x.only(columns)
}

// State marks a row, a commit or an answer. It decides on colour and symbol.
type State = chart.State

// The states.
const (
	Good    = chart.Good
	Bad     = chart.Bad
	Better  = chart.Better
	Skipped = chart.Skipped
	Other   = chart.Other
	Unsure  = chart.Unsure
	Culprit = chart.Culprit
)

// Output is the end of what a trial printed.
type Output struct{ Title, Text string }

// New makes a page of a document and the ledger that it rests on. All texts in it are printable.
func New(d report.Document, l report.Ledger) Page {
	var p Page
	switch d := d.(type) {
	case *report.Search:
		p = searchPage(d, l)
	case *report.Comparison:
		p = comparisonPage(d, l)
	case *report.Gate:
		p = gatePage(d, l)
	case *report.Measurement:
		p = measurementPage(d, l)
	case *report.Explanation:
		p = explanationPage(d, l)
	case *report.History:
		p = historyPage(d)
	}
	// This is the one place where texts are cleaned, whoever wrote them: commits, programs, or the user.
	p.clean()
	// Page functions list every section that there may be, in its place; most documents fill only some.
	p.Sections = slices.DeleteFunc(p.Sections, Section.empty)
	return p
}

// empty reports whether a section has only its title and an introduction; such are left out.
func (s Section) empty() bool {
	return len(s.Facts)+len(s.Charts)+len(s.Tables)+len(s.List)+len(s.Output) == 0 && s.Diff == nil && s.Missing == ""
}

// clean makes sure that nothing which a candidate or a commit says can drive a terminal or reverse the direction of a
// text. Pictures and diffs are cleaned where they are made.
func (p *Page) clean() {
	p.Headline = strings.TrimSpace(words.Printable(p.Headline))
	for i := range p.Cards {
		c := &p.Cards[i]
		c.Head = strings.TrimSpace(words.Printable(c.Head))
		cleanRows(c.Rows)
	}
	for i := range p.Sections {
		s := &p.Sections[i]
		s.Title, s.Words, s.Missing = words.Printable(s.Title), words.Printable(s.Words), words.Printable(s.Missing)
		cleanRows(s.Facts)
		// Notes and hints may have several lines; all other texts are one.
		s.List = slices.Clone(s.List)
		for k, x := range s.List {
			s.List[k] = words.Lines(x)
		}
		s.Tables = slices.DeleteFunc(slices.Clone(s.Tables), func(t Table) bool { return len(t.Rows) == 0 })
		for k, t := range s.Tables {
			t.Title, t.Columns, t.Notes, t.Rows = words.Printable(t.Title), cleanAll(t.Columns), cleanAll(t.Notes), slices.Clone(t.Rows)
			for r, row := range t.Rows {
				t.Rows[r] = cleanAll(row)
			}
			s.Tables[k] = t.filled()
		}
	}
}

func cleanRows(all []Row) {
	for i := range all {
		r := &all[i]
		r.Text, r.Copy = strings.TrimSpace(words.Printable(r.Text)), words.Printable(r.Copy)
	}
}

func cleanAll(in []string) []string {
	out := make([]string, len(in))
	for i, x := range in {
		out[i] = strings.TrimSpace(words.Printable(x))
	}
	return out
}

// named is a commit with its subject.
func named(l report.Ledger, id string) string {
	if id == "" {
		return ""
	}
	return strings.TrimSpace(bisect.ShortID(id) + " " + l.Info(id).Subject)
}

// notes are all the warnings; none is left out.
func notes(warnings []string) Section {
	return Section{ID: "notes", Title: "Notes", List: warnings, Brief: true}
}

// stateOf is the state of a verdict.
// The words of verdicts are the names of the states.
func stateOf(v bisect.Verdict) State { return State(v.Word()) }

// digits is a number with the digits that matter.
// It is for cells whose column names the unit: four digits are about as many as launches repeat.
func digits(v float64) string { return fmt.Sprintf("%.4g", v) }
