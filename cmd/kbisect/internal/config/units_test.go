package config

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/kernels"
)

func TestCheckUnit(t *testing.T) {
	for _, symbol := range []string{"", "us", "µs", "GB/s", "TFLOP/s", "FLOPS", "KiB", "count", "token/s"} {
		if err := checkUnit(symbol); err != nil {
			t.Errorf("%q: %v", symbol, err)
		}
	}
	for _, symbol := range []string{"US", " us", "parsec"} {
		if checkUnit(symbol) == nil {
			t.Errorf("%q was taken", symbol)
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

func TestMemory(t *testing.T) {
	for text, want := range map[string]int64{"1M": 1e6, "512M": 512e6, "8G": 8e9, "8GiB": 8 << 30, "1.5 GB": 1.5e9, "2000000": 2e6} {
		c, err := Parse("c.toml", []byte("[run]\nmemory = \""+text+"\""))
		if err != nil || c.Run.Memory != want {
			t.Errorf("%q: %v, %v", text, c, err)
		}
	}
	for _, text := range []string{"", "M", "-8G", "999k", "8 elephants", "16EiB", "1e30"} {
		if _, err := Parse("c.toml", []byte("[run]\nmemory = \""+text+"\"")); err == nil || !strings.Contains(err.Error(), `invalid amount "`+text+`"; expected at least 1M`) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Builds at a time are one or more; without a number it is the machine's affair.
func TestBuildJobs(t *testing.T) {
	for text, want := range map[string]int{"": 0, "jobs = 1": 1, "jobs = 15": 15} {
		if c, err := Parse("c.toml", []byte("[build]\ncommand = [\"make\"]\n"+text)); err != nil || c.Build.Jobs != want {
			t.Errorf("%q: %v, %v", text, c, err)
		}
	}
	for text, want := range map[string]string{"jobs = 0": "expected 1 to 1024 builds at a time, got 0", "jobs = -2": "got -2", "jobs = \"2\"": "a whole number of builds at a time"} {
		if _, err := Parse("c.toml", []byte("[build]\ncommand = [\"make\"]\n"+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
