package report

import (
	"fmt"
	"strings"
)

func (p *pager) claims() Section {
	s := Section{ID: "claims", Title: "The claims", Words: "What was claimed to be the cause, and what the tests say to it."}
	t := Table{Title: "Claims and verdicts", Columns: []string{"claim", "settings", "verdict", "with", "others", "evidence"}}
	for _, c := range p.Hypotheses {
		t.Rows = append(t.Rows, []string{c.Name, strings.Join(c.Claim, " "), strings.ReplaceAll(c.Verdict, "-", " "), strings.Join(c.With, "; "), strings.Join(c.Others, "; "), c.Why})
		t.States = append(t.States, map[string]string{"confirmed": "bad", "only-in-combination": "other", "refuted": "good", "not-supported": "good"}[c.Verdict])
	}
	if len(t.Rows) > 0 {
		s.Tables = []Table{t}
	}
	return s
}

func (p *pager) keep() Section {
	s := Section{ID: "keep", Title: "What can be kept", Words: "The safe sets, with their speed against the base."}
	t := Table{Title: "Safe sets", Columns: []string{"set", "what", "ratio", "95 % interval", "confirmed"}, Right: []int{2, 3}}
	row := func(x flagSet, what string) {
		ratio, interval := "", ""
		if x.Ratio > 0 {
			ratio, interval = fmt.Sprintf("%.3f", x.Ratio), fmt.Sprintf("%.3f to %.3f", x.Low, x.High)
		}
		t.Rows = append(t.Rows, []string{x.words(), what, ratio, interval, yes(x.Confirmed)})
		t.States = append(t.States, "good")
	}
	recommended := ""
	if p.Recommended != nil {
		recommended = p.Recommended.words()
		row(*p.Recommended, "recommended")
	}
	for _, x := range p.SafeSets {
		switch {
		case p.Recommended != nil && x.words() == recommended:
		case x.Maximum:
			row(x, "the most that is safe")
		case x.Maximal:
			row(x, "no more can be added")
		default:
			row(x, "safe")
		}
	}
	if len(t.Rows) > 0 {
		s.Tables = []Table{t}
	}
	return s
}

// effectChart is what single flags and their combinations do to the metric.
type effectChart struct {
	Terms []effectBar `json:"terms"`
}

type effectBar struct {
	Name  string  `json:"name"`
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

func (p *pager) effects() Section {
	s := Section{ID: "effects", Title: "What the flags cost and gain", Words: p.Advice}
	t := Table{Title: "Effects on the metric", Columns: []string{"what", "change", "95 % interval"}, Right: []int{1, 2}}
	var c effectChart
	for _, e := range p.Effects {
		name := strings.Join(e.Terms, " with ")
		c.Terms = append(c.Terms, effectBar{printable(name), e.Ratio, e.Low, e.High})
		t.Rows = append(t.Rows, []string{name, fmt.Sprintf("%+.1f %%", 100*(e.Ratio-1)), fmt.Sprintf("%+.1f to %+.1f %%", 100*(e.Low-1), 100*(e.High-1))})
	}
	if len(c.Terms) > 0 {
		s.Charts = []Chart{{Kind: "effects", Label: "Change of the metric by flag, with 95 % intervals", Data: c}}
		s.Tables = []Table{t}
	}
	return s
}
