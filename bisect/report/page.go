package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// Page is a report to look at: what [HTML] and [Markdown] write. It is plain data, so that a search
// along any axis fills it in the same way; a section without data is not in it.
type Page struct {
	Session  string
	Result   bisect.Result
	Headline string // the answer in one line
	Facts    []Fact // about the answer, in words
	Figures  []Fact // the job in a few numbers
	Sections []Section
	Next     []string // commands that a reader would give now
}

// Fact is a name and what goes with it.
type Fact struct{ Name, Text string }

// Section is one topic of a page. All its parts may be missing.
type Section struct {
	ID      string // its address within the page: lower-case letters and "-"
	Title   string
	Words   string // what is to be seen, in a sentence or two
	Charts  []Chart
	Tables  []Table
	Diff    *Diff
	Output  []Output
	List    []string
	Missing string // what could not be shown, and why
}

// Chart is a picture. Every chart stands in a section whose tables hold the same values.
type Chart struct {
	Kind  string `json:"kind"` // which of the drawings of web/page.js
	Label string `json:"label"`
	Data  any    `json:"data"`
}

// Table is a table as readers see it. Its strings may hold anything.
type Table struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Notes   []string   `json:"notes"`

	Right  []int    `json:"-"` // columns of numbers
	States []string `json:"-"` // of the rows: good, bad, skip, other, culprit or ""
	Behind bool     `json:"-"` // the values of a chart, shown on request
}

// Output is what a trial printed, its end.
type Output struct{ Title, Text string }

// pager makes a page.
type pager struct {
	document
	compared
	in       Input
	at       map[string]int // position in the range by commit, the good end at 0
	ordered  bool           // the positions are those in the history
	culprits map[string]bool
}

// NewPage makes a page of a finding document, as [JSON] writes it, or of that of a [Gate] or a
// [Comparison], and of what it rests on: launches, commits, order, limits and diffs of in. in.Finding is
// not read.
func NewPage(doc []byte, in Input) (Page, error) {
	p := &pager{in: in, culprits: map[string]bool{}}
	if err := errors.Join(json.Unmarshal(doc, &p.document), json.Unmarshal(doc, &p.compared)); err != nil {
		return Page{}, fmt.Errorf("reading the finding of session %s: %w", in.Session, err)
	}
	for _, c := range p.Culprits {
		p.culprits[c.Commit] = true
	}
	p.place()
	page := Page{
		Session: p.Session, Result: p.Result, Headline: cmp.Or(p.Headline, p.Verdict, string(p.Result)),
		Facts: p.facts(), Figures: p.figures(), Next: p.nextSteps(),
	}
	for _, make := range []func() Section{
		p.numbers, p.search, p.posterior, p.lattice, p.claims, p.keep, p.effects,
		p.diff, p.phases, p.explain, p.devices, p.economics, p.launches, p.notes,
	} {
		if s := make(); !s.empty() {
			page.Sections = append(page.Sections, s.printable())
		}
	}
	page.Headline, page.Facts = printable(page.Headline), printableFacts(page.Facts)
	return page, nil
}

// printable makes sure that nothing which a candidate or a commit says drives a terminal or turns
// the direction of a text.
func (s Section) printable() Section {
	s.Words, s.Missing = printable(s.Words), printable(s.Missing)
	s.List = slices.Clone(s.List)
	for i, x := range s.List {
		s.List[i] = multiline(x)
	}
	for i, t := range s.Tables {
		s.Tables[i] = t.printable()
	}
	return s
}

func (t Table) printable() Table {
	t.Title = printable(t.Title)
	t.Columns, t.Notes, t.Rows = printableAll(t.Columns), printableAll(t.Notes), slices.Clone(t.Rows)
	for i, row := range t.Rows {
		t.Rows[i] = printableAll(row)
	}
	return t
}

func printableAll(in []string) []string {
	out := make([]string, len(in))
	for i, x := range in {
		out[i] = strings.TrimSpace(printable(x))
	}
	return out
}

func printableFacts(in []Fact) []Fact {
	for i := range in {
		in[i].Text = strings.TrimSpace(printable(in[i].Text))
	}
	return in
}

func (s Section) empty() bool {
	return len(s.Charts)+len(s.Tables)+len(s.List)+len(s.Output) == 0 && s.Diff == nil && s.Missing == ""
}

// place gives every commit its position. Where the order of the range is not known any more, it is
// that in which the commits were first launched.
func (p *pager) place() {
	order := p.in.Order
	if p.ordered = len(order) > 0; !p.ordered {
		order = []string{p.Ends.Good}
	}
	p.at = map[string]int{}
	add := func(id string) {
		if _, known := p.at[id]; !known && id != "" {
			p.at[id] = len(p.at)
		}
	}
	for _, id := range order {
		add(id)
	}
	for _, l := range p.in.Launches {
		add(l.Candidate.Commit)
	}
	for _, s := range p.Steps {
		add(s.Commit)
	}
}

