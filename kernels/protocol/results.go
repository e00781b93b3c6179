package protocol

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// results are what a program has reported besides its phases.
type results struct {
	said   Said
	values int // numbers sent, kept or not
	series []bisect.Series
}

// Said is what a program reported about its own trial.
type Said struct {
	Infra, Skip, Wrong string // reasons, the first of each kind, as what follows is a consequence; "": not reported
	Case               string // announced last; "" before the first
	FailedIn           string // phase of the first failed check
}

// take keeps the fact of one line and returns its kind, or "" if it is not a valid
// fact. metric is the name of samples, phase the one in force.
func (r *results) take(key, value, metric, phase string) (kind string) {
	ok := true
	kind = key
	switch {
	case key == "case":
		if ok = value != ""; ok {
			r.said.Case = value
		}
	case key == "sample":
		ok = r.value(metric, value)
	case strings.HasPrefix(key, "metric "):
		kind, ok = "metric", r.value(strings.TrimSpace(strings.TrimPrefix(key, "metric ")), value)
	case key == "check":
		ok = r.check(value, phase)
	case key == "skip":
		r.said.Skip = cmp.Or(r.said.Skip, value, "no reason given")
	case key == "infra":
		r.said.Infra = cmp.Or(r.said.Infra, value, "no reason given")
	default:
		ok = false
	}
	if !ok {
		return ""
	}
	return kind
}

// check takes a verdict. The first failure counts, with its case.
func (r *results) check(text, phase string) (ok bool) {
	verdict, why, _ := strings.Cut(text, " ")
	if verdict != "pass" && verdict != "fail" {
		return false
	}
	if verdict == "fail" && r.said.Wrong == "" {
		why = strings.TrimSpace(why)
		if r.said.Case != "" {
			why = strings.TrimSpace("case " + r.said.Case + ": " + why)
		}
		r.said.Wrong, r.said.FailedIn = cmp.Or(why, "the check failed"), phase
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
		r.series = AppendValue(r.series, name, r.said.Case, unit, v)
	}
	return !math.IsNaN(v) && !math.IsInf(v, 0)
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
