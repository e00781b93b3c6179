package question

import (
	"math"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// What every kind of outcome says to a search for a failure.
func TestFailureReads(t *testing.T) {
	ok, skip := bisect.Outcome{Class: bisect.OK}, bisect.Outcome{Class: bisect.Skip}
	noBuild := bisect.Outcome{Class: bisect.BuildFailed, Phase: "build"}
	crash, wrong := bisect.Outcome{Class: bisect.Crash}, bisect.Outcome{Class: bisect.Wrong}
	load, warmup := bisect.Outcome{Class: bisect.Timeout, Phase: "load"}, bisect.Outcome{Class: bisect.Timeout, Phase: "warmup"}
	whole := bisect.Outcome{Class: bisect.Timeout, Phase: "warmup", Whole: true}
	slowBuild := bisect.Outcome{Class: bisect.Timeout, Phase: "build"}
	value, index := bisect.Outcome{Class: bisect.Crash, Error: "ValueError"}, bisect.Outcome{Class: bisect.Crash, Error: "IndexError"}

	bad, good := "bad", "good"
	for _, c := range []struct {
		complaint bisect.Complaint
		outcome   bisect.Outcome
		want      string // bad, good, another, silent
	}{
		{bisect.Complaint{}, ok, good}, // nothing is known yet: every failure is one
		{bisect.Complaint{}, crash, bad},
		{bisect.Complaint{}, load, bad},
		{bisect.Complaint{}, skip, "silent"},
		{bisect.Complaint{}, noBuild, "silent"},
		{bisect.Complaint{Class: bisect.Crash}, crash, bad},
		{bisect.Complaint{Class: bisect.Crash}, wrong, "another"},
		{bisect.Complaint{Class: bisect.Crash}, noBuild, "silent"},
		{bisect.Complaint{Class: bisect.Crash, Any: true}, wrong, bad},
		{bisect.Complaint{Class: bisect.Crash, Any: true}, skip, "silent"},
		{bisect.Complaint{Class: bisect.Crash, Error: "ValueError"}, value, bad},
		{bisect.Complaint{Class: bisect.Crash, Error: "ValueError"}, index, "another"},
		{bisect.Complaint{Class: bisect.Crash, Error: "ValueError"}, crash, bad}, // of which no exception is known
		{bisect.Complaint{Class: bisect.Timeout, Phase: "load"}, load, bad},
		{bisect.Complaint{Class: bisect.Timeout, Phase: "load"}, warmup, "another"},
		{bisect.Complaint{Class: bisect.Timeout, Phase: "load", AnyPhase: true}, warmup, bad},
		{bisect.Complaint{Class: bisect.Timeout, Phase: "load", Whole: true}, whole, bad},
		{bisect.Complaint{Class: bisect.Timeout, Phase: "load", Whole: true}, warmup, "another"},
		{bisect.Complaint{Class: bisect.BuildFailed}, noBuild, bad},
		{bisect.Complaint{Class: bisect.BuildFailed}, crash, good}, // it was built
		{bisect.Complaint{Class: bisect.BuildFailed}, slowBuild, "another"},
		{bisect.Complaint{Class: bisect.BuildFailed, Any: true}, crash, bad},
		{bisect.Complaint{Class: bisect.Timeout, Phase: "build"}, slowBuild, bad},
		{bisect.Complaint{Class: bisect.Timeout, Phase: "build"}, wrong, good},
		{bisect.Complaint{Class: bisect.Timeout, Phase: "build"}, noBuild, "silent"},
	} {
		q := &Failure{Complaint: c.complaint}
		l, a := q.Read(search.Trial{Outcome: c.outcome})
		got := map[search.Answer]string{search.Another: "another", search.Silent: "silent", search.Unfit: "unfit", search.Speaks: good}[a]
		if a == search.Speaks && l.Failed {
			got = bad
		}
		if got != c.want {
			t.Errorf("%s: %s is read as %s, want %s", c.complaint, c.outcome.Describe(), got, c.want)
		}
		v := q.Judge(c.outcome, 1)
		if want := map[string]bisect.Call{bad: bisect.Bad, good: bisect.Good}[c.want]; want != "" && v.Call != want || want == "" && v.Call != bisect.Untestable || v.Other != (c.want == "another") {
			t.Errorf("%s: %s is judged %s (another way: %v)", c.complaint, c.outcome.Describe(), v.Call, v.Other)
		}
	}
}

// More passes make a good commit surer, never certain.
func TestFailureJudgesByRepetition(t *testing.T) {
	q := &Failure{Complaint: bisect.Complaint{Class: bisect.Crash}}
	last := 0.0
	for n := 1; n <= 10; n++ {
		p := q.Judge(bisect.Outcome{Class: bisect.OK}, n).Probability
		if p <= last || p >= 1 {
			t.Errorf("%d passes: %v after %v", n, p, last)
		}
		last = p
	}
}

// A launch is hurried only where it is searched with, and only through the phase that the complaint is about.
func TestFailureHurries(t *testing.T) {
	for _, c := range []struct {
		complaint bisect.Complaint
		want      string
	}{
		{bisect.Complaint{Class: bisect.Crash}, ""},
		{bisect.Complaint{Class: bisect.Timeout, Phase: "warmup"}, "warmup"},
		{bisect.Complaint{Class: bisect.Timeout, Phase: "warmup", Whole: true}, bisect.WholeTrial},
	} {
		q := &Failure{Complaint: c.complaint}
		for _, patient := range []bool{false, true} {
			for _, why := range []bisect.Purpose{bisect.Searching, bisect.ConfirmCulprit} {
				r := bisect.Request{Purpose: why}
				q.Shape(&r, patient)
				want := c.want
				if patient || why == bisect.ConfirmCulprit {
					want = ""
				}
				if r.Hurry != want {
					t.Errorf("%s, patient %v, %s: hurry %q, want %q", c.complaint, patient, why, r.Hurry, want)
				}
			}
		}
	}
}

// What every kind of outcome says to a search for a metric.
func TestLevelReads(t *testing.T) {
	time := []bisect.Series{{Metric: "time", Unit: "us", Values: []float64{20}}}
	metricOf := func(name string, higher bool) metric.Metric {
		return metric.Metric{Name: name, Higher: higher, Told: true}
	}
	for _, c := range []struct {
		name   string
		metric metric.Metric
		faster bool
		trial  search.Trial
		want   search.Answer
		y      float64
	}{
		{"a time", metricOf("time", false), false, search.Trial{Outcome: bisect.Outcome{Class: bisect.OK, Series: time}}, search.Speaks, math.Log(20)},
		{"a rate is better when it is higher", metricOf("time", true), false, search.Trial{Outcome: bisect.Outcome{Class: bisect.OK, Series: time}}, search.Speaks, -math.Log(20)},
		{"an improvement is looked for", metricOf("time", false), true, search.Trial{Outcome: bisect.Outcome{Class: bisect.OK, Series: time}}, search.Speaks, -math.Log(20)},
		{"held back by the machine", metricOf("time", false), false, search.Trial{Outcome: bisect.Outcome{Class: bisect.OK, Series: time, Unfit: "throttled"}}, search.Unfit, 0},
		{"no such number", metricOf("rate", true), false, search.Trial{Outcome: bisect.Outcome{Class: bisect.OK, Series: time}}, search.Silent, 0},
		{"a crash", metricOf("time", false), false, search.Trial{Outcome: bisect.Outcome{Class: bisect.Crash, Series: time}}, search.Another, 0},
		{"a skip", metricOf("time", false), false, search.Trial{Outcome: bisect.Outcome{Class: bisect.Skip}}, search.Silent, 0},
		{"a time-out says nothing of a kernel's time", metricOf("time", false), false, search.Trial{Outcome: bisect.Outcome{Class: bisect.Timeout, Wall: 60}}, search.Another, 0},
		{"a time-out took at least so long", metricOf("wall", false), false, search.Trial{Request: bisect.Request{Timing: true}, Outcome: bisect.Outcome{Class: bisect.Timeout, Wall: 60}}, search.Speaks, math.Log(60)},
		{"a launch not made for its times", metricOf("wall", false), false, search.Trial{Outcome: bisect.Outcome{Class: bisect.OK, Wall: 3}}, search.Unfit, 0},
		{"a phase of a launch not made for its times", metricOf("phase.load", false), false, search.Trial{Outcome: bisect.Outcome{Class: bisect.OK, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 2}}}}, search.Unfit, 0},
		{"a phase", metricOf("phase.load", false), false, search.Trial{Request: bisect.Request{Timing: true}, Outcome: bisect.Outcome{Class: bisect.OK, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 2}}}}, search.Speaks, math.Log(2)},
	} {
		q := &Level{Channel: metric.Channel{Metric: c.metric}, Faster: c.faster}
		l, a := q.Read(c.trial)
		if a != c.want || a == search.Speaks && math.Abs(l.Y-c.y) > 1e-4 {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, a, l.Y, c.want, c.y)
		}
		if l.Censored != (c.trial.Class == bisect.Timeout && a == search.Speaks) {
			t.Errorf("%s: censored %v", c.name, l.Censored)
		}
	}
	pairs := &Level{Channel: metric.Channel{Metric: metricOf("time", false)}, InPairs: true}
	for timing, want := range map[bool]search.Answer{true: search.Speaks, false: search.Unfit} {
		if _, a := pairs.Read(search.Trial{Request: bisect.Request{Timing: timing}, Outcome: bisect.Outcome{Class: bisect.OK, Series: time}}); a != want {
			t.Errorf("a launch on any device, with its reference beside it %v: %v", timing, a)
		}
	}
}

