package trial

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// A launch adds up its processes. The end of an optional one decides nothing, but for the machine's fault and the
// limit of the whole trial.
func TestTrialProgress(t *testing.T) {
	times := func(class bisect.Class, phases ...bisect.PhaseTime) bisect.Outcome {
		return bisect.Outcome{Class: class, Phases: phases, Wall: 1, Warnings: []string{string(class)}}
	}
	optional, last := kernels.Stage{Name: "compile", Optional: true}, kernels.Stage{Name: "test"}
	var sum trialProgress
	first := times(bisect.Timeout, bisect.PhaseTime{Name: "load", Seconds: 1})
	first.Why, first.Phase, first.Memory, first.Unfit = "compile reached its limit", "load", 7, "it ran with the probe"
	sum.add(optional, Launched{Outcome: first, Killed: true, Stall: time.Second, Last: proc.Result{Exit: -1}}, 3*time.Second)
	if sum.Outcome.Class != bisect.OK || sum.Outcome.Phase != "" || sum.Outcome.Why != "" || !sum.Killed || len(sum.Outcome.Warnings) != 2 {
		t.Errorf("an optional process that hangs: %+v", sum.Outcome)
	}
	second := times(bisect.Wrong, bisect.PhaseTime{Name: "check", Seconds: 2}, bisect.PhaseTime{Name: "load", Seconds: 4})
	second.Memory = 5
	sum.add(last, Launched{Outcome: second, Stall: time.Second, Last: proc.Result{Exit: 1}}, 2*time.Second)
	o := sum.Outcome
	if d := cmp.Diff([]bisect.PhaseTime{{Name: "load", Seconds: 5}, {Name: "check", Seconds: 2}}, o.Phases); d != "" {
		t.Error(d)
	}
	if o.Class != bisect.Wrong || o.Wall != 2 || o.Memory != 7 || o.Unfit == "" || sum.spent != 5*time.Second || sum.Stall != 2*time.Second || !sum.Killed || sum.Last.Exit != 1 {
		t.Errorf("%+v", sum)
	}
	for _, o := range []bisect.Outcome{{Class: bisect.Infra}, {Class: bisect.Timeout, Whole: true}} {
		var sum trialProgress
		if sum.add(optional, Launched{Outcome: o}, 0); sum.Outcome.Class != o.Class {
			t.Errorf("%s (whole %v) of an optional process became %s", o.Class, o.Whole, sum.Outcome.Class)
		}
	}
}

// What the kernel counted is of all processes of a launch, and a number that the program sends cannot stand in for it.
func TestCountedOfAllProcesses(t *testing.T) {
	sources := []Source{{Metric: "work", From: "instructions"}, {Metric: "cpu", From: "cpu"}}
	used := proc.Result{User: time.Second, System: time.Second / 2, Instructions: 1000, Enabled: time.Second, Counted: time.Second}
	sent := []bisect.Series{{Metric: "cpu", Case: "forged", Values: []float64{1e-9}}, {Metric: "time", Values: []float64{3}}}
	var sum trialProgress
	for range 2 {
		sum.add(kernels.Stage{Name: "test"}, Launched{Outcome: bisect.Outcome{Class: bisect.OK, Series: sent[:1:1]}, Last: used}, time.Second)
	}
	sum.Outcome.Series = append(sum.Outcome.Series, sent[1])
	readResults(t.TempDir(), sources, sum.used, &sum.Outcome)
	want := []bisect.Series{sent[1], {Metric: "work", Unit: "1", Values: []float64{2000}}, {Metric: "cpu", Unit: "s", Values: []float64{3}}}
	if d := cmp.Diff(want, sum.Outcome.Series); d != "" || sum.Outcome.Unfit != "" || len(sum.Outcome.Warnings) != 1 {
		t.Errorf("%s %+v", d, sum.Outcome)
	}
	if sum.Outcome.CPU != 3 {
		t.Errorf("processor time of %v s", sum.Outcome.CPU)
	}
	used.Counted /= 2
	sum.add(kernels.Stage{}, Launched{Outcome: bisect.Outcome{Class: bisect.OK}, Last: used}, 0)
	if readResults(t.TempDir(), sources, sum.used, &sum.Outcome); sum.Outcome.Unfit == "" || sum.Outcome.Class != bisect.OK {
		t.Errorf("counted for a part of the time: %+v", sum.Outcome)
	}
	failed := bisect.Outcome{Class: bisect.Crash}
	if readResults(t.TempDir(), sources, sum.used, &failed); failed.Series != nil {
		t.Errorf("a launch that failed: %+v", failed)
	}
}
