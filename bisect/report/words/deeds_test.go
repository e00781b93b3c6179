package words

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
)

// What a culprit does is the rest of a sentence, slower or faster for a time, higher or lower for anything else.
func TestDeeds(t *testing.T) {
	effect := func(metric string, ratio float64, higher bool) *bisect.Effect {
		return &bisect.Effect{Metric: metric, Ratio: ratio, Low: ratio, High: ratio, Higher: higher}
	}
	counted := func(value, parent float64) *bisect.Effect {
		return &bisect.Effect{Metric: "registers", Case: "gemm", Ratio: value / parent, Exact: &bisect.Exact{Value: value, Parent: parent}}
	}
	ofCase := effect("time", 1.5, false)
	ofCase.Case = "n512"
	for _, x := range []struct {
		class  bisect.Class
		phase  string
		effect *bisect.Effect
		want   string
	}{
		{bisect.Slow, "", effect("time", 1.049, false), "makes `time` 4.9 % slower"},
		{bisect.Improved, "", effect("time", 0.8, false), "makes `time` 20.0 % faster"},
		{bisect.Slow, "", effect("wall", 3, false), "makes `wall` 3 times slower"},
		{bisect.Slow, "", effect("phase.load", 1.2, false), "makes `phase.load` 20.0 % slower"},
		{bisect.Slow, "", ofCase, "makes `time` of n512 50.0 % slower"},
		{bisect.Slow, "", effect("bandwidth", 0.9, true), "makes `bandwidth` 10.0 % lower (worse)"},
		{bisect.Improved, "", effect("bandwidth", 1.1, true), "makes `bandwidth` 10.0 % higher (better)"},
		{bisect.Slow, "", effect("bytes", 1.1, false), "makes `bytes` 10.0 % higher (worse)"},
		{bisect.Improved, "", effect("bytes", 0.9, false), "makes `bytes` 10.0 % lower (better)"},
		{bisect.Slow, "", effect("time", 0.9, true), "makes `time` 10.0 % lower (worse)"}, // a program may call a rate so
		{bisect.Slow, "", counted(80, 64), "raises registers of gemm to 80 from 64 (+25.0 %, lower is better)"},
		{bisect.Improved, "", counted(64, 80), "lowers registers of gemm to 64 from 80 (-20.0 %, lower is better)"},
		{bisect.Slow, "", counted(16, 0), "raises registers of gemm to 16 from 0 (lower is better)"},
		{bisect.Improved, "", counted(0, 16), "lowers registers of gemm to 0 from 16 (lower is better)"},
		{bisect.Slow, "", nil, "makes it slower"},
		{bisect.Improved, "", nil, "makes it faster"},
		{bisect.BuildFailed, "build", nil, "breaks the build"},
		{bisect.Wrong, "check", nil, "makes the check fail"},
		{bisect.Wrong, "", nil, "makes the run fail"},
		{bisect.Crash, "load", nil, "makes loading crash"},
		{bisect.Crash, "epilogue", nil, "makes phase epilogue crash"},
		{bisect.Timeout, "warmup", nil, "introduces a timeout in warmup"},
		{bisect.Timeout, "", nil, "introduces a timeout"},
	} {
		if got := Did(x.class, x.phase, x.effect); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// An effect says how far, how surely, and which way is better.
func TestEffects(t *testing.T) {
	for _, x := range []struct {
		effect bisect.Effect
		want   string
	}{
		{bisect.Effect{Metric: "time", Ratio: 1.049, Low: 1.041, High: 1.056}, "time +4.9 % (95 % CI +4.1 to +5.6 %), lower is better"},
		{bisect.Effect{Metric: "rate", Case: "n1", Ratio: 2.5, Low: 2.25, High: 2.75, Higher: true}, "rate of n1 2.5 times (95 % CI 2.25 to 2.75 times), higher is better"},
		{bisect.Effect{Metric: "time", Ratio: 1.049}, "time +4.9 %, lower is better"},
		{bisect.Effect{Metric: "time", Ratio: 1.049, Statistic: bisect.FastestTenth}, "time +4.9 %, lower is better, by the fastest tenth of each launch's samples"},
		{bisect.Effect{Metric: "spills", Case: "gemm", Ratio: 2, Exact: &bisect.Exact{Value: 8, Parent: 4}}, "spills of gemm 8, parent 4 (2 times, lower is better)"},
	} {
		if got := Effect(x.effect); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// What a hopeless search would take, what can be found instead, and by which metrics.
func TestProspects(t *testing.T) {
	for _, x := range []struct {
		name  string
		p     bisect.Prospect
		head  string
		hints []string
	}{
		{"without a budget", bisect.Prospect{Metric: "time", Noise: 0.12, Change: 0.02, Launches: 4321, Seconds: 8000, Within: 118, Findable: 0.09},
			"`time` varies by 12 % from launch to launch: finding a change of 2 % would take about 4300 more launches (2.22 h)",
			[]string{"in 120 launches, only changes of about 9 % or more can be found"}},
		{"with a budget", bisect.Prospect{Metric: "time of n1", Noise: 0.035, Change: 0.034, Seen: true, Launches: 47, Seconds: 200, Left: 60, Within: 14, Findable: 0.05},
			"`time of n1` varies by 3.5 % from launch to launch: finding what changed it by about 3.4 % would take about 47 more launches (3 min); the budget leaves 60 s",
			[]string{"within the budget, only changes of about 5 % or more can be found"}},
		{"never", bisect.Prospect{Metric: "time", Noise: 0.5, Change: 0.01, Within: 1},
			"`time` varies by 50 % from launch to launch: finding a change of 1 % would take more launches than a search makes",
			[]string{"in 1 launch, no change can be found"}},
		{"another metric would do", bisect.Prospect{Metric: "time", Noise: 0.12, Change: 0.02, Launches: 1, Seconds: 2, Within: 50, Findable: 0.09, Quieter: []bisect.Quieter{
			{Metric: "cycles", Noise: 0.001, Ratio: 1.03, Differs: true, Launches: 12}, {Metric: "bytes", Noise: 0.004, Ratio: 1, Launches: 20}}},
			"`time` varies by 12 % from launch to launch: finding a change of 2 % would take about 1 more launch (2 s)",
			[]string{"in 50 launches, only changes of about 9 % or more can be found",
				"--metric cycles: it varies by 0.1 % in the same launches, differs by +3.0 % between the ends, and would take about 12 launches",
				"--metric bytes: it varies by 0.4 % in the same launches, may differ between the ends, and would take about 20 launches"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			head, hints := Prospect(x.p)
			if head != x.head || !slices.Equal(hints, x.hints) {
				t.Errorf("%s\n%q\nwant %s\n%q", head, hints, x.head, x.hints)
			}
		})
	}
}

// Text in lines loses nothing but the spaces that it is broken at, and each line fits.
func TestWrappedKeepsTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abcé—")), 1, 30, -1), 1, 12).Draw(t, "words"), " ")
		width, most := rapid.IntRange(10, 40).Draw(t, "width"), rapid.IntRange(0, 4).Draw(t, "most")
		lines := Wrapped(text, width, most)
		for _, line := range lines {
			if n := len([]rune(line)); n > width || n == 0 {
				t.Errorf("%d characters in %q", n, line)
			}
		}
		squeezed := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		all := squeezed(strings.Join(lines, ""))
		switch kept, cut := strings.CutSuffix(all, "…"); {
		case most > 0 && len(lines) > most:
			t.Errorf("%d lines of at most %d", len(lines), most)
		case cut && !strings.HasPrefix(squeezed(text), kept), !cut && all != squeezed(text), cut && most == 0:
			t.Errorf("%q became %q", text, lines)
		}
	})
}
