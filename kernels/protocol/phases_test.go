package protocol

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
)

// say sends lines, written as "MS LINE > PHASE", and checks the phase that each changes to.
func say(t *testing.T, p *Reader, lines ...string) {
	t.Helper()
	for _, l := range lines {
		ms, rest, _ := strings.Cut(l, " ")
		line, want, _ := strings.Cut(rest, " > ")
		n := 0
		for _, c := range ms {
			n = n*10 + int(c-'0')
		}
		if got := p.Line(line, at(n)); got != want {
			t.Errorf("%q changed the phase to %q, want %q", l, got, want)
		}
	}
}

func sees(t *testing.T, p *Reader, wall int, killed bool, want ...bisect.PhaseTime) {
	t.Helper()
	if d := cmp.Diff(want, p.Phases(at(wall), killed), near); d != "" {
		t.Error(d)
	}
}

func TestSpans(t *testing.T) {
	var p Reader
	say(t, &p, "100 enter: import > import", "200 enter: extension > extension", "500 leave: extension > import",
		"600 leave: import > run", "650 case: 1", "700 phase: warmup > warmup", "800 enter: compile > compile",
		"900 enter: compile", "950 leave: compile", "1000 leave: compile > warmup", "1100 phase: measure > measure", "1100 phase: measure",
		"1200 sample: 1 us")
	sees(t, &p, 1300, false, bisect.PhaseTime{Name: "load", Seconds: 0.2}, bisect.PhaseTime{Name: "import", Seconds: 0.2}, bisect.PhaseTime{Name: "extension", Seconds: 0.3},
		bisect.PhaseTime{Name: "warmup", Seconds: 0.2}, bisect.PhaseTime{Name: "compile", Seconds: 0.2}, bisect.PhaseTime{Name: "measure", Seconds: 0.1}, bisect.PhaseTime{Name: "teardown", Seconds: 0.1})
	for phase, want := range map[string]int{"load": 200, "import": 200, "measure": 150, "compile": 200, "teardown": 0, "other": 0} {
		if got := p.Spent(phase, at(1250)); got != at(want) {
			t.Errorf("%v in %s, want %v", got, phase, at(want))
		}
	}
	if p.Warnings() != nil {
		t.Error(p.Warnings())
	}
}

func TestSpansOverlapAndEndWithThePhase(t *testing.T) {
	var p Reader
	say(t, &p, "10 enter: compile > compile", "20 enter: capture > capture", "30 leave: compile", "40 leave: capture > run")
	// The leave that belongs to a span closed by its phase is not malformed.
	say(t, &p, "50 enter: import > import", "60 phase: check > check", "70 leave: import", "80 leave: import", "90 enter:", "95 leave: x\x01")
	if w := p.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "malformed protocol lines: 3, the first \"leave: import\"") {
		t.Errorf("warnings %q", w)
	}
	if got := p.Phase(); got != "check" {
		t.Errorf("phase %q", got)
	}
}

func TestOnlyTheProbeSpeaks(t *testing.T) {
	var p Reader
	say(t, &p, "100 enter: import > import")
	if p.Speaks() || p.Phase() != "import" {
		t.Errorf("speaks %v in %s", p.Speaks(), p.Phase())
	}
	say(t, &p, "300 leave: import > run")
	if got := p.Close(at(500)); got != "" || p.Phase() != "run" {
		t.Errorf("the end of the lines of a silent program changed the phase to %q", got)
	}
	sees(t, &p, 1000, false, bisect.PhaseTime{Name: "run", Seconds: 0.8}, bisect.PhaseTime{Name: "import", Seconds: 0.2})
	q := Reader{Base: "load"}
	say(t, &q, "100 enter: import > import", "300 leave: import > load")
	sees(t, &q, 1000, true, bisect.PhaseTime{Name: "load", Seconds: 0.8}, bisect.PhaseTime{Name: "import", Seconds: 0.2})
}

// good is a trial that ended well.
var good = []string{"10 phase: warmup", "20 case: 1", "30 sample: 1 us", "40 phase: measure", "50 sample: 1 us", "60 metric m: 3", "70 sample: 2 us"}