// Of exact numbers the search is about the one of the first metric that grew most, or fell most where none grew.
func TestExactNumbersPick(t *testing.T) {
	registers, spills := metric.Metric{Name: "registers", Exact: true}, metric.Metric{Name: "spills", Exact: true}
	type number struct {
		m         metric.Metric
		good, bad float64
	}
	for _, c := range []struct {
		name    string
		numbers []number
		worst   int
		rises   bool
		best    int // of the metric of the worst
	}{
		{"one that grows", []number{{registers, 1, 2}}, 0, true, 0},
		{"the largest growth", []number{{registers, 1, 2}, {registers, 1, 4}, {registers, 1, 3}}, 1, true, 1},
		{"the first metric that grows wins over one that grows more", []number{{registers, 1, 2}, {spills, 1, 9}}, 0, true, 0},
		{"a metric that stays leaves it to the next", []number{{registers, 1, 1}, {spills, 1, 9}}, 1, true, 1},
		{"none grows", []number{{registers, 3, 2}, {registers, 3, 1}}, 0, false, 1},
		{"nothing changes", []number{{registers, 3, 3}, {registers, 2, 2}}, 0, false, 0},
	} {
		var x exactNumbers
		for _, n := range c.numbers {
			x.add(metric.Channel{Metric: n.m}, metric.Figure{Level: n.good}, metric.Figure{Level: n.bad}, 1)
		}
		worst := x.worst(0.5)
		if worst != c.worst || x.rises(0.5) != c.rises || x.best(worst, 0.5) != c.best {
			t.Errorf("%s: worst %d, rises %v, best %d; want %d, %v, %d", c.name, worst, x.rises(0.5), x.best(worst, 0.5), c.worst, c.rises, c.best)
		}
	}
	if (&exactNumbers{}).rises(0.5) {
		t.Error("no number rises where there is none")
	}
}
