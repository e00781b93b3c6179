package report

import (
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// costChart is where the time went.
type costChart struct {
	Phases []spentBar `json:"phases"`
}

type spentBar struct {
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
	Share   float64 `json:"share"`
}

func (p *pager) economics() Section {
	s := Section{ID: "economics", Title: "What it cost"}
	rows := p.in.Economics()
	if len(rows) == 0 {
		return s
	}
	total := 0.0
	for _, r := range rows {
		total += r.Seconds
	}
	var c costChart
	t := Table{Title: "Time by phase, over all launches", Columns: []string{"phase", "time", "share", "longest", "trials", "ended here"}, Right: []int{1, 2, 3, 4, 5}}
	for _, r := range rows {
		share := r.Seconds / max(total, 1e-9)
		c.Phases = append(c.Phases, spentBar{printable(r.Phase), r.Seconds, share})
		t.Rows = append(t.Rows, []string{r.Phase, secs(r.Seconds), fmt.Sprintf("%.0f %%", 100*share), secs(r.Longest), fmt.Sprint(r.Trials), fmt.Sprint(r.Ended)})
	}
	s.Words = p.spentWords()
	s.Charts = []Chart{{Kind: "cost", Label: "Seconds by phase over all launches", Data: c}}
	s.Tables = []Table{t, p.purposes()}
	return s
}

// spentWords says in a sentence what a job cost.
func (p *pager) spentWords() string {
	t := p.Totals
	words := fmt.Sprintf("%s and %s of %s, %d builds taken from the cache, %s without a trial; %s by the clock, of these %s running.",
		count(t.Trials, "trial"), count(t.Builds, "build"), t.candidates(), t.CacheHits, count(t.Inferred, "answer"), secs(t.Wall), secs(t.Device))
	if t.Cost != nil {
		words += fmt.Sprintf(" Cost: %.4g.", *t.Cost)
	}
	if len(p.Devices) > 0 {
		words += " On " + strings.Join(p.Devices, "; ") + "."
	}
	return words
}

// purposes is what was spent on what.
func (p *pager) purposes() Table {
	t := Table{Title: "Time by purpose", Columns: []string{"purpose", "launches", "build", "run"}, Right: []int{1, 2, 3}}
	type sum struct {
		n          int
		build, run float64
	}
	sums := map[bisect.Purpose]*sum{}
	var order []bisect.Purpose
	for _, l := range p.in.Launches {
		x := sums[l.Purpose]
		if x == nil {
			x = &sum{}
			sums[l.Purpose] = x
			order = append(order, l.Purpose)
		}
		x.n++
		x.run += l.Outcome.Wall
		if l.Outcome.Built {
			x.build += l.Outcome.Build
		}
	}
	for _, why := range order {
		x := sums[why]
		t.Rows = append(t.Rows, []string{p.purpose(why), fmt.Sprint(x.n), secs(x.build), secs(x.run)})
	}
	return t
}

const (
	mostLaunches = 3000 // in the table
	mostOutputs  = 4    // ends of outputs that are quoted
)

func (p *pager) launches() Section {
	s := Section{ID: "launches", Title: "All launches"}
	if len(p.in.Launches) == 0 {
		return s
	}
	t := Table{Title: "Launches, in order", Columns: []string{"no.", "candidate", "purpose", "ended", "build", "run", "at", "remarks"}, Right: []int{0, 4, 5, 6}, Behind: true}
	for i, l := range p.in.Launches {
		if i == mostLaunches {
			t.Notes = append(t.Notes, fmt.Sprintf("%d more: kbisect show %s", len(p.in.Launches)-i, p.Session))
			break
		}
		t.Rows = append(t.Rows, p.launchRow(i+1, l))
		t.States = append(t.States, launchState(l.Outcome.Class))
	}
	s.Tables = []Table{t}
	s.Output = p.outputs()
	return s
}

func (p *pager) launchRow(n int, l Launch) []string {
	o := l.Outcome
	build := ""
	switch {
	case o.CacheHit:
		build = "cached"
	case o.Built:
		build = secs(o.Build)
	}
	var remarks []string
	if o.Caches != "" {
		remarks = append(remarks, o.Caches+" caches")
	}
	if o.Unfit != "" {
		remarks = append(remarks, "not compared: "+o.Unfit)
	}
	remarks = append(remarks, o.Marks...)
	for _, r := range o.Repeated {
		remarks = append(remarks, "repeated: "+r)
	}
	return []string{fmt.Sprint(n), l.Candidate.Brief(), p.purpose(l.Purpose), o.Describe(), build, secs(o.Wall), secs(o.At), strings.Join(remarks, "; ")}
}

func launchState(c bisect.Class) string {
	switch c {
	case bisect.OK:
		return "good"
	case bisect.Timeout, bisect.Wrong, bisect.Crash:
		return "bad"
	}
	return "skip"
}

// outputs are the last words of the culprit, where it failed.
func (p *pager) outputs() []Output {
	var out []Output
	for i, l := range p.in.Launches {
		text := multiline(l.Outcome.Tail)
		if len(out) == mostOutputs || !p.culprits[l.Candidate.Commit] || l.Outcome.Class == bisect.OK || text == "" {
			continue
		}
		out = append(out, Output{fmt.Sprintf("Launch %d of %s: %s", i+1, l.Candidate.Brief(), printable(l.Outcome.Describe())), text})
	}
	return out
}