func expected(t *testing.T) *Shape {
	var p Reader
	for _, l := range good {
		_, line, _ := strings.Cut(l, " ")
		p.Line(line, 0)
	}
	b, err := json.Marshal(p.Shape())
	if err != nil {
		t.Fatal(err)
	}
	var s Shape
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	want := Shape{Phase: "measure", Before: s.Before, Lines: 7, Kinds: map[string]int{"sample": 2, "metric": 1}, Result: true}
	if d := cmp.Diff(want, s); d != "" {
		t.Fatal(d)
	}
	return &s
}

func TestTeardownBeginsWithTheExpectedLine(t *testing.T) {
	p := Reader{Expect: expected(t)}
	say(t, &p, "10 phase: warmup > warmup", "20 case: 1", "30 sample: 1 us", "40 phase: measure > measure",
		"41 enter: compile > compile", "42 leave: compile > measure", // depends on caches: not compared
		"50 sample: 1 us", "60 sample: 1 us", "70 metric m: 3 > teardown")
	// The order of results does not matter, nor which of them is the last.
	if got := p.Spent("teardown", at(170)); got != at(100) || p.Phase() != "teardown" {
		t.Errorf("%v in %s", got, p.Phase())
	}
	sees(t, &p, 170, true, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "warmup", Seconds: 0.03}, bisect.PhaseTime{Name: "measure", Seconds: 0.029},
		bisect.PhaseTime{Name: "compile", Seconds: 0.001}, bisect.PhaseTime{Name: "teardown", Seconds: 0.1})
	// One more line: it was not the last.
	say(t, &p, "200 sample: 2 us > measure")
	if got := p.Spent("measure", at(210)); got != at(169) || p.Spent("teardown", at(210)) != 0 {
		t.Errorf("%v in measure, %v in teardown", got, p.Spent("teardown", at(210)))
	}
	sees(t, &p, 210, true, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "warmup", Seconds: 0.03}, bisect.PhaseTime{Name: "measure", Seconds: 0.169}, bisect.PhaseTime{Name: "compile", Seconds: 0.001})
	sees(t, &p, 210, false, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "warmup", Seconds: 0.03}, bisect.PhaseTime{Name: "measure", Seconds: 0.159}, bisect.PhaseTime{Name: "compile", Seconds: 0.001},
		bisect.PhaseTime{Name: "teardown", Seconds: 0.01})
}

func TestTeardownThatIsNotExpected(t *testing.T) {
	for name, lines := range map[string][]string{
		"another case":  {"10 phase: warmup > warmup", "20 case: 2", "30 sample: 1 us", "40 phase: measure > measure", "50 sample: 1 us", "60 metric m: 3", "70 sample: 2 us"},
		"no warmup":     {"20 case: 1", "40 phase: measure > measure", "50 sample: 1 us", "60 metric m: 3", "70 sample: 2 us"},
		"a sample less": {"10 phase: warmup > warmup", "20 case: 1", "40 phase: measure > measure", "50 sample: 1 us", "60 metric m: 3"},
		"a malformed":   {"10 phase: warmup > warmup", "20 case: 1", "40 phase: measure > measure", "50 sample: 1 us", "55 hello", "60 metric m: 3", "70 sample: 2 us"},
		"open span":     {"10 phase: warmup > warmup", "20 case: 1", "40 phase: measure > measure", "41 enter: x > x", "50 sample: 1 us", "60 metric m: 3", "70 sample: 2 us"},
	} {
		p := Reader{Expect: expected(t)}
		say(t, &p, lines...)
		if p.Phase() == "teardown" {
			t.Errorf("%s: teardown", name)
		}
	}
}

