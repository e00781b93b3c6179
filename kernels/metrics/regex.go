package metrics

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// Pattern reads a metric out of a program's plain output by a regular expression with the named
// groups value and, if wanted, unit and case. Groups of other names belong to the case too, so that
// `block_size +(?P<block_size>\d+) \| time (?P<value>[0-9.]+) (?P<unit>ms)` makes a case "block_size=32"
// of each line that it matches. Values of the same case are samples of it.
type Pattern struct {
	metric             string
	unit               string
	re                 *regexp.Regexp
	value, units, kase int
	others             []int
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
	for i, name := range re.SubexpNames() {
		if name != "" && i != p.value && i != p.units && i != p.kase {
			p.others = append(p.others, i)
		}
	}
	return p, nil
}

// Line looks for values in one line of output, as a terminal shows it, and adds them to all.
func (p *Pattern) Line(line string, all []bisect.Series) []bisect.Series {
	for _, m := range p.matches(line) {
		v, ok := number(m[p.value])
		if !ok {
			continue
		}
		unit := p.unit
		if p.units >= 0 && m[p.units] != "" {
			unit = m[p.units]
		}
		v, unit = protocol.Seconds(v, unit)
		all = protocol.AppendValue(all, p.metric, p.caseOf(m), unit, v)
	}
	return all
}

// NotNumber returns what a line has in the place of the value where it matches and that is no number, such as
// "1.234,5"; "" for every other line.
func (p *Pattern) NotNumber(line string) string {
	for _, m := range p.matches(line) {
		if _, ok := number(m[p.value]); !ok {
			return protocol.Plain(m[p.value], protocol.MaxWhere)
		}
	}
	return ""
}

// matches are those of the parts that a terminal shows one over the other, without colours and without the
// carriage return at the end, or else those of the line as it is.
func (p *Pattern) matches(line string) (all [][]string) {
	if !strings.ContainsAny(line, "\r\x1b") {
		return p.re.FindAllStringSubmatch(line, -1)
	}
	for part := range strings.SplitSeq(escapes.ReplaceAllString(line, ""), "\r") {
		if part != "" {
			all = append(all, p.re.FindAllStringSubmatch(part, -1)...)
		}
	}
	if all == nil {
		return p.re.FindAllStringSubmatch(line, -1)
	}
	return all
}

// escapes matches what tells a terminal of colours, titles and places.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>78])`)

// number reads a value.
func number(text string) (float64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// caseOf joins the groups that tell cases apart.
func (p *Pattern) caseOf(match []string) string {
	var parts []string
	if p.kase >= 0 && match[p.kase] != "" {
		parts = append(parts, match[p.kase])
	}
	for _, i := range p.others {
		if match[i] != "" {
			parts = append(parts, p.re.SubexpNames()[i]+"="+match[i])
		}
	}
	return strings.Join(parts, ", ")
}
