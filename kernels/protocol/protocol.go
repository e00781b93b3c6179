package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// Reader reads the lines that a program under test sends on KBISECT_FD and keeps what
// they say. The zero value is ready. A Reader serves one trial and one goroutine.
type Reader struct {
	Metric string // name of the series of `sample:` lines; "": time
	Base   string // phase at the start; "": load, or run for a program that sends nothing
	Expect *Shape // how much a good trial sends; nil: unknown, so no teardown is inferred
	Varies bool   // Expect is a minimum, so no line can be recognised as the last one

	clock     clock
	sent      sent
	results   results
	settled   bool // the silence after the last line counts as teardown
	malformed malformedLines
}

// malformedKind is the kind, in Shape.Kinds, of a line that was not understood.
const malformedKind = "malformed"

// Teardown is the phase from the last line to the exit.
const Teardown = "teardown"

// Bounds on what one trial may make us keep.
const (
	MaxValues = 1 << 13 // samples of one trial; each is a row of the store
	MaxSeries = 4096
	maxPhases = 256 // names
	maxDepth  = 256 // nested spans
)

// Line takes one line, without its line break, that arrived `at` after the start of the
// process. It returns the phase now in force if the line changed it, else "".
func (p *Reader) Line(line string, at time.Duration) (phase string) {
	line = strings.TrimSuffix(line, "\r")
	if strings.TrimSpace(line) == "" {
		return ""
	}
	before := p.clock.top()
	p.clock.advance(at)
	p.settled = false
	key, value, found := strings.Cut(line, ":")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	understood := false
	if found && (key == "enter" || key == "leave") {
		understood = p.clock.span(key, value)
	} else {
		understood = p.programLine(key, value, found)
	}
	if !understood {
		p.malformed.add(line[:min(len(line), 120)])
	}
	if after := p.Phase(); after != p.name(before) {
		return after
	}
	return ""
}

// programLine takes a line that the program itself sent, as opposed to the probe. Only
// these lines say how far the program has come.
func (p *Reader) programLine(key, value string, found bool) (understood bool) {
	p.clock.resume()
	kind := ""
	switch {
	case !found:
	case key == "phase":
		if validName(value) && p.clock.phase(value) {
			kind = key
		}
	default:
		kind = p.results.take(key, value, cmp.Or(p.Metric, "time"), p.Phase())
	}
	understood = kind != ""
	if !understood {
		kind = malformedKind
	}
	p.sent.line(kind, key, value, p.clock.now)
	p.sent.depth, p.sent.top = len(p.clock.stack), p.clock.top()
	if !p.Varies && p.Expect.met(&p.sent, p.name(p.sent.top)) {
		p.clock.inferTeardown()
	}
	return understood
}

// Shape describes what the program itself has sent so far. Spans do not count, because
// compilations depend on caches.
func (p *Reader) Shape() Shape {
	return Shape{
		Phase: p.name(p.sent.top), Before: p.sent.before, Lines: p.sent.total,
		Kinds: maps.Clone(p.sent.kinds), Result: p.sent.result,
	}
}

// Series returns the samples and metrics; times are in seconds.
func (p *Reader) Series() []bisect.Series { return p.results.series }

// Said returns what the program reported about its own trial.
func (p *Reader) Said() Said { return p.results.said }

// Warnings describes lines that were not understood or not kept.
func (p *Reader) Warnings() []string {
	out := p.malformed.warning("protocol")
	if n := p.results.values; n > MaxValues {
		out = append(out, fmt.Sprintf("the program sent %d numbers; only the first %d were kept", n, MaxValues))
	}
	return out
}

// malformedLines counts lines that were not understood and keeps the first.
type malformedLines struct {
	n     int
	first string
}

func (m *malformedLines) add(line string) {
	if m.n++; m.n == 1 {
		m.first = line
	}
}

// warning returns at most one warning about lines of a protocol.
func (m *malformedLines) warning(protocol string) []string {
	if m.n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("malformed %s lines: %d, the first %q", protocol, m.n, m.first)}
}

// validName reports whether s can name a phase or a metric: short and without control
// characters.
func validName(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' })
}
