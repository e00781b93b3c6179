package bisect_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
)

// launchOf is a launch that took `time` in each of the cases and in every other way, on a device that slows all by a factor.
func launchOf(time, slower float64, cases ...string) bisect.Outcome {
	took := time * slower
	o := bisect.Outcome{Class: bisect.OK, Wall: took, CPU: took, Phases: []bisect.PhaseTime{{Name: "build", Seconds: 9}, {Name: "measure", Seconds: took}}}
	for _, c := range cases {
		o.Series = append(o.Series, bisect.Series{Metric: "time", Case: c, Unit: "s", Values: []float64{took, took}})
	}
	return o
}

// However fast a device is, a launch beside the good end reads as on the device of the first one.
func TestTimesOfAnyDeviceAreRelativeToTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		good := rapid.Float64Range(0.001, 10).Draw(t, "good")
		ratio := rapid.Float64Range(0.1, 10).Draw(t, "ratio")
		slower := rapid.Float64Range(0.2, 5).Draw(t, "slower")
		cases := []string{"n1", "n2", ""}[:rapid.IntRange(0, 3).Draw(t, "cases")]
		o := bisect.Relative(launchOf(ratio*good, slower, cases...), launchOf(good, slower, cases...), launchOf(good, 1, cases...))
		same := func(what string, got float64) {
			if want := ratio * good; math.Abs(got-want) > 1e-9*want {
				t.Errorf("%s is %g, want %g", what, got, want)
			}
		}
		same("wall", o.Wall)
		same("processor time", o.CPU)
		for _, s := range o.Series {
			for _, v := range s.Values {
				same("time of "+s.Case, v)
			}
		}
		if o.Phases[0].Seconds != 9 {
			t.Errorf("the build, which has no reference, became %g s", o.Phases[0].Seconds)
		}
		same("measure", o.Phases[1].Seconds)
	})
}

// What the reference cannot say is taken from the next best: the other cases of the metric, then the whole launch.
func TestTimesWithoutAReference(t *testing.T) {
	base, ref := launchOf(1, 1, "n1"), launchOf(1, 2, "n1")
	ref.Wall = 4 // the whole launch is slowed by more than the metric
	o := launchOf(3, 2, "n1", "n2")
	o.Series = append(o.Series, bisect.Series{Metric: "other", Values: []float64{8}})
	o.Phases = append(o.Phases, bisect.PhaseTime{Name: "teardown", Seconds: 8})
	got := bisect.Relative(o, ref, base)
	for i, want := range []float64{3, 3, 2} {
		if s := got.Series[i]; s.Values[0] != want {
			t.Errorf("%s of %q is %g, want %g", s.Metric, s.Case, s.Values[0], want)
		}
	}
	if s := got.Phases[2].Seconds; s != 2 {
		t.Errorf("a phase that the reference lacks took %g s, want 2", s)
	}
	if o.Series[0].Values[0] != 6 || o.Phases[1].Seconds != 6 {
		t.Error("the outcome that was given has changed")
	}
}

// device launches what it is asked for in turn and notes what that was.
type device struct {
	asked   []bisect.Request
	answers []bisect.Outcome
	err     error
}

func (d *device) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	d.asked = append(d.asked, r)
	if len(d.answers) == 0 {
		return bisect.Outcome{}, d.err
	}
	o := d.answers[0]
	d.answers = d.answers[1:]
	return o, nil
}

// Each launch whose times count follows one of the good end; the others are made alone.
func TestPairsLaunchTheGoodEndFirst(t *testing.T) {
	good, bad := bisect.Candidate{Commit: "good"}, bisect.Candidate{Commit: "bad"}
	crash, unfit := bisect.Outcome{Class: bisect.Crash}, launchOf(1, 1)
	unfit.Unfit = "throttled"
	for _, x := range []struct {
		name    string
		base    bisect.Outcome
		ask     bisect.Request
		answers []bisect.Outcome
		asked   string
		wall    float64
	}{
		{"timed", launchOf(1, 1), bisect.Request{Candidate: bad, Timing: true}, []bisect.Outcome{launchOf(1, 2), launchOf(3, 2)}, "good bad", 3},
		{"not timed", launchOf(1, 1), bisect.Request{Candidate: bad}, []bisect.Outcome{launchOf(3, 2)}, "bad", 6},
		{"build only", launchOf(1, 1), bisect.Request{Candidate: bad, Timing: true, BuildOnly: true}, []bisect.Outcome{launchOf(3, 2)}, "bad", 6},
		{"the good end has failed", crash, bisect.Request{Candidate: bad, Timing: true}, []bisect.Outcome{launchOf(3, 2)}, "bad", 6},
		{"times of the good end that do not count", unfit, bisect.Request{Candidate: bad, Timing: true}, []bisect.Outcome{launchOf(3, 2)}, "bad", 6},
		{"the reference fails once", launchOf(1, 1), bisect.Request{Candidate: bad, Timing: true}, []bisect.Outcome{crash, launchOf(1, 2), launchOf(3, 2)}, "good good bad", 3},
		{"a failure has no times", launchOf(1, 1), bisect.Request{Candidate: bad, Timing: true}, []bisect.Outcome{launchOf(1, 2), {Class: bisect.Crash, Wall: 5}}, "good bad", 5},
	} {
		t.Run(x.name, func(t *testing.T) {
			var p bisect.Pairs
			p.Learn(bisect.Request{Candidate: good, Purpose: bisect.EndGood, Timing: true}, x.base)
			d := &device{answers: x.answers}
			o, err := p.On(d).Sample(context.Background(), x.ask)
			var asked []string
			for _, r := range d.asked {
				asked = append(asked, r.Candidate.Commit)
			}
			if got := strings.Join(asked, " "); err != nil || got != x.asked || o.Wall != x.wall {
				t.Errorf("launched %s: %g s, %v; want %s: %g s", got, o.Wall, err, x.asked, x.wall)
			}
		})
	}
}

// A good end that keeps failing beside other launches is the machine's fault, and no commit is accused.
func TestPairsWithoutAReference(t *testing.T) {
	var p bisect.Pairs
	p.Learn(bisect.Request{Candidate: bisect.Candidate{Commit: "0123456789abcdef"}, Purpose: bisect.EndGood}, launchOf(1, 1))
	crash := bisect.Outcome{Class: bisect.Crash, Phase: "load", Why: "signal 11"}
	d := &device{answers: []bisect.Outcome{crash, crash, crash, launchOf(3, 1)}}
	_, err := p.On(d).Sample(context.Background(), bisect.Request{Candidate: bisect.Candidate{Commit: "bad"}, Timing: true})
	var infra *bisect.InfraError
	if !errors.As(err, &infra) || !strings.Contains(err.Error(), "0123456789 ") || !strings.Contains(err.Error(), "crash in load: signal 11") {
		t.Errorf("%v", err)
	}
	lost := fmt.Errorf("the device is lost")
	if _, err := p.On(&device{err: lost}).Sample(context.Background(), bisect.Request{Timing: true}); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}
