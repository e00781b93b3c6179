package config

import (
	"math"
	"testing"
	"time"

	"github.com/kbisect/kbisect/kernels"
)

func TestParseUnit(t *testing.T) {
	for symbol, want := range map[string]struct {
		dim    string
		factor float64
		higher bool
	}{
		"us": {"time", 1e-6, false}, "µs": {"time", 1e-6, false}, "GB/s": {"bandwidth", 1e9, true},
		"TFLOP/s": {"compute", 1e12, true}, "FLOPS": {"compute", 1, true}, "KiB": {"size", 1024, false}, "": {"count", 1, false},
	} {
		u, err := ParseUnit(symbol)
		if err != nil || u.Dimension != want.dim || u.Factor != want.factor || u.HigherIsBetter != want.higher {
			t.Errorf("%q: %+v, %v", symbol, u, err)
		}
	}
	for _, symbol := range []string{"US", "usec", " us", "parsec"} {
		if u, err := ParseUnit(symbol); err == nil {
			t.Errorf("%q: %+v", symbol, u)
		}
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]kernels.Limit{
		"60s": {Abs: time.Minute}, "1h30m": {Abs: 90 * time.Minute}, "1.5x": {Times: 1.5}, "4x": {Times: 4},
	} {
		got, err := parseLimit(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if again, err := parseLimit(got.String()); err != nil || again != got {
			t.Errorf("%q: reads back as %v, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "x", "-4x", "1x", "infx", "1e9x", "60", "60 s", "9999999999h", "0x", "-0s"} {
		if got, err := parseLimit(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseEffect(t *testing.T) {
	for text, want := range map[string]float64{"3%": 0.03, "0.5 %": 0.005, "0.03": 0.03, " 10% ": 0.1} {
		if got, err := ParseEffect(text); err != nil || math.Abs(got-want) > 1e-15 {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "%", "0", "-1%", "100%", "3", "NaN%", "inf", "3%%"} {
		if got, err := ParseEffect(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
