package protocol

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// Reader reads the lines that a program under test sends on KBISECT_FD (one line, one fact) and
// keeps what they say. The zero value is ready; a Protocol serves one trial and one goroutine.
type Reader struct {
	Metric string // name of the series that `sample:` lines belong to; empty stands for "time"
	Base   string // phase at the start; empty stands for load, or run for a program that says nothing
	Expect *Shape // how much a trial sends that ends well; nil while that is not known
	Varies bool   // that is the least it sends: no line can be told to be the last when it comes

	clock     clock
	sent      sent
	settled   bool // the silence after the last line is the teardown
	malformed []string
	bad       int
	kase      string
	values    int // numbers sent
	series    []bisect.Series
	failed    string // of the first `check: fail`
	failedIn  string // the phase of that
	checked   bool
	skip      *string
	infra     *string
}

// malformed is the kind of a line that was not understood.
const malformed = "malformed"

// teardown is the phase from the last line to the exit.
const teardown = "teardown"

// Bounds on what one trial may make us keep.
const (
	MaxValues    = 1 << 13 // samples of one trial; each is a row of the store
	MaxSeries    = 4096
	maxPhases    = 4096 // names
	maxDepth     = 256  // stretches in each other
	maxMalformed = 5    // kept as text; all are counted
)

// Line takes one line that arrived `at` after the start of the process. It returns the phase that
// is in force afterwards if the line has changed it, else "".
func (p *Reader) Line(line string, at time.Duration) (phase string) {
	line = strings.TrimSuffix(line, "\r")
	if strings.TrimSpace(line) == "" {
		return ""
	}
	before := p.clock.top()
	p.clock.advance(at)
	p.settled = false
	key, rest, found := strings.Cut(line, ":")
	key, rest = strings.TrimSpace(key), strings.TrimSpace(rest)
	if found && (key == "enter" || key == "leave") {
		if !p.stretch(key, rest) {
			p.reject(line)
		}
	} else {
		p.own(line, key, rest, found)
	}
	if after := p.Phase(); after != p.name(before) {
		return after
	}
	return ""
}

// own takes a line that the program itself has sent; stretches are the words of the probe.
func (p *Reader) own(line, key, rest string, found bool) {
	p.clock.resume()
	kind := malformed
	if found {
		if k := p.fact(key, rest); k != "" {
			kind = k
		}
	}
	if kind == malformed {
		p.reject(line)
	}
	p.sent.line(kind, key, rest, p.clock.now)
	p.sent.depth, p.sent.top = len(p.clock.stack), p.clock.top()
	if !p.Varies && p.Expect.met(&p.sent, p.name(p.sent.top)) {
		p.clock.suppose()
	}
}

// fact takes the fact of one line and returns its kind, or "" if it is none.
func (p *Reader) fact(key, rest string) (kind string) {
	ok := true
	kind = key
	switch {
	case key == "phase":
		ok = validName(rest) && p.clock.phase(rest)
	case key == "case":
		if ok = rest != ""; ok {
			p.kase = rest
		}
	case key == "sample":
		ok = p.value(p.sampleMetric(), rest)
	case strings.HasPrefix(key, "metric "):
		kind, ok = "metric", p.value(strings.TrimSpace(strings.TrimPrefix(key, "metric ")), rest)
	case key == "check":
		ok = p.check(rest)
	case key == "skip":
		p.skip = first(p.skip, rest)
	case key == "infra":
		p.infra = first(p.infra, rest)
	default:
		ok = false
	}
	if !ok {
		return ""
	}
	return kind
}

// stretch takes `enter: NAME` and `leave: NAME`.
func (p *Reader) stretch(key, name string) bool {
	if !validName(name) {
		return false
	}
	if key == "enter" {
		return p.clock.enter(name)
	}
	return p.clock.leave(name)
}

func (p *Reader) sampleMetric() string {
	if p.Metric != "" {
		return p.Metric
	}
	return "time"
}

