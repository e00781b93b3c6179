package protocol

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kbisect/kbisect/bisect"
)

var near = cmpopts.EquateApprox(1e-9, 0)

func at(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

func TestProtocolOfAWholeTrial(t *testing.T) {
	var p Reader
	for _, l := range []struct {
		line  string
		ms    int
		enter string
	}{
		{"phase: warmup", 100, "warmup"},
		{"phase: check", 250, "check"},
		{"case: 256,4096,7168", 260, ""},
		{"check: pass", 300, ""},
		{"phase: measure", 300, "measure"},
		{"sample: 46.8 us", 310, ""},
		{"sample: 0.0472 ms\r", 320, ""},
		{"metric tensor pipe: 57 %", 330, ""},
		{"", 331, ""},
	} {
		if got := p.Line(l.line, at(l.ms)); got != l.enter {
			t.Errorf("%q entered %q, want %q", l.line, got, l.enter)
		}
	}
	want := []bisect.Series{
		{Metric: "time", Case: "256,4096,7168", Unit: "s", Values: []float64{46.8e-6, 47.2e-6}},
		{Metric: "tensor pipe", Case: "256,4096,7168", Unit: "%", Values: []float64{57}},
	}
	if d := cmp.Diff(want, p.Series(), near); d != "" {
		t.Error(d)
	}
	phases := []bisect.PhaseTime{{Name: "load", Seconds: 0.1}, {Name: "warmup", Seconds: 0.15}, {Name: "check", Seconds: 0.05}, {Name: "measure", Seconds: 0.03}, {Name: "teardown", Seconds: 0.07}}
	if d := cmp.Diff(phases, p.Phases(at(400), false), near); d != "" {
		t.Error(d)
	}
	phases[3].Seconds, phases = 0.1, phases[:4]
	if d := cmp.Diff(phases, p.Phases(at(400), true), near); d != "" {
		t.Error("killed:", d)
	}
	if s := p.Said(); s != (Said{Case: s.Case}) || !p.Speaks() || p.Warnings() != nil {
		t.Errorf("said %+v, speaks %v, warnings %v", s, p.Speaks(), p.Warnings())
	}
}

func TestProtocolWords(t *testing.T) {
	var p Reader
	p.Line("case: 64", 0)
	p.Line("phase: check", at(1))
	p.Line("check: fail max error 0.3", at(1))
	p.Line("phase: teardown", at(1))
	if got := p.Said().FailedIn; got != "check" {
		t.Errorf("the check failed in %q", got)
	}
	p.Line("check: fail another", at(2))
	p.Line("skip: no such device function", at(3))
	p.Line("infra: device lost", at(4))
	want := Said{Infra: "device lost", Skip: "no such device function", Wrong: "case 64: max error 0.3", Case: "64", FailedIn: "check"}
	if d := cmp.Diff(want, p.Said()); d != "" {
		t.Error(d)
	}
	var terse Reader
	for _, line := range []string{"skip:", "infra:", "check: fail", "skip: too late"} {
		terse.Line(line, 0)
	}
	want = Said{Infra: "no reason given", Skip: "no reason given", Wrong: "the check failed", FailedIn: "load"}
	if d := cmp.Diff(want, terse.Said()); d != "" {
		t.Error(d)
	}
}

func TestMalformedLinesAreCountedNotFatal(t *testing.T) {
	var p Reader
	bad := []string{"hello", "sample: fast", "sample: 1 2 3", "sample:", "phase:", "check: maybe", "metric : 3 us", "sample: NaN us", "sample: +Inf s", "colour: red", "case:"}
	for _, l := range bad {
		if p.Line(l, 0) != "" {
			t.Errorf("%q entered a phase", l)
		}
	}
	if w := p.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "malformed protocol lines: 11, the first \"hello\"") {
		t.Errorf("warnings %q", w)
	}
	if p.Speaks() {
		t.Error("a program that sends only nonsense does not speak")
	}
	if d := cmp.Diff([]bisect.PhaseTime{{Name: "run", Seconds: 2}}, p.Phases(2*time.Second, false)); d != "" {
		t.Error(d)
	}
}

func TestPhaseEnteredTwiceIsOneEntry(t *testing.T) {
	var p Reader
	p.Line("phase: measure", at(100))
	p.Line("phase: check", at(200))
	p.Line("phase: measure", at(300))
	want := []bisect.PhaseTime{{Name: "load", Seconds: 0.1}, {Name: "measure", Seconds: 0.3}, {Name: "check", Seconds: 0.1}}
	if d := cmp.Diff(want, p.Phases(at(500), false), near); d != "" {
		t.Error(d)
	}
}

func FuzzProtocol(f *testing.F) {
	f.Add("phase: load\nsample: 3 us\ncheck: fail x")
	f.Add("metric a:b: 1e400 s\ncase: \x00\nskip:\ninfra:")
	f.Add("enter: import\nenter: compile\nleave: import\nphase: measure\nleave: compile\nsample: 1 us\nenter: capture")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		var good Reader
		for i, l := range lines[:len(lines)/2+1] {
			good.Line(l, at(i))
		}
		shape := good.Shape()
		p := Reader{Expect: &shape}
		for i, l := range lines {
			p.Line(l, at(i))
		}
		wall := at(len(lines))
		if len(text)%3 == 0 {
			p.Close(wall)
		}
		p.HitLimit(wall, 0)
		total := 0.0
		for _, ph := range p.Phases(wall, len(text)%2 == 0) {
			if ph.Seconds < 0 || !validName(ph.Name) {
				t.Fatalf("phase %q took %v", ph.Name, ph.Seconds)
			}
			total += ph.Seconds
		}
		if d := total - wall.Seconds(); d > 1e-6 || d < -1e-6 {
			t.Fatalf("phases add up to %v of %v", total, wall.Seconds())
		}
		if d := p.Spent(p.Phase(), wall); d < 0 || d > wall {
			t.Fatalf("%v of %v in %s", d, wall, p.Phase())
		}
		for _, s := range p.Series() {
			if len(s.Values) == 0 {
				t.Fatal("empty series")
			}
		}
		p.Said()
		p.Warnings()
	})
}
