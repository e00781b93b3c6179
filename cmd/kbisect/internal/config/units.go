package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
)

// Unit is a unit of measurement that a metric may have.
type Unit struct {
	Symbol         string
	Dimension      string  // "time", "bandwidth", …: only units of one dimension compare
	Factor         float64 // times this gives the base unit of the dimension (s, B, B/s, FLOP/s, …)
	HigherIsBetter bool    // for a rate; for everything else lower is better
}

// ParseUnit returns the unit with this symbol. The empty symbol is a count.
func ParseUnit(symbol string) (Unit, error) {
	for _, u := range units() {
		if u.Symbol == symbol {
			return u, nil
		}
	}
	all := unitSymbols()
	near := wording.DidYouMean(symbol, all)
	for _, s := range all { // the wrong case is a likelier mistake than a wrong letter
		if strings.EqualFold(s, symbol) {
			near = fmt.Sprintf("; did you mean %q?", s)
			break
		}
	}
	return Unit{}, fmt.Errorf("unknown unit %q%s; known: %s", symbol, near, strings.Join(all, " "))
}

func unitSymbols() []string {
	var out []string
	for _, u := range units() {
		if u.Symbol != "" && u.Symbol != "µs" {
			out = append(out, u.Symbol)
		}
	}
	return out
}

func units() []Unit {
	out := []Unit{
		{"", "count", 1, false}, {"count", "count", 1, false}, {"%", "share", 0.01, false},
		{"ns", "time", 1e-9, false}, {"us", "time", 1e-6, false}, {"µs", "time", 1e-6, false},
		{"ms", "time", 1e-3, false}, {"s", "time", 1, false}, {"min", "time", 60, false},
		{"cycles", "cycles", 1, false}, {"W", "power", 1, false}, {"J", "energy", 1, false},
		{"Hz", "frequency", 1, true}, {"MHz", "frequency", 1e6, true}, {"GHz", "frequency", 1e9, true},
		{"op/s", "throughput", 1, true}, {"item/s", "throughput", 1, true}, {"token/s", "throughput", 1, true},
	}
	sizes := []Unit{{Symbol: "B", Factor: 1}, {Symbol: "kB", Factor: 1e3}, {Symbol: "KB", Factor: 1e3}, {Symbol: "MB", Factor: 1e6},
		{Symbol: "GB", Factor: 1e9}, {Symbol: "TB", Factor: 1e12}, {Symbol: "KiB", Factor: 1 << 10}, {Symbol: "MiB", Factor: 1 << 20},
		{Symbol: "GiB", Factor: 1 << 30}, {Symbol: "TiB", Factor: 1 << 40}}
	for _, u := range sizes {
		out = append(out, Unit{u.Symbol, "size", u.Factor, false}, Unit{u.Symbol + "/s", "bandwidth", u.Factor, true})
	}
	for _, p := range []Unit{{Symbol: "", Factor: 1}, {Symbol: "M", Factor: 1e6}, {Symbol: "G", Factor: 1e9}, {Symbol: "T", Factor: 1e12}, {Symbol: "P", Factor: 1e15}} {
		out = append(out, Unit{p.Symbol + "FLOP/s", "compute", p.Factor, true}, Unit{p.Symbol + "FLOPS", "compute", p.Factor, true})
	}
	return out
}

// durationUnits says what ParseDuration accepts.
const durationUnits = `write a number with a unit (ns us ms s m h), as "90s", "2m" or "1h30m"`

// durationPart is a number and the unit after it, for the message about that unit.
var durationPart = regexp.MustCompile(`^\s*[0-9.]+\s*(\p{L}+)`)

// ParseDuration reads a positive duration in Go's syntax.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err == nil && d > 0:
		return d, nil
	case err == nil && d < 0:
		return 0, fmt.Errorf("invalid duration %q: negative", s)
	case err == nil:
		return 0, fmt.Errorf("invalid duration %q: must be above zero", s)
	}
	if f, numErr := strconv.ParseFloat(strings.TrimSpace(s), 64); numErr == nil && !math.IsNaN(f) {
		return 0, fmt.Errorf("%q has no unit; %s", s, durationUnits)
	}
	if m := durationPart.FindStringSubmatch(s); m != nil && !slices.Contains([]string{"ns", "us", "µs", "μs", "ms", "s", "m", "h"}, m[1]) {
		return 0, fmt.Errorf("unknown unit %q in %q; %s", m[1], s, durationUnits)
	}
	return 0, fmt.Errorf("invalid duration %q; %s", s, durationUnits)
}

// parseLimit reads the limit of a phase: a duration, or a multiple of what the
// good end took, as "4x".
func parseLimit(s string) (kernels.Limit, error) {
	if number, ok := strings.CutSuffix(s, "x"); ok {
		times, err := strconv.ParseFloat(number, 64)
		if err != nil || !(times > 1 && times <= 1e6) {
			return kernels.Limit{}, fmt.Errorf(`invalid multiple %q of the baseline; write a number above 1, as "4x"`, s)
		}
		return kernels.Limit{Times: times}, nil
	}
	d, err := ParseDuration(s)
	if err != nil {
		return kernels.Limit{}, fmt.Errorf(`%w, or a multiple of the baseline, as "4x"`, err)
	}
	return kernels.Limit{Abs: d}, nil
}

// ParseEffect reads a share in percent, as "3%" or "0.5 %".
func ParseEffect(s string) (float64, error) {
	number, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf(`invalid share %q; write "3%%" or 0.03`, s)
	}
	if ok {
		f /= 100
	}
	return f, checkEffect(f)
}

// checkEffect keeps 3 from being taken for 3 %.
func checkEffect(f float64) error {
	switch {
	case !(f > 0):
		return errors.New(`must be above 0; write "3%" or 0.03`)
	case f >= 1:
		return fmt.Errorf(`%g is %g %%, but must be below 100 %%; write "3%%" or 0.03`, f, f*100)
	}
	return nil
}
