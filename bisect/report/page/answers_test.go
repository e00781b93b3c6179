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
		out = append(out, c.Line+" # "+c.Why)
	}
	return strings.Join(append(out, p.Totals), "\n")
}

// TestOneEstimate: the headline of a comparison and its table name one estimate of a change, that on which the verdict rests.
func TestOneEstimate(t *testing.T) {
	x := samples.Contrast(report.GateRegression, "n1", 1.053)
	x.Ratio = report.Estimate{Value: 1.031, Low: 1.029, High: 1.042}
	c := samples.Comparison(report.GateRegression, x)
	c.Verdict = c.Sentence("")
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
	if text := said(New(report.NewSearch(in), in.Ledger)); strings.Count(text, "suspects: ") != 10 || !strings.Contains(text, "suspects: 20 %") {
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
	if text := said(New(d, report.Ledger{})); !strings.Contains(text, "complaint: timeout in load with all changes, timeout in warmup with the set above") || strings.Contains(text, "required: ") {
		t.Error(text)
	}
	d.MinimalSets[0].Phase = &load
	if text := said(New(d, report.Ledger{})); !strings.Contains(text, "complaint: timeout in load\n") {
		t.Error(text)
	}
}
