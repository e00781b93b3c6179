package protocol

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
)

// hear gives lines to a Popcorn and a Reader, one every 100 ms, as a trial does.
func hear(pop *Popcorn, base string, lines ...string) *Reader {
	p := &Reader{Base: base}
	for i, l := range lines {
		for _, said := range pop.Translate(l) {
			p.Line(said, time.Duration(i+1)*100*time.Millisecond)
		}
	}
	return p
}

func TestPopcornPhasesOfATest(t *testing.T) {
	pop := Popcorn{Stage: "test"}
	p := hear(&pop, "test/load",
		"test-count: 2", "test.0.spec: m: 64; seed: 1", "test.0.status: pass",
		"test.1.spec: m: 128; seed: 2", "test.1.status: pass", "check: pass")
	want := []bisect.PhaseTime{{Name: "test/load", Seconds: 0.2}, {Name: "test/warmup", Seconds: 0.2}, {Name: "test/check", Seconds: 0.2}, {Name: "teardown", Seconds: 0.4}}
	if d := cmp.Diff(want, p.Phases(time.Second, false), near); d != "" {
		t.Error(d)
	}
	if c, why := pop.Ending(0, nil); c != bisect.OK || why != "" {
		t.Errorf("%s: %s", c, why)
	}
	if w := append(p.Warnings(), pop.Warnings()...); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
}

func TestPopcornBenchmark(t *testing.T) {
	pop := Popcorn{Stage: "benchmark"}
	p := hear(&pop, "benchmark/warmup",
		"benchmark-count: 2", "benchmark.0.spec: m: 64", "benchmark.0.runs: 7", "benchmark.0.mean: 999",
		"benchmark.0.mean: 46800.5", "benchmark.0.std: 100", "benchmark.0.best: 46000", "benchmark.0.worst: 48000",
		"benchmark.1.spec: m: 128", "benchmark.1.status: fail", "benchmark.1.error: mismatch: 3 elements", "check: fail")
	if got := p.Phase(); got != Teardown {
		t.Errorf("phase %q", got)
	}
	want := []bisect.Series{
		{Metric: "time", Case: "m: 64", Unit: "s", Values: []float64{46800.5e-9}}, // the last word counts
		{Metric: "time.best", Case: "m: 64", Unit: "s", Values: []float64{46e-6}},
		{Metric: "time.worst", Case: "m: 64", Unit: "s", Values: []float64{48e-6}},
		{Metric: "time.std", Case: "m: 64", Unit: "s", Values: []float64{1e-7}},
		{Metric: "time.runs", Case: "m: 64", Values: []float64{7}},
	}
	if d := cmp.Diff(want, pop.Series(), near); d != "" {
		t.Error(d)
	}
	if c, why := pop.Ending(0, nil); c != bisect.Wrong || why != "case m: 128: mismatch: 3 elements" {
		t.Errorf("an exit of 0 excuses no failed check: %s: %s", c, why)
	}
}

func TestPopcornKilledKeepsWhatHasArrived(t *testing.T) {
	pop := Popcorn{Stage: "benchmark", Metric: "benchmark.time"}
	p := hear(&pop, "benchmark/warmup", "benchmark-count: 2", "benchmark.0.spec: a", "benchmark.0.mean: 5e3", "benchmark.1.spec: b")
	if got := p.Phase(); got != "benchmark/measure" {
		t.Errorf("died in %q", got)
	}
	if s := pop.Series(); len(s) != 1 || s[0].Metric != "benchmark.time" || s[0].Values[0] != 5e-6 {
		t.Errorf("series %+v", s)
	}
	if phases := p.Phases(time.Minute, true); phases[len(phases)-1].Name != "benchmark/measure" {
		t.Errorf("phases %+v", phases)
	}
}

func TestPopcornEndings(t *testing.T) {
	ninja := []byte("...\nninja: build stopped: subcommand failed.\nRuntimeError: Error building extension 'x'\n")
	for _, c := range []struct {
		lines  string
		exit   int
		output []byte
		class  bisect.Class
		why    string
	}{
		{"check: pass", 0, nil, bisect.OK, ""},
		{"check: fail", 0, nil, bisect.Wrong, "the check failed"},
		{"check: fail", 112, nil, bisect.Wrong, "exit 112: the check failed"},
		{"", 112, nil, bisect.Wrong, "exit 112: the check failed"},
		{"test.0.status: fail\ntest.0.error: no", 112, nil, bisect.Wrong, "case test 0: no"},
		{"test.0.status: fail\ntest.0.status: pass\ncheck: pass", 0, nil, bisect.OK, ""},
		{"test.0.status: fail", 0, nil, bisect.Wrong, "case test 0"},
		{"", 0, nil, bisect.Crash, "it ended without sending a check"},
		{"", 1, nil, bisect.Crash, "exit 1"},
		{"check: pass", 1, nil, bisect.Crash, "exit 1"},
		{"", 1, ninja, bisect.BuildFailed, "ninja: build stopped: subcommand failed."},
		{"check: pass", 0, ninja, bisect.OK, ""},
		{"", 110, nil, bisect.Crash, "exit 110: a CUDA runtime call failed"},
		{"", 111, nil, bisect.Skip, "exit 111: the evaluation program found no POPCORN_FD"},
		{"", 113, nil, bisect.Skip, "exit 113: the evaluation program cannot parse the cases of the task"},
		{"", 2, nil, bisect.Skip, "exit 2: the evaluation program does not support this mode"},
		{"test-count: 3\ntest.0.spec: size: 1", 2, nil, bisect.Crash, "exit 2"}, // the submission's own
		{"test-count: 3", 111, nil, bisect.Crash, "exit 111"},
		{"benchmark-count: 3", 113, nil, bisect.Crash, "exit 113"},
		{"", 114, nil, bisect.Timeout, "exit 114: a timer in the candidate, or a runner inside it"},
	} {
		var pop Popcorn
		for l := range strings.Lines(c.lines) {
			pop.Translate(strings.TrimSuffix(l, "\n"))
		}
		if class, why := pop.Ending(c.exit, c.output); class != c.class || why != c.why {
			t.Errorf("%q, exit %d: %s: %q, want %s: %q", c.lines, c.exit, class, why, c.class, c.why)
		}
	}
}

