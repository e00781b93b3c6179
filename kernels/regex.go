package kernels

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Pattern reads a metric out of a program's plain output by a regular expression with the named
// groups value and, if wanted, unit and case.
type Pattern struct {
	metric             string
	unit               string
	re                 *regexp.Regexp
	value, units, kase int
}

// NewPattern compiles the pattern of a metric; unit serves where the pattern has no group of that name.
func NewPattern(metric, unit, pattern string) (*Pattern, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern of metric %s: %w", metric, err)
	}
	p := &Pattern{metric: metric, unit: unit, re: re, value: re.SubexpIndex("value"), units: re.SubexpIndex("unit"), kase: re.SubexpIndex("case")}
	if p.value < 0 {
		return nil, fmt.Errorf("pattern of metric %s has no group (?P<value>...)", metric)
	}
	return p, nil
}

// Line looks for values in one line of output and adds them to all.
func (p *Pattern) Line(line string, all []Series) []Series {
	for _, m := range p.re.FindAllStringSubmatch(line, -1) {
		v, err := strconv.ParseFloat(m[p.value], 64)
		if err != nil {
			continue
		}
		unit, kase := p.unit, ""
		if p.units >= 0 && m[p.units] != "" {
			unit = m[p.units]
		}
		if p.kase >= 0 {
			kase = m[p.kase]
		}
		v, unit = seconds(v, unit)
		all = appendValue(all, p.metric, kase, unit, v)
	}
	return all
}

// appendValue adds a value to the series of its metric, case and unit.
func appendValue(all []Series, metric, kase, unit string, v float64) []Series {
	i := slices.IndexFunc(all, func(s Series) bool { return s.Metric == metric && s.Case == kase && s.Unit == unit })
	switch {
	case i < 0 && len(all) < maxSeries:
		return append(all, Series{Metric: metric, Case: kase, Unit: unit, Values: []float64{v}})
	case i >= 0 && len(all[i].Values) < maxValues:
		all[i].Values = append(all[i].Values, v)
	}
	return all
}