func TestSpansInAnInferredTeardown(t *testing.T) {
	p := Reader{Expect: expected(t)}
	for _, l := range good {
		_, line, _ := strings.Cut(l, " ")
		p.Line(line, at(10))
	}
	say(t, &p, "20 enter: compile > compile", "50 leave: compile > teardown")
	sees(t, &p, 60, false, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "warmup", Seconds: 0}, bisect.PhaseTime{Name: "measure", Seconds: 0}, bisect.PhaseTime{Name: "compile", Seconds: 0.03}, bisect.PhaseTime{Name: "teardown", Seconds: 0.02})
	say(t, &p, "60 enter: compile > compile", "70 sample: 1 us", "80 leave: compile > measure")
	sees(t, &p, 90, true, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "warmup", Seconds: 0}, bisect.PhaseTime{Name: "measure", Seconds: 0.03}, bisect.PhaseTime{Name: "compile", Seconds: 0.05})
}

func TestCloseBeginsTheTeardown(t *testing.T) {
	var p Reader
	say(t, &p, "10 phase: measure > measure", "20 sample: 1 us")
	if got := p.Close(at(50)); got != "teardown" || p.Close(at(60)) != "" {
		t.Errorf("Close: %q", got)
	}
	if got := p.Spent("teardown", at(150)); got != at(100) {
		t.Errorf("%v in teardown", got)
	}
	sees(t, &p, 150, true, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "measure", Seconds: 0.04}, bisect.PhaseTime{Name: "teardown", Seconds: 0.1})
	p.Ended() // it crashed: that is what closed the descriptor
	if got := p.Phase(); got != "measure" {
		t.Errorf("crashed in %s", got)
	}
	sees(t, &p, 150, true, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "measure", Seconds: 0.14})
	sees(t, &p, 150, false, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "measure", Seconds: 0.01}, bisect.PhaseTime{Name: "teardown", Seconds: 0.13})
	p.Close(at(150))
	say(t, &p, "200 sample: 1 us > measure") // another process still had it
	sees(t, &p, 210, true, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "measure", Seconds: 0.2})
}

func TestExplicitTeardown(t *testing.T) {
	for _, expect := range []*Shape{nil, {Phase: "teardown", Kinds: map[string]int{"sample": 1}, Result: true}} {
		p := Reader{Expect: expect}
		say(t, &p, "10 phase: measure > measure", "20 phase: teardown > teardown", "30 sample: 1 us")
		sees(t, &p, 50, false, bisect.PhaseTime{Name: "load", Seconds: 0.01}, bisect.PhaseTime{Name: "measure", Seconds: 0.01}, bisect.PhaseTime{Name: "teardown", Seconds: 0.03})
		if got := p.Spent("teardown", at(50)); got != at(30) {
			t.Errorf("%v in teardown", got)
		}
	}
}

func TestSilenceIsTeardown(t *testing.T) {
	ex := expected(t)
	ex.Kinds = map[string]int{"sample": 1} // the least that good trials send
	for name, c := range map[string]struct {
		lines []string
		at    int
		want  bool
	}{
		"hung in teardown":    {[]string{"100 phase: measure", "120 sample: 1 us", "130 sample: 1 us"}, 330, true},
		"limit not reached":   {[]string{"100 phase: measure", "120 sample: 1 us", "130 sample: 1 us"}, 329, false},
		"slow samples":        {[]string{"100 phase: measure", "160 sample: 1 us"}, 399, false},
		"longer than those":   {[]string{"100 phase: measure", "160 sample: 1 us"}, 400, true},
		"another phase":       {[]string{"100 phase: warmup", "120 sample: 1 us", "130 sample: 1 us"}, 900, false},
		"no result":           {[]string{"100 phase: measure", "120 sample: 1 us", "130 case: 2"}, 900, false},
		"in a span":           {[]string{"100 phase: measure", "120 sample: 1 us", "130 enter: compile"}, 900, false},
		"after a span":        {[]string{"100 phase: measure", "120 sample: 1 us", "130 enter: compile", "131 leave: compile"}, 900, true},
		"less than the least": {[]string{"100 phase: measure", "120 metric x: 1"}, 900, false},
		"silent":              {nil, 900, false},
	} {
		p := Reader{Expect: ex, Varies: true}
		for _, l := range c.lines {
			_, line, _ := strings.Cut(l, " ")
			p.Line(line, at(int(l[0]-'0')*100+int(l[1]-'0')*10+int(l[2]-'0')))
		}
		if p.HitLimit(at(c.at), at(200)); p.settled != c.want {
			t.Errorf("%s: %v", name, p.settled)
		}
		p.Expect = nil
		p.settled = false
		if p.HitLimit(at(c.at), at(200)); p.settled {
			t.Errorf("%s: quiet without a good end", name)
		}
	}
	var p Reader
	say(t, &p, "100 phase: measure > measure", "120 sample: 1 us")
	p.settled = true
	if p.Phase() != "teardown" || p.Spent("teardown", at(320)) != at(200) {
		t.Errorf("settled: %s", p.Phase())
	}
	sees(t, &p, 320, true, bisect.PhaseTime{Name: "load", Seconds: 0.1}, bisect.PhaseTime{Name: "measure", Seconds: 0.02}, bisect.PhaseTime{Name: "teardown", Seconds: 0.2})
}