func first(have *string, text string) *string {
	if have != nil {
		return have
	}
	return &text
}

func (p *Reader) check(rest string) bool {
	verdict, why, _ := strings.Cut(rest, " ")
	switch verdict {
	case "pass":
		p.checked = true
		return true
	case "fail":
		p.checked = true
		if p.failed == "" {
			p.failedIn = p.Phase()
			p.failed = strings.TrimSpace(why)
			if p.kase != "" {
				p.failed = strings.TrimSpace("case " + p.kase + ": " + p.failed)
			}
			if p.failed == "" {
				p.failed = "the check failed"
			}
		}
		return true
	}
	return false
}

// value keeps "VALUE UNIT" of a metric for the current case; times are kept in seconds.
func (p *Reader) value(metric, rest string) bool {
	if !validName(metric) {
		return false
	}
	f := strings.Fields(rest)
	if len(f) == 0 || len(f) > 2 {
		return false
	}
	v, err := strconv.ParseFloat(f[0], 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return false
	}
	unit := ""
	if len(f) == 2 {
		unit = f[1]
	}
	v, unit = Seconds(v, unit)
	if p.values++; p.values > MaxValues {
		return true
	}
	p.series = AppendValue(p.series, metric, p.kase, unit, v)
	return true
}

// Seconds turns a time into seconds; other units stay as they are.
func Seconds(v float64, unit string) (float64, string) {
	switch unit {
	case "s":
		return v, "s"
	case "ms":
		return v / 1e3, "s"
	case "us", "µs", "μs":
		return v / 1e6, "s"
	case "ns":
		return v / 1e9, "s"
	}
	return v, unit
}

// validName accepts the name of a phase or a metric: no control characters, not too long.
func validName(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' })
}

func (p *Reader) reject(line string) {
	p.bad++
	if len(p.malformed) < maxMalformed {
		p.malformed = append(p.malformed, line[:min(len(line), 120)])
	}
}

// Series are the samples and metrics, times in seconds.
func (p *Reader) Series() []bisect.Series { return p.series }

// Warnings tells of lines that were not understood or not kept.
func (p *Reader) Warnings() []string {
	var out []string
	if p.bad > 0 {
		out = append(out, fmt.Sprintf("%d malformed protocol lines, such as %q", p.bad, p.malformed[0]))
	}
	if p.values > MaxValues {
		out = append(out, fmt.Sprintf("the program sent %d numbers; those after the first %d were left out", p.values, MaxValues))
	}
	return out
}

// Said is what the program said about itself.
type Said struct {
	Infra, Skip, Wrong string
	IsInfra, IsSkip    bool
	IsWrong            bool
	Checked            bool // a check was sent, whatever it said
}

// Case is the one that was announced last, "" before the first.
func (p *Reader) Case() string { return p.kase }

// Failed is the phase in which the first check failed.
func (p *Reader) Failed() string { return p.failedIn }

// Said returns the program's own words about the trial.
func (p *Reader) Said() Said {
	s := Said{Wrong: p.failed, IsWrong: p.failed != "", Checked: p.checked}
	if p.infra != nil {
		s.IsInfra, s.Infra = true, *p.infra
	}
	if p.skip != nil {
		s.IsSkip, s.Skip = true, *p.skip
	}
	return s
}

// AppendValue adds a value to the series of its metric, case and unit.
func AppendValue(all []bisect.Series, metric, kase, unit string, v float64) []bisect.Series {
	i := slices.IndexFunc(all, func(s bisect.Series) bool { return s.Metric == metric && s.Case == kase && s.Unit == unit })
	switch {
	case i < 0 && len(all) < MaxSeries:
		return append(all, bisect.Series{Metric: metric, Case: kase, Unit: unit, Values: []float64{v}})
	case i >= 0 && len(all[i].Values) < MaxValues:
		all[i].Values = append(all[i].Values, v)
	}
	return all
}
