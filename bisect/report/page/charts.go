package page

import (
	"slices"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/chart"
)

// drawn is the search as package chart takes it.
func (f *finder) drawn() chart.Range {
	r := chart.Range{Search: f.Search, Ledger: f.ledger, At: f.at, Length: len(f.at), Places: f.places(), Searched: f.searched}
	if f.ordered { // parts of a change that were tested later have their places behind it
		r.Length = len(f.ledger.Order)
	}
	return r
}

// along are the pictures of the search over the commits: the metric of the complaint above the range, and others.
func along(r chart.Range, metrics []chart.Metric) (out []Chart) {
	for i, m := range metrics {
		c := Chart{Label: "Launches and levels of " + m.Name + " along the range", Picture: r.Plane(m, i == 0), More: i > 0}
		if i == 0 {
			c.Label += ", and the verdict on every commit"
		}
		out = append(out, c)
	}
	// Its places are read off the picture above it, so it stands second.
	if belief, ok := r.Belief(); ok {
		out = slices.Insert(out, min(1, len(out)), Chart{Label: "What the search believed after each step", Picture: belief})
	}
	if len(metrics) == 0 {
		out = append(out, Chart{Label: "The verdict on every commit of the range", Picture: r.Strip()})
	}
	return out
}

// proof sets the launches of the culprits and of their parents side by side, with those of the ends.
func (f *finder) proof(r chart.Range, metrics []chart.Metric) Section {
	s := Section{ID: "proof", Title: "Proof"}
	if f.Axis != report.AxisHistory || len(f.Culprits) == 0 || len(metrics) == 0 {
		return s
	}
	// In the order of the range, so that the step lies where the rows change.
	roles := []chart.Role{{Name: "good end", Commit: f.Ends.Good}}
	for _, c := range f.Culprits {
		for _, p := range c.Parents {
			roles = append(roles, chart.Role{Name: "parent", Commit: p})
		}
		roles = append(roles, chart.Role{Name: "culprit", Commit: c.Commit})
	}
	roles = append(roles, chart.Role{Name: "bad end", Commit: f.Ends.Bad})
	var seen []chart.Role
	for _, x := range roles { // an end may be the culprit
		if !slices.ContainsFunc(seen, func(y chart.Role) bool { return y.Commit == x.Commit }) && x.Commit != "" {
			seen = append(seen, x)
		}
	}
	s.Words = "Each launch is a mark; the bar is the median with its interval. Launches that prove come from clean builds."
	// The ends show how far launches of a single commit scatter, against which the step has to stand out.
	s.Charts = []Chart{{Label: metrics[0].Name + " of the culprit, of its parent and of both ends", Picture: r.Proof(metrics[0], seen)}}
	t := f.levelTable(metrics[0])
	t.Title = "Proof by " + metrics[0].Name
	s.Tables = []Table{t}
	return s
}
