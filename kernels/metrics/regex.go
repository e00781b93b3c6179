package metrics

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// Pattern reads a metric from plain output by a regular expression with the named groups
// value and, optionally, unit and case. Other named groups become part of the case:
// `block_size +(?P<block_size>\d+) \| time (?P<value>[0-9.]+) (?P<unit>ms)` gives a matching
// line the case "block_size=32". Values of the same case are samples.
type Pattern struct {
	metric string
	unit   string // without a group of that name
	re     *regexp.Regexp

	value, units, caseName int   // indices of groups, or -1
	others                 []int // the other named groups
}

// NewPattern compiles the pattern of a metric. unit applies where no group unit matches.
func NewPattern(metric, unit, pattern string) (*Pattern, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern of metric %s: %w", metric, err)
	}
	p := &Pattern{metric: metric, unit: unit, re: re, value: re.SubexpIndex("value"), units: re.SubexpIndex("unit"), caseName: re.SubexpIndex("case")}
	if p.value < 0 {
		return nil, fmt.Errorf("pattern of metric %s has no group (?P<value>...)", metric)
	}
	for i, name := range re.SubexpNames() {
		if name != "" && i != p.value && i != p.units && i != p.caseName {
			p.others = append(p.others, i)
		}
	}
	return p, nil
}

// MarshalJSON implements json.Marshaler: a job on another machine reads the same metric.
func (p *Pattern) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]string{p.metric, p.unit, p.re.String()})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Pattern) UnmarshalJSON(data []byte) error {
	var x [3]string
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	made, err := NewPattern(x[0], x[1], x[2])
	if err == nil {
		*p = *made
	}
	return err
}

// Line adds the values in one line of output, as a terminal shows it, to all.
func (p *Pattern) Line(line string, all []bisect.Series) []bisect.Series {
	for _, m := range p.matches(line) {
		v, err := strconv.ParseFloat(m[p.value], 64)
		if err != nil {
			continue
		}
		unit := p.unit
		if p.units >= 0 && m[p.units] != "" {
			unit = m[p.units]
		}
		v, unit = metric.Base(v, unit)
		all = protocol.AppendValue(all, p.metric, p.caseOf(m), unit, v)
	}
	return all
}

// NotNumber returns the text that matched as a value but is not a number, such as
// "1.234,5", or "".
func (p *Pattern) NotNumber(line string) string {
	for _, m := range p.matches(line) {
		if v, err := strconv.ParseFloat(m[p.value], 64); err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return protocol.Plain(m[p.value], protocol.MaxWhere)
		}
	}
	return ""
}

// matches returns the matches in each part of a line that carriage returns overwrite on a
// terminal, without escape sequences; if there are none, those in the raw line.
func (p *Pattern) matches(line string) (all [][]string) {
	shown := string(protocol.Unescape([]byte(line)))
	if shown == line && !strings.Contains(line, "\r") {
		return p.re.FindAllStringSubmatch(line, -1)
	}
	for part := range strings.SplitSeq(shown, "\r") {
		if part != "" {
			all = append(all, p.re.FindAllStringSubmatch(part, -1)...)
		}
	}
	if all == nil {
		return p.re.FindAllStringSubmatch(line, -1)
	}
	return all
}

// caseOf joins the groups that name the case.
func (p *Pattern) caseOf(match []string) string {
	var parts []string
	if p.caseName >= 0 && match[p.caseName] != "" {
		parts = append(parts, match[p.caseName])
	}
	for _, i := range p.others {
		if match[i] != "" {
			parts = append(parts, p.re.SubexpNames()[i]+"="+match[i])
		}
	}
	return strings.Join(parts, ", ")
}
