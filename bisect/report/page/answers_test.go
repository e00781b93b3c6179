package page

import (
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
	"github.com/kbisect/kbisect/bisect/sets"
)

// said is all that the cards and the sections of a page say, a line each.
func said(p Page) string {
	var out []string
	for _, c := range p.Cards {
		out = append(out, c.Head)
		for _, r := range c.Rows {
			out = append(out, r.Name+": "+r.Text+r.Copy)
		}
	}
	for _, s := range p.Sections {
		out = append(out, s.Title, s.Words, s.Missing, strings.Join(s.List, "\n"))
		for _, f := range s.Facts {
			out = append(out, f.Name+": "+f.Text)
		}
		for _, t := range s.Tables {
			out = append(out, t.Title, strings.Join(t.Columns, " "), strings.Join(t.Notes, "\n"))
			for _, row := range t.Rows {
				out = append(out, strings.Join(row, " "))
			}
		}
		for _, c := range s.Charts {
			out = append(out, c.Label)
		}
	}
	for _, c := range p.Next {
		out = append(out, c.Line()+" # "+c.Why)
	}
	return strings.Join(append(out, p.Totals), "\n")
}

// TestOneEstimate: the headline of a comparison and its table name one estimate of a change, that on which the verdict rests.
func TestOneEstimate(t *testing.T) {
	x := samples.Contrast(report.GateRegression, "n1", 1.053)
	x.Ratio = report.Estimate{Value: 1.031, Low: 1.029, High: 1.042}
	c := samples.Comparison(report.GateRegression, x)
	c.Conclude("", "")
	p := New(c, report.Ledger{})
	text := said(p)
	if !strings.Contains(p.Headline, "+5.3 % (99 % CI +3.3 to +7.3 %)") || !strings.Contains(text, "+5.3 % (+3.3 to +7.3 %)") || strings.Contains(text, "3.1 %") {
		t.Error(p.Headline, text)
	}
}

// TestNobodyIsBlamed: where the machine stopped a search, no commit stands there with a probability; where nothing is known
// yet, the commits are counted.
func TestNobodyIsBlamed(t *testing.T) {
	in := samples.Found()
	in.Finding.Culprits, in.Finding.Result = nil, bisect.Broken
	for i := range 10 {
		in.Finding.Suspects = append(in.Finding.Suspects, bisect.SuspectCommit{Commit: samples.CommitID(i), Probability: 0.1})
	}
	for _, result := range []bisect.Result{bisect.Broken, bisect.Interrupted} {
		in.Finding.Result = result
		p := New(report.NewSearch(in), in.Ledger)
		text := said(p)
		if !strings.Contains(text, "suspects: 10 commits, none likelier than another") || strings.Contains(p.Cards[0].Rows[0].Text, "10 %") || result == bisect.Broken && strings.Contains(text, "10 %") {
			t.Errorf("%s: %s", result, text)
		}
	}
	in.Finding.Suspects[3].Probability = 0.2
	in.Finding.Result = bisect.Inconclusive
	if text := said(New(report.NewSearch(in), in.Ledger)); strings.Count(text, "suspects: ") != 11 || !strings.Contains(text, "suspects: 5 more, 40 % together") || !strings.Contains(text, "suspects: 20 %") {
		t.Error(text)
	}
}

// TestPhasesOfAComplaint: a set that times out in another phase than all changes together does not contradict them.
func TestPhasesOfAComplaint(t *testing.T) {
	load, warmup := "load", "warmup"
	d := &report.Search{
		Axis: report.AxisFlags, Result: bisect.Found, Complaint: &report.Complaint{Class: bisect.Timeout, Phase: &load},
		MinimalSets: []report.MinimalSet{{Assignment: report.Assignment{Assign: map[string]string{"a": "1", "b": "1"}}, Class: bisect.Timeout, Phase: &warmup, Certified: true, Carriers: []string{"a", "b"}}},
		Hypotheses:  []report.Hypothesis{{Name: "x", Verdict: sets.Refuted}},
	}
	if text := said(New(d, report.Ledger{})); !strings.Contains(text, "complaint: timeout in load with all changes, timeout in warmup with a=1 b=1 alone") || strings.Contains(text, "required: ") {
		t.Error(text)
	}
	d.MinimalSets[0].Phase = &load
	if text := said(New(d, report.Ledger{})); !strings.Contains(text, "complaint: timeout in load\n") {
		t.Error(text)
	}
}

