package capacity

import (
	"slices"
	"testing"
)

// gauge is one of a machine that is made up.
func gauge(jobs, cpus int, free, all int64) *Gauge {
	g := &Gauge{jobs: jobs, memory: func() (int64, int64) { return free, all }}
	for i := range cpus {
		g.cpus = append(g.cpus, 1000+i) // of which the kernel knows nothing: they are never idle
	}
	return g
}

// admitted is how many builds a gauge lets run at a time.
func admitted(g *Gauge) (n int) {
	for n < 100 && g.Admits(n, 0) {
		n++
	}
	return n
}

// How many builds there are at a time: what the user allows, what the processors bear, what the memory bears.
func TestGauge(t *testing.T) {
	const gb = 1 << 30
	for name, c := range map[string]struct {
		gauge      *Gauge
		processors float64 // of a build that has ended; 0: none has
		bytes      int64
		want       int
	}{
		"one job":                                  {gauge(1, 64, 90*gb, 100*gb), 1, gb, 1},
		"as many as the user says":                 {gauge(15, 2, 90*gb, 100*gb), 1, gb, 15},
		"both ends before anything is known":       {gauge(0, 2, 90*gb, 100*gb), 0, 0, 2},
		"one a processor":                          {gauge(0, 2, 90*gb, 100*gb), 1.02, gb, 2},
		"a build that waits for a network":         {gauge(0, 2, 90*gb, 100*gb), 0.01, gb, 2},
		"a parallel make takes all":                {gauge(0, 2, 90*gb, 100*gb), 1.9, gb, 1},
		"a tenth of the memory stays free":         {gauge(15, 2, 40*gb, 100*gb), 1, 10 * gb, 2},
		"one at a time however little memory":      {gauge(15, 2, 1*gb, 100*gb), 1, gb, 1},
		"no more than memory has held before":      {filled(gauge(15, 2, 90*gb, 100*gb), 7), 1, gb, 6},
		"what is asked for even when it is filled": {filled(gauge(15, 2, 90*gb, 100*gb), 1), 1, gb, 1},
	} {
		if c.processors > 0 {
			c.gauge.Learn(c.processors, c.bytes)
			c.gauge.Learn(c.processors/2, c.bytes/2) // a single smaller one does not change that
		}
		if got := admitted(c.gauge); got != c.want {
			t.Errorf("%s: %d builds at a time, want %d", name, got, c.want)
		}
	}
	// A build of everything is followed by such as compile a file or two.
	g := gauge(0, 2, 90*gb, 100*gb)
	for i, x := range []struct {
		processors float64
		want       int
	}{{1.9, 1}, {1, 1}, {1, 2}, {1, 2}, {1.9, 1}} {
		if g.Learn(x.processors, gb); admitted(g) != x.want {
			t.Errorf("after build %d: %d at a time, want %d", i, admitted(g), x.want)
		}
	}
	if gauge(0, 2, 10*gb, 100*gb).Short() || !gauge(0, 2, 9*gb, 100*gb).Short() {
		t.Error("memory is short below a tenth")
	}
	if cpus := gauge(0, 8, 0, 0); len(cpus.Processors()) != 7 || gauge(0, 2, 0, 0).Processors() != nil {
		t.Errorf("of 8 processors builds ahead get %v", cpus.Processors())
	}
}

func filled(g *Gauge, running int) *Gauge {
	g.Filled(running)
	return g
}

// The kernel says how idle the processors are of this machine, and how much memory is free.
func TestGaugeReadsTheMachine(t *testing.T) {
	g := New(0)
	if len(g.cpus) == 0 || idleSeconds(g.cpus) <= 0 || idleSeconds(nil) != 0 {
		t.Errorf("%v have been idle for %v s", g.cpus, idleSeconds(g.cpus))
	}
	if free, all := g.memory(); free <= 0 || all < free {
		t.Errorf("%d of %d bytes are free", free, all)
	}
	if most := g.Most(); most < 1 || most > len(g.cpus) || slices.Contains(g.Processors(), g.cpus[0]) {
		t.Errorf("%d builds on %v, ahead on %v", most, g.cpus, g.Processors())
	}
}