func TestManyPhases(t *testing.T) {
	var p Reader
	for i := range 3 * maxPhases {
		p.Line("enter: x", at(i))
		p.Line("phase: p"+strings.Repeat("x", i%90)+string(rune('a'+i%26))+string(rune('A'+i/100)), at(i))
	}
	if n := len(p.Phases(at(20000), false)); n > maxPhases+1 {
		t.Errorf("%d phases kept", n)
	}
}

// TestPhasesAddUp sends random lines: whatever they are, the phases add up to the whole, Spent agrees
// with them, and Line says every change of the phase.
func TestPhasesAddUp(t *testing.T) {
	lines := []string{"phase: a", "phase: b", "phase: teardown", "enter: a", "enter: c", "leave: a", "leave: c", "sample: 1 us", "case: 1", "nonsense", "check: pass", "close"}
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.SampledFrom(lines)
		var model Reader
		for _, l := range rapid.SliceOfN(one, 0, 6).Draw(t, "good") {
			model.Line(l, 0)
		}
		shape := model.Shape()
		p := Reader{Expect: &shape}
		var now time.Duration
		for _, l := range rapid.SliceOfN(one, 0, 20).Draw(t, "lines") {
			now += at(rapid.IntRange(0, 50).Draw(t, "pause"))
			before, spoke := p.Phase(), p.Speaks()
			var said string
			if l == "close" {
				said = p.Close(now)
			} else {
				said = p.Line(l, now)
			}
			after := p.Phase()
			renamed := !spoke && p.Speaks() && before == "run" && after == "load"
			if before != after && said != after && !renamed || before == after && said != "" {
				t.Fatalf("%q changed %q to %q and said %q", l, before, after, said)
			}
			agree(t, &p, now+at(7))
		}
		p.Ended()
		agree(t, &p, now+at(7))
	})
}

// agree compares Spent with Phases.
func agree(t *rapid.T, p *Reader, wall time.Duration) {
	total := 0.0
	for _, ph := range p.Phases(wall, true) {
		if d := ph.Seconds - p.Spent(ph.Name, wall).Seconds(); d > 1e-9 || d < -1e-9 || ph.Seconds < 0 {
			t.Fatalf("%v s in %s, Spent says %v", ph.Seconds, ph.Name, p.Spent(ph.Name, wall))
		}
		total += ph.Seconds
	}
	if d := total - wall.Seconds(); d > 1e-6 || d < -1e-6 {
		t.Fatalf("phases add up to %v of %v", total, wall)
	}
}

// Least is what two good trials have in common; a trial that has sent less is not at its end.
func TestLeast(t *testing.T) {
	a := Shape{Phase: "measure", Before: "x", Lines: 9, Kinds: map[string]int{"sample": 5, "check": 1}, Result: true}
	b := Shape{Phase: "measure", Before: "y", Lines: 7, Kinds: map[string]int{"sample": 3, "metric": 2}, Result: true}
	got, ok := a.Least(b)
	if !ok || len(got.Kinds) != 1 || got.Kinds["sample"] != 3 {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := a.Least(Shape{Phase: "check"}); ok {
		t.Error("of two phases")
	}
}
