package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// weight is the probability that a commit is the culprit.
type weight struct {
	Name        string  `json:"name"`
	Probability float64 `json:"probability"`
	State       string  `json:"state"`
}

// badness is the probability that a commit shows the complaint, as judged last.
type badness struct {
	At          int     `json:"at"`
	Name        string  `json:"name"`
	Probability float64 `json:"probability"`
	State       string  `json:"state"`
}

type left struct {
	Judgement int    `json:"judgement"`
	Left      int    `json:"left"`
	Name      string `json:"name"`
	State     string `json:"state"`
}

// mostWeights is how many commits the picture of the posterior holds.
const mostWeights = 25

func (p *pager) posterior() Section {
	s := Section{ID: "posterior", Title: "Who is to blame, and how sure"}
	all := p.weights()
	bad, left := p.badness(), p.left()
	if len(p.Culprits) > 1 {
		bad = nil // each search had a range of its own, and another notion of bad
	}
	if len(all)+len(left) == 0 || p.Axis != historyAxis {
		return s
	}
	s.Words = "The probability of being the first bad commit, the probability of each judged commit of being bad, and how the suspects became fewer."
	s.Charts = []Chart{{Kind: "who", Label: "Probability of being the first bad commit", Data: all[:min(len(all), mostWeights)]}}
	if len(bad) > 0 {
		s.Charts = append(s.Charts, Chart{Kind: "bad", Label: "Probability of being bad, along the range", Data: bad})
	}
	if len(left) > 0 {
		s.Charts = append(s.Charts, Chart{Kind: "left", Label: "Suspects left after each judgement", Data: left})
	}
	t := Table{Title: "Probabilities of the suspects", Columns: []string{"commit", "probability"}, Right: []int{1}, Behind: true}
	for _, w := range all {
		t.Rows = append(t.Rows, []string{w.Name, chance(w.Probability)})
		t.States = append(t.States, w.State)
	}
	b := Table{Title: "Probability of being bad", Columns: []string{"commit", "place", "bad"}, Right: []int{1, 2}, Behind: true}
	for _, x := range bad {
		b.Rows = append(b.Rows, []string{x.Name, fmt.Sprint(x.At), chance(x.Probability)})
		b.States = append(b.States, x.State)
	}
	l := Table{Title: "Suspects left", Columns: []string{"judgement", "commit", "left"}, Right: []int{0, 2}, Behind: true}
	for _, x := range left {
		l.Rows = append(l.Rows, []string{fmt.Sprint(x.Judgement), x.Name, fmt.Sprint(x.Left)})
		l.States = append(l.States, x.State)
	}
	for _, x := range []Table{t, b, l} {
		if len(x.Rows) > 0 {
			s.Tables = append(s.Tables, x)
		}
	}
	return s
}

// weights are the culprits, then the suspects, the likeliest first, then what is left for all others.
func (p *pager) weights() []weight {
	out := []weight{}
	rest := 1.0
	for _, c := range p.Culprits {
		out = append(out, weight{printable(p.named(c.Commit)), c.Confidence, "culprit"})
		rest -= c.Confidence
	}
	for _, s := range p.Suspects {
		out = append(out, weight{printable(short(s.Commit) + " " + cmp.Or(s.Subject, p.in.info(s.Commit).Subject)), s.Probability, "unsure"})
		rest -= s.Probability
	}
	slices.SortStableFunc(out, func(a, b weight) int { return cmp.Compare(b.Probability, a.Probability) })
	if len(out) > 0 && len(p.Culprits) <= 1 && rest > 1e-6 {
		out = append(out, weight{"any other, or none", rest, ""})
	}
	return out
}

func (p *pager) badness() []badness {
	last := map[string]badness{}
	for _, s := range p.Steps {
		b := badness{p.at[s.Commit], printable(p.named(s.Commit)), s.Verdict.Probability, state(s)}
		switch s.Verdict.Call {
		case bisect.Bad:
		case bisect.Good:
			b.Probability = 1 - b.Probability
		default:
			delete(last, s.Commit)
			continue
		}
		last[s.Commit] = b
	}
	out := []badness{}
	for _, b := range last {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b badness) int { return cmp.Compare(a.At, b.At) })
	return out
}

func (p *pager) left() []left {
	out := []left{}
	for _, s := range p.Steps {
		if s.Role != "search" && s.Role != "walk back" || s.Remaining == 0 {
			continue
		}
		if len(out) == 0 && p.Matter > 0 {
			out = append(out, left{0, p.Matter, "before the search", ""})
		}
		out = append(out, left{len(out), s.Remaining, printable(p.named(s.Commit)), state(s)})
	}
	return out
}

func chance(p float64) string { return fmt.Sprintf("%.4g %%", 100*p) }