func TestPopcornIsBounded(t *testing.T) {
	var pop Popcorn
	for i := range 3 * maxKeys {
		pop.Translate(strings.Repeat("k", i%190) + string(rune('a'+i%26)) + time.Duration(i).String() + ": v")
	}
	pop.Translate("a: " + strings.Repeat("x", 1<<20))
	if n := len(pop.values); n > maxKeys {
		t.Errorf("%d keys kept", n)
	}
	for _, l := range []string{"no colon", ": empty", "benchmark.99999999999999999999.mean: 3", "benchmark.-1.mean: 3", "benchmark.0.mean: NaN"} {
		pop.Translate(l)
	}
	if len(pop.Series()) != 0 {
		t.Errorf("series %+v", pop.Series())
	}
	if w := pop.Warnings(); len(w) != 3 || !strings.HasPrefix(w[0], `malformed popcorn lines: 2, the first "no colon"`) || !strings.Contains(w[2], "KiB on POPCORN_FD, more than a pipe holds; the server reads it only at the end") {
		t.Errorf("warnings %q", w)
	}
}

func TestScore(t *testing.T) {
	lines := []string{"benchmark-count: 2", "benchmark.0.mean: 1000", "benchmark.1.mean: 4000"}
	scored := func(ranking string, lines ...string) (score float64) {
		pop := Popcorn{Ranking: ranking}
		hear(&pop, "", lines...)
		for _, s := range pop.Series() {
			if s.Metric == "score" {
				score = s.Values[0]
			}
		}
		return score
	}
	for ranking, want := range map[string]float64{"": 0, "last": 4e-6, "mean": 2.5e-6, "geom": 2e-6} {
		if got := scored(ranking, lines...); math.Abs(got-want) > 1e-15 {
			t.Errorf("%s: %g, want %g", ranking, got, want)
		}
	}
	for _, lines := range [][]string{lines[:2], lines[1:], {"benchmark-count: 0"}, {"benchmark-count: 1", "benchmark.0.mean: 0"}} {
		if got := scored("geom", lines...); got != 0 {
			t.Errorf("%q: %g, where not all benchmarks came to their end", lines, got)
		}
	}
}

func FuzzPopcorn(f *testing.F) {
	f.Add("test-count: 1\ntest.0.spec: a: 1\ntest.0.status: pass\ncheck: pass", 0)
	f.Add("benchmark-count: 1\nbenchmark.0.mean: 1e300\nbenchmark.0.runs: -5\nenter: x\nleave: x", 112)
	f.Fuzz(func(t *testing.T, text string, exit int) {
		pop, p := Popcorn{Stage: "s"}, Reader{Base: "s/load"}
		at := time.Duration(0)
		for l := range strings.Lines(text) {
			at += time.Millisecond
			for _, said := range pop.Translate(strings.TrimSuffix(l, "\n")) {
				p.Line(said, at)
			}
		}
		sum := 0.0
		for _, ph := range p.Phases(at+time.Second, false) {
			sum += ph.Seconds
		}
		if math.Abs(sum-(at+time.Second).Seconds()) > 1e-6 {
			t.Errorf("phases add up to %g", sum)
		}
		for _, s := range pop.Series() {
			if len(s.Values) != 1 || math.IsNaN(s.Values[0]) {
				t.Errorf("series %+v", s)
			}
		}
		if class, why := pop.Ending(exit, []byte(text)); class == "" || class != bisect.OK && why == "" {
			t.Errorf("class %q: %q", class, why)
		}
	})
}

// The error of a case has several lines, which evaluations send as they are.
func TestPopcornErrorOfSeveralLines(t *testing.T) {
	var pop Popcorn
	for _, line := range []string{"test-count: 2", "test.0.spec: n: 8", "test.0.status: fail", "test.0.error: mismatch found!", "Number of mismatched elements: 1", "ERROR AT (7,): 0.0 26.1", "", "test.1.spec: n: 9", "test.1.status: pass", "check: fail"} {
		pop.Translate(line)
	}
	if got := pop.failure(); got != "case n: 8: mismatch found! Number of mismatched elements: 1 ERROR AT (7,): 0.0 26.1" || len(pop.Warnings()) != 0 {
		t.Errorf("%q, %q", got, pop.Warnings())
	}
}

// More than a pipe holds blocks a process on the server, and by its rules here.
func TestPopcornOverflows(t *testing.T) {
	var pop Popcorn
	for range 1 << 10 {
		if pop.Translate("test.0.note: " + strings.Repeat("x", 50)); pop.Overflows() {
			t.Fatal("less than 64 KiB")
		}
	}
	if pop.Translate("more: " + strings.Repeat("x", 1<<10)); !pop.Overflows() {
		t.Error("64 KiB and more are no overflow")
	}
}
