package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// compared is what a page reads of the document of a gate or of a comparison, besides what these have in
// common with a finding.
type compared struct {
	Schema    string       `json:"schema"`
	Verdict   string       `json:"verdict"`
	Into      string       `json:"into"`
	Base      *Candidate   `json:"base"` // of a gate
	Head      *Candidate   `json:"head"`
	A         *Candidate   `json:"a"` // of a comparison
	B         *Candidate   `json:"b"`
	Effect    float64      `json:"effect"`
	ErrorRate float64      `json:"error_rate"`
	Pairs     int          `json:"pairs"`
	Contrasts []Contrast   `json:"comparisons"`
	Accepted  []Acceptance `json:"accepted"`
	Culprit   *GateCulprit `json:"culprit"`
	Search    *GateSearch  `json:"search"`
}

// isComparison reports that the document is that of a gate or of a comparison.
func (c compared) isComparison() bool { return c.Schema == GateSchema || c.Schema == ComparisonSchema }

// names are what the two sides are called.
func (c compared) names() (a, b string) {
	if c.Schema == GateSchema {
		return "merge base", "HEAD"
	}
	return "A", "B"
}

// sides are the candidates that were compared.
func (c compared) sides() (a, b Candidate) {
	return *cmp.Or(c.Base, c.A, &Candidate{}), *cmp.Or(c.Head, c.B, &Candidate{})
}

// purpose is why a launch was made, which for a comparison is the side.
func (c compared) purpose(of bisect.Purpose) string {
	a, b := c.names()
	switch {
	case c.isComparison() && of == bisect.EndGood:
		return a
	case c.isComparison() && of == bisect.EndBad:
		return b
	}
	return string(of)
}

// comparedFacts are the facts of a gate or of a comparison.
func (p *pager) comparedFacts() (out []Fact) {
	add := func(name, text string) {
		if text != "" {
			out = append(out, Fact{name, text})
		}
	}
	if c := p.Culprit; c != nil {
		add("Culprit", c.sentence())
		add("Subject", c.Subject)
		add("Author", c.Author)
		var places []string
		for _, x := range c.Places {
			places = append(places, x.String())
		}
		add("Lines", listed(places, 8))
	} else if s := p.Search; s != nil {
		add("Culprit", "none is named: "+s.Why)
	}
	a, b := p.names()
	one, two := p.sides()
	add(strings.ToUpper(a[:1])+a[1:], sideWords(one))
	add(b, sideWords(two))
	add("Into", p.Into)
	for _, x := range p.Accepted {
		add("Accepted", fmt.Sprintf("%s up to %.4g: %s", x.Name(), x.Limit, x.Reason))
	}
	if p.Pairs > 0 {
		add("Looked for", fmt.Sprintf("changes of %s and more, by %s of fresh launches in turn, with an error of %s over all numbers", percent(p.Effect), count(p.Pairs, "pair"), percent(p.ErrorRate)))
	}
	add("Trouble", p.Error)
	return out
}

func sideWords(c Candidate) string {
	if c.Commit == "" {
		return ""
	}
	return fmt.Sprintf("%s %s (%s): %s, %d counted", short(c.Commit), c.Subject, c.Revision, count(c.Launches, "launch"), c.Counted)
}

// numbers are the verdicts of a gate or of a comparison, number by number.
func (p *pager) numbers() Section {
	s := Section{ID: "numbers", Title: "Number by number"}
	if len(p.Contrasts) == 0 || !p.isComparison() {
		return s
	}
	a, b := p.names()
	s.Words = "In brackets lies what the verdict rests on: the interval that holds the ratio, however often one has looked and however many numbers there are."
	t := Table{Title: "Verdicts", Columns: []string{"verdict", "of", a, b, b + " / " + a}}
	g := Gate{Effect: p.Effect, Accepted: p.Accepted}
	var c effectChart
	for _, x := range p.Contrasts {
		word, why := g.line(x)
		t.Rows = append(t.Rows, []string{cmp.Or(word, x.Result), x.Name(), x.A.median(x.Unit), x.B.median(x.Unit), why})
		t.States = append(t.States, contrastState(x.Result))
		if r := x.Bound; r.Value.Known() && r.Low.Known() && r.High.Known() && r.Low > 0 {
			c.Terms = append(c.Terms, effectBar{printable(x.Name()), float64(r.Value), float64(r.Low), float64(r.High)})
		}
	}
	if s.Tables = []Table{t}; len(c.Terms) > 0 {
		s.Charts = []Chart{{Kind: "effects", Label: "Change from " + a + " to " + b + ", with the interval on which the verdict rests", Data: c}}
	}
	return s
}

// contrastState is the state of a number as pages mark it.
func contrastState(result string) string {
	return map[string]string{GateRegression: "bad", GatePass: "good", "no-difference": "good", GateImprovement: "good", GateAccepted: "other", GateOpen: "unsure"}[result]
}
