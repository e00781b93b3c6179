package bisect_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
)

// A search follows one complaint: a launch that fails in another way says nothing about it.
func TestComplaintMatches(t *testing.T) {
	timeout := func(phase string) bisect.Outcome { return bisect.Outcome{Class: bisect.Timeout, Phase: phase} }
	for _, x := range []struct {
		name      string
		complaint bisect.Complaint
		outcome   bisect.Outcome
		want      bool
	}{
		{"the same class", bisect.Complaint{Class: bisect.Crash}, bisect.Outcome{Class: bisect.Crash, Phase: "load"}, true},
		{"another class", bisect.Complaint{Class: bisect.Crash}, bisect.Outcome{Class: bisect.Wrong}, false},
		{"a pass", bisect.Complaint{Class: bisect.Crash}, bisect.Outcome{Class: bisect.OK}, false},
		{"a timeout in its phase", bisect.Complaint{Class: bisect.Timeout, Phase: "warmup"}, timeout("warmup"), true},
		{"a timeout in another phase", bisect.Complaint{Class: bisect.Timeout, Phase: "warmup"}, timeout("load"), false},
		{"a timeout wherever it is", bisect.Complaint{Class: bisect.Timeout, Phase: "warmup", AnyPhase: true}, timeout("load"), true},
		{"a timeout of no phase", bisect.Complaint{Class: bisect.Timeout}, timeout("load"), true},
		{"a timeout of the whole launch", bisect.Complaint{Class: bisect.Timeout, Phase: "warmup", Whole: true}, bisect.Outcome{Class: bisect.Timeout, Phase: "load", Whole: true}, true},
		{"a timeout of a phase instead of the whole", bisect.Complaint{Class: bisect.Timeout, Phase: "warmup", Whole: true}, timeout("load"), false},
		{"any failure", bisect.Complaint{Any: true, Class: bisect.Crash}, bisect.Outcome{Class: bisect.Wrong}, true},
		{"any failure, and a pass", bisect.Complaint{Any: true, Class: bisect.Crash}, bisect.Outcome{Class: bisect.OK}, false},
		{"any failure, and what cannot be tested", bisect.Complaint{Any: true, Class: bisect.Crash}, bisect.Outcome{Class: bisect.Skip}, false},
		{"any failure, and a build that fails", bisect.Complaint{Any: true, Class: bisect.Crash}, bisect.Outcome{Class: bisect.BuildFailed}, false},
		{"any failure to build", bisect.Complaint{Any: true, Class: bisect.BuildFailed}, bisect.Outcome{Class: bisect.BuildFailed}, true},
		{"the same exception", bisect.Complaint{Class: bisect.Wrong, Error: "ValueError"}, bisect.Outcome{Class: bisect.Wrong, Error: "ValueError"}, true},
		{"another exception", bisect.Complaint{Class: bisect.Wrong, Error: "ValueError"}, bisect.Outcome{Class: bisect.Wrong, Error: "ImportError"}, false},
		{"any failure with another exception", bisect.Complaint{Any: true, Class: bisect.Wrong, Error: "ValueError"}, bisect.Outcome{Class: bisect.Wrong, Error: "ImportError"}, false},
		{"no exception is known", bisect.Complaint{Class: bisect.Wrong, Error: "ValueError"}, bisect.Outcome{Class: bisect.Wrong}, true},
	} {
		if got := x.complaint.Matches(x.outcome); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

// A way to fail has many sides; two launches end alike only if they agree in all.
func TestEndsAs(t *testing.T) {
	crash := bisect.Outcome{Class: bisect.Crash, Phase: "load", Exit: -1, Signal: "SIGSEGV", Error: "ValueError"}
	later := crash
	later.Wall, later.Why, later.Tail = 9, "another address", "more"
	if !crash.EndsAs(later) {
		t.Error("the same failure at another time is another one")
	}
	for name, change := range map[string]func(*bisect.Outcome){
		"class": func(o *bisect.Outcome) { o.Class = bisect.Wrong }, "phase": func(o *bisect.Outcome) { o.Phase = "run" },
		"exit": func(o *bisect.Outcome) { o.Exit = 3 }, "signal": func(o *bisect.Outcome) { o.Signal = "SIGBUS" },
		"exception": func(o *bisect.Outcome) { o.Error = "ImportError" },
	} {
		other := crash
		if change(&other); crash.EndsAs(other) || other.EndsAs(crash) {
			t.Errorf("another %s does not count", name)
		}
	}
	if ok := (bisect.Outcome{Class: bisect.OK}); ok.EndsAs(ok) {
		t.Error("a pass counts as a failure")
	}
}

// Every outcome is good, bad or untestable, and only one of them.
func TestOutcomesInWords(t *testing.T) {
	for _, x := range []struct {
		outcome    bisect.Outcome
		bad        bool
		untestable bool
		want       string
	}{
		{bisect.Outcome{Class: bisect.OK, Phase: "measure"}, false, false, "ok"},
		{bisect.Outcome{Class: bisect.Timeout, Phase: "warmup", Why: "no end after 3 s"}, true, false, "timeout in warmup: no end after 3 s"},
		{bisect.Outcome{Class: bisect.Crash}, true, false, "crash"},
		{bisect.Outcome{Class: bisect.BuildFailed, Phase: "build", Why: "exit 2"}, false, true, string(bisect.BuildFailed) + ": exit 2"},
		{bisect.Outcome{Class: bisect.Skip, Why: "exit 125"}, false, true, string(bisect.Skip) + ": exit 125"},
		{bisect.Outcome{Class: bisect.Wrong, Phase: "check", Shared: "0123456789abcdef"}, true, false, "wrong in check, as 0123456789, whose build is the same"},
	} {
		if got := x.outcome.Describe(); got != x.want || x.outcome.Failed() != x.bad || x.outcome.Untestable() != x.untestable {
			t.Errorf("%q, bad %v, untestable %v; want %+v", got, x.outcome.Failed(), x.outcome.Untestable(), x)
		}
	}
	for _, x := range []struct {
		verdict bisect.Verdict
		want    string
	}{
		{bisect.Verdict{Call: bisect.Good, Class: bisect.OK}, "good"},
		{bisect.Verdict{Call: bisect.Bad, Class: bisect.Crash, Other: true}, "bad"},
		{bisect.Verdict{Call: bisect.Untestable, Class: bisect.BuildFailed}, "skip"},
		{bisect.Verdict{Call: bisect.Untestable, Class: bisect.Crash, Other: true}, "other"},
		{bisect.Verdict{Call: bisect.Untestable, Class: bisect.OK}, "unsure"},
	} {
		if got := x.verdict.Word(); got != x.want {
			t.Errorf("%+v: %q", x.verdict, got)
		}
	}
}

// Numbers come back from JSON as they were, and unknown ones as unknown.
func TestNumbersInJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := bisect.Number(rapid.Float64().Draw(t, "n"))
		text, err := json.Marshal(n)
		var back bisect.Number
		if err != nil || json.Unmarshal(text, &back) != nil || n.Known() && back != n || n.Known() != back.Known() {
			t.Errorf("%g became %s and %g, %v", n, text, back, err)
		}
	})
	for _, n := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if text, err := json.Marshal(bisect.Number(n)); string(text) != "null" || err != nil {
			t.Errorf("%g became %s, %v", n, text, err)
		}
	}
	n := bisect.Number(3)
	if err := json.Unmarshal([]byte(`"3"`), &n); err == nil || n.Known() {
		t.Errorf("a text became %g, %v", n, err)
	}
}

// Distances along a history are the shortest ways in it.
func TestDistances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		commits := make([]bisect.Commit, n)
		linked := func(i, j int) bool {
			return slices.Contains(commits[i].InRange, j) || slices.Contains(commits[j].InRange, i)
		}
		for i := 1; i < n; i++ {
			commits[i].InRange = slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.IntRange(0, i-1), 0, 2).Draw(t, "parents"))))
		}
		from := rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, "from")
		far := bisect.Distances(commits, from)
		for i, d := range far {
			least := n + 1 // of its neighbours
			for j := range far {
				if linked(i, j) {
					least = min(least, far[j])
				}
			}
			if want := min(least+1, n+1); !slices.Contains(from, i) && d != want || slices.Contains(from, i) && d != 0 {
				t.Fatalf("%v from %v: %v, commit %d", commits, from, far, i)
			}
		}
	})
}
