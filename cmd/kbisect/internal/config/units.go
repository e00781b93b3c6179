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

	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
)

// checkUnit refuses an unknown unit. The empty one is that of the values, or a count.
func checkUnit(symbol string) error {
	if _, ok := metric.ParseUnit(symbol); ok || symbol == "" {
		return nil
	}
	all := metric.Units()
	near := wording.DidYouMean(symbol, all)
	for _, s := range all { // the wrong case is a likelier mistake than a wrong letter
		if strings.EqualFold(s, symbol) {
			near = fmt.Sprintf("; did you mean %q?", s)
			break
		}
	}
	return fmt.Errorf("unknown unit %q%s; known: %s, and others like them", symbol, near, strings.Join(all, " "))
}

// durationUnits says what ParseDuration accepts, as the end of an error message.
const durationUnits = `write a number with a unit (ns us ms s m h), such as "90s", "2m" or "1h30m"`

// durationPart matches a number and the unit after it, for the message about that unit.
var durationPart = regexp.MustCompile(`^\s*[0-9.]+\s*(\p{L}+)`)

// ParseDuration reads a positive duration in Go's syntax. Its errors say which part is wrong; a missing unit is the
// most frequent mistake.
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

// parseLimit reads the limit of a phase: a duration, or a multiple of what the good end took, such as "4x".
func parseLimit(s string) (kernels.Limit, error) {
	if number, ok := strings.CutSuffix(s, "x"); ok {
		times, err := strconv.ParseFloat(number, 64)
		if err != nil || !(times > 1 && times <= 1e6) {
			return kernels.Limit{}, fmt.Errorf(`invalid multiple %q of the baseline; write a number above 1, such as "4x"`, s)
		}
		return kernels.Limit{Times: times}, nil
	}
	d, err := ParseDuration(s)
	if err != nil {
		return kernels.Limit{}, fmt.Errorf(`%w, or a multiple of the baseline, such as "4x"`, err)
	}
	return kernels.Limit{Abs: d}, nil
}

// ParseEffect reads a share in percent or as a number: "3%", "0.5 %", "0.03". The result is the share, 0.03 for 3
// %.
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

// checkEffect refuses shares outside of 0 to 1, above all 3 where 3 % is meant.
func checkEffect(f float64) error {
	switch {
	case !(f > 0):
		return errors.New(`must be above 0; write "3%" or 0.03`)
	case f >= 1:
		return fmt.Errorf(`%g is %g %%, but must be below 100 %%; write "3%%" or 0.03`, f, f*100)
	}
	return nil
}
