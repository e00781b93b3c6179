package protocol

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// results are what a program has reported besides its phases.
type results struct {
	caseName string // announced last
	values   int    // numbers sent, kept or not
	series   []bisect.Series
	failed   string // reason of the first `check: fail`
	failedIn string // phase of that check
	skip     *string
	infra    *string
}

// take keeps the fact of one line and returns its kind, or "" if it is not a valid
// fact. metric is the name of samples, phase the one in force.
func (r *results) take(key, value, metric, phase string) (kind string) {
	ok := true
	kind = key
	switch {
	case key == "case":
		if ok = value != ""; ok {
			r.caseName = value
		}
	case key == "sample":
		ok = r.value(metric, value)
	case strings.HasPrefix(key, "metric "):
		kind, ok = "metric", r.value(strings.TrimSpace(strings.TrimPrefix(key, "metric ")), value)
	case key == "check":
		ok = r.check(value, phase)
	case key == "skip":
		r.skip = first(r.skip, value)
	case key == "infra":
		r.infra = first(r.infra, value)
	default:
		ok = false
	}
	if !ok {
		return ""
	}
	return kind
}

// first keeps the first text of its kind: what follows is a consequence.
func first(have *string, text string) *string {
	if have != nil {
		return have
	}
	return &text
}

// check takes a verdict. The first failure counts, with its case: later ones are often its consequence.
func (r *results) check(text, phase string) (ok bool) {
	verdict, why, _ := strings.Cut(text, " ")
	if verdict != "pass" && verdict != "fail" {
		return false
	}
	if verdict == "fail" && r.failed == "" {
		r.failedIn = phase
		r.failed = strings.TrimSpace(why)
		if r.caseName != "" {
			r.failed = strings.TrimSpace("case " + r.caseName + ": " + r.failed)
		}
		if r.failed == "" {
			r.failed = "the check failed"
		}
	}
	return true
}

// value keeps "VALUE UNIT" of a metric for the current case.
func (r *results) value(name, text string) (ok bool) {
	if !validName(name) {
		return false
	}
	f := strings.Fields(text)
	if len(f) == 0 || len(f) > 2 {
		return false
	}
	v, err := strconv.ParseFloat(f[0], 64)
	if err != nil {
		return false
	}
	unit := ""
	if len(f) == 2 {
		unit = f[1]
	}
	v, unit = metric.Base(v, unit)
	if r.values++; r.values <= MaxValues {
		r.series = AppendValue(r.series, name, r.caseName, unit, v)
	}
	return !math.IsNaN(v) && !math.IsInf(v, 0)
}

// Said is what a program reported about its own trial.
type Said struct {
	Infra, Skip, Wrong string // reasons
	IsInfra, IsSkip    bool   // a reason may be empty
	IsWrong            bool
	Case               string // announced last; "" before the first
	FailedIn           string // phase of the first failed check
}

// said is a copy for others; what was not reported is empty.
func (r *results) said() Said {
	s := Said{Wrong: r.failed, IsWrong: r.failed != "", Case: r.caseName, FailedIn: r.failedIn}
	if r.infra != nil {
		s.IsInfra, s.Infra = true, *r.infra
	}
	if r.skip != nil {
		s.IsSkip, s.Skip = true, *r.skip
	}
	return s
}

// AppendValue adds a value to the series of its metric, case and unit. It drops values
// beyond MaxValues in a series and MaxSeries series. A value that is not a finite number
// leaves a series without values: it was sent, and there is nothing to compare.
func AppendValue(all []bisect.Series, metric, caseName, unit string, v float64) []bisect.Series {
	i := slices.IndexFunc(all, func(s bisect.Series) bool { return s.Metric == metric && s.Case == caseName && s.Unit == unit })
	if i < 0 {
		if len(all) == MaxSeries {
			return all
		}
		i, all = len(all), append(all, bisect.Series{Metric: metric, Case: caseName, Unit: unit})
	}
	if !math.IsNaN(v) && !math.IsInf(v, 0) && len(all[i].Values) < MaxValues {
		all[i].Values = append(all[i].Values, v)
	}
	return all
}
