package kernels

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Protocol reads the lines that a program under test sends on KBISECT_FD (one line, one fact) and
// keeps what they say. The zero value is ready; a Protocol serves one trial and one goroutine.
type Protocol struct {
	Metric string // name of the series that `sample:` lines belong to; empty stands for "time"

	phases    []mark
	last      time.Duration // arrival of the last line
	lastPhase bool          // the last line entered a phase
	lines     int
	malformed []string
	bad       int
	kase      string
	series    []Series
	failed    string // of the first `check: fail`
	checked   bool
	skip      *string
	infra     *string
}

// Series holds the samples of one metric for one case (a shape, an input), in the order sent.
type Series struct {
	Metric string
	Case   string
	Unit   string // "s" for every unit of time
	Values []float64
}

// PhaseTime is the time spent in one phase.
type PhaseTime struct {
	Name    string
	Seconds float64
}

// mark is the entry into a phase.
type mark struct {
	name string
	at   time.Duration
}

// Bounds on what one trial may make us keep.
const (
	maxValues    = 1 << 20 // samples of one trial
	maxSeries    = 4096
	maxPhases    = 4096
	maxMalformed = 5 // kept as text; all are counted
)

// Line takes one line that arrived `at` after the start of the process. It returns the phase that
// the line enters, or "".
func (p *Protocol) Line(line string, at time.Duration) (phase string) {
	line = strings.TrimSuffix(line, "\r")
	if strings.TrimSpace(line) == "" {
		return ""
	}
	p.lines++
	p.last, p.lastPhase = at, false
	key, rest, found := strings.Cut(line, ":")
	if !found {
		p.reject(line)
		return ""
	}
	key, rest = strings.TrimSpace(key), strings.TrimSpace(rest)
	ok := true
	switch {
	case key == "phase":
		if ok = validName(rest) && len(p.phases) < maxPhases; ok {
			p.phases = append(p.phases, mark{rest, at})
			p.lastPhase = true
			phase = rest
		}
	case key == "case":
		if ok = rest != ""; ok {
			p.kase = rest
		}
	case key == "sample":
		ok = p.value(p.sampleMetric(), rest)
	case strings.HasPrefix(key, "metric "):
		ok = p.value(strings.TrimSpace(strings.TrimPrefix(key, "metric ")), rest)
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
		p.reject(line)
	}
	return phase
}

func (p *Protocol) sampleMetric() string {
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

func (p *Protocol) check(rest string) bool {
	verdict, why, _ := strings.Cut(rest, " ")
	switch verdict {
	case "pass":
		p.checked = true
		return true
	case "fail":
		p.checked = true
		if p.failed == "" {
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
func (p *Protocol) value(metric, rest string) bool {
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
	v, unit = seconds(v, unit)
	p.series = appendValue(p.series, metric, p.kase, unit, v)
	return true
}

// seconds turns a time into seconds; other units stay as they are.
func seconds(v float64, unit string) (float64, string) {
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

func (p *Protocol) reject(line string) {
	p.bad++
	if len(p.malformed) < maxMalformed {
		p.malformed = append(p.malformed, line[:min(len(line), 120)])
	}
}

// Speaks reports whether the program sent anything that this protocol knows.
func (p *Protocol) Speaks() bool { return p.lines > p.bad }

// Phase is the phase in force.
func (p *Protocol) Phase() string {
	if len(p.phases) > 0 {
		return p.phases[len(p.phases)-1].name
	}
	return "load"
}

// Phases are the times spent in each phase, in the order of first entry. The start of the process
// is load, from its last line to its exit is teardown, unless the last line itself entered a phase.
// A killed process had no teardown: all its time belongs to the phase in which it died.
// A program that said nothing is one `run` phase.
func (p *Protocol) Phases(wall time.Duration, killed bool) []PhaseTime {
	if !p.Speaks() {
		return []PhaseTime{{Name: "run", Seconds: wall.Seconds()}}
	}
	marks := append([]mark{{"load", 0}}, p.phases...)
	if !killed && !p.lastPhase {
		marks = append(marks, mark{"teardown", p.last})
	}
	var out []PhaseTime
	for i, m := range marks {
		end := wall
		if i+1 < len(marks) {
			end = marks[i+1].at
		}
		out = addPhase(out, m.name, max(0, end-m.at))
	}
	return out
}

func addPhase(all []PhaseTime, name string, d time.Duration) []PhaseTime {
	for i := range all {
		if all[i].Name == name {
			all[i].Seconds += d.Seconds()
			return all
		}
	}
	return append(all, PhaseTime{Name: name, Seconds: d.Seconds()})
}

// Series are the samples and metrics, times in seconds.
func (p *Protocol) Series() []Series { return p.series }

// Warnings tells of lines that were not understood.
func (p *Protocol) Warnings() []string {
	if p.bad == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d malformed protocol lines, such as %q", p.bad, p.malformed[0])}
}

// Said is what the program said about itself.
type Said struct {
	Infra, Skip, Wrong string
	IsInfra, IsSkip    bool
	IsWrong            bool
}

// Said returns the program's own words about the trial.
func (p *Protocol) Said() Said {
	s := Said{Wrong: p.failed, IsWrong: p.failed != ""}
	if p.infra != nil {
		s.IsInfra, s.Infra = true, *p.infra
	}
	if p.skip != nil {
		s.IsSkip, s.Skip = true, *p.skip
	}
	return s
}