func (p *pager) facts() (out []Fact) {
	if p.isComparison() {
		return p.comparedFacts()
	}
	add := func(name, text string) {
		if text != "" {
			out = append(out, Fact{name, text})
		}
	}
	for i, c := range p.Culprits {
		if n := len(p.Culprits); n > 1 { // each its own, as a list of all would run together
			add(fmt.Sprintf("Culprit %d of %d", i+1, n), p.oneFact(c))
			continue
		}
		add("Commit", c.Commit)
		add("Subject", c.Subject)
		add("Author", c.Author)
		add("Date", c.Date)
		add("Files", listed(c.Files, 12))
		if e := c.Effect; e != nil {
			add("Effect", effectWords(*e))
		}
		for _, e := range c.Besides {
			add("Besides", besideWords(e))
		}
		how := "not confirmed by fresh trials"
		if c.Confirmed {
			how = "confirmed: fresh trials from clean exports and clean builds show it here and not in its parents"
		}
		add("Sure", fmt.Sprintf("%s, %s", sure(c.Confidence), how))
	}
	if len(p.Culprits) == 0 {
		add("Why", p.Ends.Evidence)
		add("Trouble", p.Error)
		add("Hint", p.Ends.Hint)
	}
	if p.Complaint.Class != "" {
		c := bisect.Complaint{Class: p.Complaint.Class, Phase: p.Complaint.Phase, Metric: p.Complaint.Metric}
		words := c.String()
		if len(p.Culprits) == 1 {
			words = cmp.Or(ExactWords(p.Culprits[0].Effect), words)
		}
		add("Complaint", words)
	}
	if p.Ends.Good == p.Ends.Bad { // flags
		add("Commit", p.named(p.Ends.Bad))
		return out
	}
	add("Good end", p.named(p.Ends.Good))
	add("Bad end", p.named(p.Ends.Bad))
	return out
}

// oneFact is a culprit among several, in a line.
func (p *pager) oneFact(c namedCulprit) string {
	words := []string{short(c.Commit) + " " + c.Subject, c.Author, c.Date, listed(c.Files, 4)}
	if e := c.Effect; e != nil {
		words = append(words, effectWords(*e))
	}
	how := "not confirmed"
	if c.Confirmed {
		how = "confirmed"
	}
	words = append(words, fmt.Sprintf("%s sure, %s", sure(c.Confidence), how))
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), "; ")
}

func (p *pager) figures() []Fact {
	t := p.Totals
	out := []Fact{}
	switch {
	case p.Range > 0 && p.Axis != historyAxis:
		out = append(out, Fact{"changes to choose from", fmt.Sprint(p.Range)})
	case p.Range > 0:
		out = append(out, Fact{"commits in the range", fmt.Sprint(p.Range)}, Fact{"that can matter", fmt.Sprint(p.Matter)})
	}
	out = append(out, Fact{"candidates run", fmt.Sprint(t.Candidates)}, Fact{"trials", fmt.Sprint(t.Trials)},
		Fact{"builds", fmt.Sprint(t.Builds)}, Fact{"wall time", secs(t.Wall)})
	if t.Cost != nil {
		out = append(out, Fact{"cost", fmt.Sprintf("%.4g", *t.Cost)})
	}
	return out
}

func (p *pager) nextSteps() []string {
	again := "kbisect run --resume"
	show := "kbisect show " + p.Session
	if c := p.Culprit; p.isComparison() && c != nil {
		return []string{"git show " + short(c.Commit), show}
	}
	switch p.Result {
	case bisect.Found:
		if len(p.Culprits) > 0 {
			return []string{"git show " + short(p.Culprits[0].Commit), show, "kbisect report " + p.Session + " --git-log | git bisect replay /dev/stdin"}
		}
	case bisect.Broken, bisect.Interrupted:
		return []string{again, show}
	}
	return []string{show}
}

func (p *pager) explain() Section {
	s := Section{ID: "explain", Title: "Why it differs", Words: "The culprit against its parent, as compilers and programs tell it."}
	if p.Explain != nil {
		s.Tables = []Table{*p.Explain}
	}
	return s
}

// notes are the things to know, and nothing of them is left out.
func (p *pager) notes() Section {
	return Section{ID: "warnings", Title: "To know", List: p.Warnings}
}

// named is a commit with its subject.
func (p *pager) named(id string) string {
	if id == "" {
		return ""
	}
	return strings.TrimSpace(short(id) + " " + p.in.info(id).Subject)
}

func listed(all []string, most int) string {
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
