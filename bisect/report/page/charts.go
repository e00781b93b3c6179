package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/chart"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// drawn is the search as pictures take it.
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
	if belief, ok := r.Belief(); ok {
		out = slices.Insert(out, min(1, len(out)), Chart{Label: "What the search believed after each step", Picture: belief})
	}
	if len(metrics) == 0 {
		out = append(out, Chart{Label: "The verdict on every commit of the range", Picture: r.Strip()})
	}
	return out
}

// paired are the figures of two sides as pairs of bars, where there are figures.
func paired(t report.Table) []Chart {
	picture, ok := chart.Pairs(t)
	if !ok {
		return nil
	}
	return []Chart{{Label: "Figures of both sides, each pair against its larger one", Picture: picture}}
}

// proof sets the launches of the culprits and of their parents side by side, with those of the ends.
func (f *finder) proof(r chart.Range, metrics []chart.Metric) Section {
	s := Section{ID: "proof", Title: "Proof"}
	if f.Axis != report.AxisHistory || len(f.Culprits) == 0 || len(metrics) == 0 {
		return s
	}
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
	s.Charts = []Chart{{Label: metrics[0].Name + " of the culprit, of its parent and of both ends", Picture: r.Proof(metrics[0], seen)}}
	t := f.levelTable(metrics[0])
	t.Title = "Proof by " + metrics[0].Name
	s.Tables = []Table{t}
	return s
}

// weight is the probability that a commit is the culprit.
type weight struct {
	Name        string
	Probability float64
	State       State
}

// mostWeights is how many commits the picture of the posterior holds.
const mostWeights = 25

// certainty is how sure the answer is. How it became so, verdict by verdict, stands in the search log.
func (f *finder) certainty() Section {
	s := Section{ID: "certainty", Title: "Certainty"}
	all := f.weights()
	if len(all) == 0 || f.Axis != report.AxisHistory || f.Result == bisect.Broken {
		return s
	}
	s.Words = "The probability of being the first bad commit."
	picture := chart.Rows{Axis: chart.Axis{Max: 1.001, Form: chart.Shares}}
	for _, w := range all[:min(len(all), mostWeights)] {
		class := "f-" + string(cmp.Or(w.State, Skipped))
		picture.Rows = append(picture.Rows, chart.Row{Name: w.Name, State: w.State, Value: chance(w.Probability), Bars: []chart.Bar{{To: w.Probability, Class: class}}})
	}
	s.Charts = []Chart{{Label: "Probability of being the first bad commit", Picture: picture}}
	t := Table{Title: "Probability of being the culprit", Columns: []string{"commit", "probability"}, Right: []int{1}, Detail: true}
	for _, w := range all {
		t.Rows, t.States = append(t.Rows, []string{w.Name, chance(w.Probability)}), append(t.States, w.State)
	}
	s.Tables = []Table{t}
	return s
}

// weights are the culprits and suspects, the likeliest first, then what is left for all others. Confidences of several
// culprits are of different questions and do not add up to one, so that nothing is left over there.
func (f *finder) weights() []weight {
	out := []weight{}
	rest := 1.0
	add := func(commit, subject string, probability float64, state State) {
		out = append(out, weight{words.Printable(words.Short(commit) + " " + cmp.Or(subject, f.ledger.Info(commit).Subject)), probability, state})
		rest -= probability
	}
	for _, c := range f.Culprits {
		add(c.Commit, c.Subject, c.Confidence, Culprit)
	}
	for _, s := range f.Suspects {
		add(s.Commit, s.Subject, s.Probability, Unsure)
	}
	slices.SortStableFunc(out, func(a, b weight) int { return cmp.Compare(b.Probability, a.Probability) })
	if len(out) > 0 && len(f.Culprits) <= 1 && rest > 1e-6 {
		out = append(out, weight{"any other, or none", rest, ""})
	}
	return out
}

// chance is a probability in percent. Unlike [words.Confidence] it may be 100 %: it is of a belief, not of an answer.
func chance(p float64) string { return fmt.Sprintf("%.4g %%", 100*p) }