// A gain whose interval holds no change is not called one. What it is against stands beside it, and is what the command
// below launches; a claim of more settings than are needed says so.
func TestRecommendedSetting(t *testing.T) {
	ratio, low, high := 0.66, 0.62, 1.058
	a := func(flags ...string) (out report.Assignment) {
		out.Assign = map[string]string{}
		for _, x := range flags {
			out.Assign[x] = "1"
		}
		return out
	}
	d := &report.Search{
		Axis: report.AxisFlags, Result: bisect.Found, Ends: report.Ends{Good: "abc", Bad: "abc"},
		MinimalSets: []report.MinimalSet{{Assignment: a("b"), Class: bisect.Wrong, Certified: true, Culprits: []string{"b"}}},
		Recommended: &report.SafeSet{Assignment: a("a"), Metric: map[string]float64{"time": 1}, Ratio: &ratio, Low: &low, High: &high, Better: "lower", Confirmed: true, Setting: &report.Setting{Flags: "a=1,b=0"}},
		Hypotheses:  []report.Hypothesis{{Name: "x", Claim: []string{"a=1", "b=1"}, Verdict: sets.Confirmed}},
	}
	l := report.Ledger{Launches: []report.Launch{{Candidate: bisect.Candidate{Commit: "abc", Assign: "a=0,b=0"}, Purpose: bisect.EndGood}}}
	text := said(New(d, l))
	for _, want := range []string{"use: passes; time -34.0 % (95 % CI -38.0 to +5.8 %) against the base, not significant", "base: a=0 b=0\n", "compare abc:a=0,b=0 abc:a=1,b=0", "confirmed, but b=1 alone fails"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if high = 0.7; !strings.Contains(said(New(d, l)), "-30.0 %) against the base, lower is better") {
		t.Error(said(New(d, l)))
	}
}

// TestBaseIsRecommended: where a noisy machine leaves the base as the fastest setting, the answer says so, with the most
// that passes.
func TestBaseIsRecommended(t *testing.T) {
	ratio, low, high := 1.12, 0.8, 1.4
	most := report.SafeSet{Assignment: report.Assignment{Assign: map[string]string{"a": "1"}}, Metric: map[string]float64{"time": 1}, Ratio: &ratio, Low: &low, High: &high, Better: "lower", Confirmed: true}
	d := &report.Search{
		Axis: report.AxisFlags, Result: bisect.Found, Ends: report.Ends{Good: "abc", Bad: "abc"},
		Recommended: &report.SafeSet{Confirmed: true, Setting: &report.Setting{Env: []string{"A=0"}}}, SafeSets: []report.SafeSet{most},
	}
	text := said(New(d, report.Ledger{}))
	for _, want := range []string{
		"use: passes; nothing else that passes is known to be as fastthe base\n", "as environmentA=0\n",
		"or: passes; time +12.0 % (95 % CI -20.0 to +40.0 %) against the base, not significant, lower is bettera=1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if d.SafeSets = nil; strings.Contains(said(New(d, report.Ledger{})), "use: ") {
		t.Error("there is nothing else to use")
	}
	// The budget ended before anything was timed.
	most.Ratio, most.Low, most.High = nil, nil, nil
	if d.Recommended, d.SafeSets = nil, []report.SafeSet{most}; !strings.Contains(said(New(d, report.Ledger{})), "use: passesa=1\n") {
		t.Error(said(New(d, report.Ledger{})))
	}
}

// TestNoAnswerSaysWhyAndWhatNext: however a search, a comparison or a gate ends without an answer, the answer says why, and
// below it stands a command that may lead to one.
func TestNoAnswerSaysWhyAndWhatNext(t *testing.T) {
	launch := func(why bisect.Purpose, class bisect.Class) report.Launch {
		return samples.Launch(samples.GoodID, why, bisect.Outcome{Class: class})
	}
	of := func(good, bad bisect.Class) (out []report.Launch) {
		if out = append(out, launch(bisect.EndGood, good)); bad != "" {
			out = append(out, launch(bisect.EndBad, bad))
		}
		return out
	}
	ok, slow := bisect.OK, append(of(bisect.OK, bisect.OK), of(bisect.OK, bisect.OK)...)
	suspects := []bisect.SuspectCommit{{Commit: samples.CommitID(1), Probability: 0.5, Why: "it cannot be built"}, {Commit: samples.CommitID(2), Probability: 0.5}}
	call := report.NewCall([]string{"kbisect"}, strings.Fields("kbisect run --good v1 -- ./t.sh"))
	const a, b = "aaaaaaaaaa", "bbbbbbbbbb"
	for name, c := range map[string]struct {
		axis     string
		finding  bisect.Finding
		launches []report.Launch
		want     string
	}{
		"neither end builds":   {"", bisect.Finding{Result: bisect.NoDifference}, of(bisect.BuildFailed, bisect.BuildFailed), "kbisect run --find-good --bad " + b + " -- ./t.sh"},
		"the good end fails":   {"", bisect.Finding{Result: bisect.Inconclusive, Ends: bisect.Ends{Untestable: true}}, of(bisect.Crash, ""), "kbisect run --find-good --bad " + b + " -- ./t.sh"},
		"both fail":            {"", bisect.Finding{Result: bisect.NoDifference}, of(bisect.Wrong, bisect.Wrong), "kbisect run --find-good --bad " + b + " -- ./t.sh"},
		"swapped":              {"", bisect.Finding{Result: bisect.NoDifference}, of(bisect.Wrong, ok), "kbisect try --good " + a + " --bad " + b + " -- ./t.sh"},
		"the bad end skips":    {"", bisect.Finding{Result: bisect.Inconclusive, Ends: bisect.Ends{Untestable: true}}, of(ok, bisect.Skip), "kbisect try --good " + a + " --bad " + b + " -- ./t.sh"},
		"another complaint":    {"", bisect.Finding{Result: bisect.NoDifference}, of(ok, bisect.Crash), "kbisect try --good " + a + " --bad " + b + " -- ./t.sh"},
		"both pass":            {"", bisect.Finding{Result: bisect.NoDifference}, of(ok, ok), "kbisect run --find slow --metric wall --bad " + b + " --good " + a + " -- ./t.sh"},
		"both pass with flags": {report.AxisFlags, bisect.Finding{Result: bisect.NoDifference}, of(ok, ok), "kbisect run --find slow --metric wall --bad " + b + " --axis flags -- ./t.sh"},
		"as fast":              {"", bisect.Finding{Result: bisect.NoDifference}, slow, "kbisect compare " + a + " " + b + " -- ./t.sh"},
		"nothing matters":      {"", bisect.Finding{Result: bisect.NoDifference}, nil, "kbisect compare " + a + " " + b + " -- ./t.sh"},
		"too noisy":            {"", bisect.Finding{Result: bisect.Inconclusive, Ends: bisect.Ends{Unclear: true}}, slow, "kbisect compare " + a + " " + b + " -- ./t.sh"},
		"no good commit":       {"", bisect.Finding{Result: bisect.Inconclusive, Ends: bisect.Ends{Untestable: true}}, of(bisect.Wrong, bisect.Wrong), "kbisect run --find-good --bad " + b + " -- ./t.sh"},
		"gradual":              {"", bisect.Finding{Result: bisect.Inconclusive, Gradual: true}, slow, "kbisect compare " + a + " " + b + " -- ./t.sh"},
		"budget at the ends":   {"", bisect.Finding{Result: bisect.Inconclusive, Spent: true, Ends: bisect.Ends{Unclear: true}}, of(ok, ""), "kbisect run --resume --budget 10m"},
		"budget":               {"", bisect.Finding{Result: bisect.Inconclusive, Spent: true, Suspects: suspects}, of(ok, bisect.Wrong), "kbisect run --resume --budget 10m"},
		"two suspects":         {"", bisect.Finding{Result: bisect.Inconclusive, Suspects: suspects}, of(ok, bisect.Wrong), "git show --stat 0000000100 0000000200"},
		"one suspect":          {"", bisect.Finding{Result: bisect.Inconclusive, Suspects: suspects[:1]}, of(ok, bisect.Wrong), "git show --stat 0000000100"},
	} {
		in := samples.Found()
		c.finding.Ends.Why, c.finding.Ends.Hint = "a reason", "an advice"
		in.Finding, in.Axis, in.Launches, in.Call = c.finding, c.axis, c.launches, call
		if c.axis == report.AxisFlags {
			in.Sets = &report.Sets{}
		}
		p := New(report.NewSearch(in), in.Ledger)
		card := p.Cards[0]
		if text := said(Page{Cards: p.Cards}); card.State != Unsure || !strings.Contains(text, "a reason") && len(c.finding.Suspects) == 0 && !c.finding.Gradual || !strings.Contains(text, "hint: an advice") {
			t.Errorf("%s: %s\n%s", name, card.State, text)
		}
		if p.Next[0].Line() != c.want || len(p.Next) != 2 || p.Next[0].Why == "" {
			t.Errorf("%s: %+v, want %s", name, p.Next, c.want)
		}
	}
	open := samples.Contrast(report.GateOpen, "n1", 1.01)
	for name, c := range map[string]struct {
		change func(*report.Compared)
		want   [2]string
	}{
		"budget": {func(x *report.Compared) { x.BudgetOver = true }, [2]string{"kbisect compare HEAD^ HEAD --budget 30m -- ./t.sh", "kbisect gate --budget 30m -- ./t.sh"}},
		"noise":  {func(x *report.Compared) { x.Hopeless = true }, [2]string{"kbisect measure --launches 30 HEAD^ -- ./t.sh", "kbisect measure --launches 30 HEAD -- ./t.sh"}},
		"lost":   {func(x *report.Compared) { x.Contrasts = nil }, [2]string{"kbisect show s1", "kbisect show s1"}},
	} {
		d, g := samples.Comparison(report.GateOpen, open), samples.Gate(report.GateOpen, 3, open)
		c.change(&d.Compared)
		c.change(&g.Compared)
		d.Conclude("", "")
		g.Conclude("")
		for i, p := range []Page{New(d, report.Ledger{Call: call}), New(g, report.Ledger{Call: call})} {
			if p.Next[0].Line() != c.want[i] || !strings.HasPrefix(p.Headline, "Cannot tell: ") {
				t.Errorf("%s: %s, %+v, want %s", name, p.Headline, p.Next, c.want[i])
			}
		}
	}
}
