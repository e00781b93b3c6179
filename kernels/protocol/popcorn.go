package protocol

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// Popcorn reads what a process of KernelBot's sends on POPCORN_FD: `key: value`, where the
// last of equal keys counts. The zero value is ready. A Popcorn serves one process.
//
// Pass each line to Translate as it arrives and the result to a [Reader], which keeps the
// phases; the results are here. What a killed process sent is kept.
type Popcorn struct {
	Stage   string // prefix of the phases: "test" makes "test/warmup"
	Metric  string // name of the timings; "": time
	Ranking string // last, mean or geom: how one score is made of all means; "": no score

	values    map[string]string
	order     []string // keys in the order of first arrival
	malformed malformedLines
	truncated bool   // more than maxKeys keys
	bytes     int    // of all lines
	last      string // key of the line before
}

// Bounds on what one process may make us keep.
const (
	maxKeys    = 1 << 14
	maxText    = 16 << 10 // bytes of one value
	maxPopcorn = 1 << 12  // cases of one kind
	pipeHolds  = 64 << 10 // bytes that a Linux pipe buffers
)

// Translate keeps one line and returns the phases and cases that it implies, as lines of
// the trial protocol. The probe's lines pass through.
func (p *Popcorn) Translate(line string) []string {
	p.bytes += len(line) + 1
	line = strings.TrimSuffix(line, "\r")
	if strings.TrimSpace(line) == "" {
		return nil
	}
	key, value, found := strings.Cut(line, ":")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case p.continuesError(key, found):
		p.values[p.last] = Plain(p.values[p.last]+" "+strings.TrimSpace(line), maxText)
		return nil
	case !found || key == "" || len(key) > 200:
		p.malformed.add(Plain(line, MaxWhere))
		return nil
	case key == "enter" || key == "leave":
		return []string{line}
	}
	p.keep(key, value)
	p.last = key
	return p.phaseLines(key, value)
}

// continuesError reports whether a line continues the error message of a failed case,
// which evaluation programs write without escaping its line breaks.
func (p *Popcorn) continuesError(key string, found bool) bool {
	_, known := p.values[p.last]
	return known && strings.HasSuffix(p.last, ".error") && !(found && popcornKey().MatchString(key))
}

// popcornKey matches the keys that evaluation programs send.
var popcornKey = lazy.Pattern(`^(check|enter|leave|compile|[a-z]+-count|[a-z]+\.\d+\.[a-z_.]+|[a-z_]+\.[a-z_.]+)$`)

// keep remembers the last value of a key, within bounds: a program may send any number of keys.
func (p *Popcorn) keep(key, value string) {
	if p.values == nil {
		p.values = map[string]string{}
	}
	if _, known := p.values[key]; !known {
		if len(p.order) >= maxKeys {
			p.truncated = true
			return
		}
		p.order = append(p.order, key)
	}
	p.values[key] = value[:min(len(value), maxText)]
}

// phaseLines derives the phases, which the runner does not send. A test process loads
// until it announces its first case; the status of that case comes after the import of
// the submission, its compilation and its first call. A benchmark process is silent until
// its warm-up is over.
func (p *Popcorn) phaseLines(key, value string) []string {
	index, field, numbered := caseKey(key, "test")
	switch {
	case key == "check":
		return []string{"phase: " + Teardown}
	case key == "benchmark-count":
		return []string{"phase: " + p.phase("measure")}
	case numbered && field == "spec" && index == 0:
		return []string{"phase: " + p.phase("warmup"), "case: " + value}
	case numbered && field == "spec":
		return []string{"phase: " + p.phase("check"), "case: " + value}
	}
	if _, field, ok := caseKey(key, "benchmark"); ok && field == "spec" && p.Stage != "leaderboard" { // leaderboard sends the spec after the case
		return []string{"case: " + value}
	}
	return nil
}

// phase puts the stage before the name of a phase, so that a benchmark's check is not a test's.
func (p *Popcorn) phase(name string) string {
	if p.Stage == "" {
		return name
	}
	return p.Stage + "/" + name
}

// caseKey splits "benchmark.3.mean" into 3 and "mean".
func caseKey(key, kind string) (index int, field string, ok bool) {
	rest, ok := strings.CutPrefix(key, kind+".")
	if !ok {
		return 0, "", false
	}
	number, field, ok := strings.Cut(rest, ".")
	index, err := strconv.Atoi(number)
	return index, field, ok && err == nil && index >= 0 && index < maxPopcorn
}

// timings are the fields of a benchmark that become series, with the unit in which they are sent.
func (p *Popcorn) timings() []struct{ field, metric, unit string } {
	name := cmp.Or(p.Metric, "time")
	return []struct{ field, metric, unit string }{
		{"mean", name, "ns"}, {"best", name + ".best", "ns"}, {"worst", name + ".worst", "ns"},
		{"std", name + ".std", "ns"}, {"runs", name + ".runs", ""},
	}
}

// Series returns the timings of the benchmarks, in seconds: for each case its mean under
// the name of the metric, and METRIC.best, .worst, .std and .runs, the number of runs that
// the stopping rule needed. If all benchmarks finished, score is what the server ranks by.
func (p *Popcorn) Series() []bisect.Series {
	var out []bisect.Series
	var means []float64
	for _, t := range p.timings() {
		for _, key := range p.order {
			i, field, ok := caseKey(key, "benchmark")
			if !ok || field != t.field {
				continue
			}
			v, err := strconv.ParseFloat(p.values[key], 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				continue
			}
			v, unit := metric.Base(v, t.unit)
			out = append(out, bisect.Series{Metric: t.metric, Case: p.spec("benchmark", i), Unit: unit, Values: []float64{v}})
			if t.field == "mean" && v > 0 {
				means = append(means, v)
			}
		}
	}
	if n, err := strconv.Atoi(p.values["benchmark-count"]); p.Ranking != "" && err == nil && n == len(means) && n > 0 {
		out = append(out, bisect.Series{Metric: "score", Unit: "s", Values: []float64{score(means, p.Ranking)}})
	}
	return out
}

// spec names a case as the runner does, else by its number.
func (p *Popcorn) spec(kind string, index int) string {
	if s := p.values[fmt.Sprintf("%s.%d.spec", kind, index)]; s != "" {
		return s
	}
	return fmt.Sprintf("%s %d", kind, index)
}

// failure is the first case that failed, with its error, or "".
func (p *Popcorn) failure() string {
	for _, key := range p.order {
		for _, kind := range []string{"test", "benchmark"} {
			i, field, ok := caseKey(key, kind)
			if !ok || field != "status" || p.values[key] != "fail" {
				continue
			}
			why := p.values[fmt.Sprintf("%s.%d.error", kind, i)]
			return Plain(strings.TrimSuffix("case "+p.spec(kind, i)+": "+why, ": "), MaxWhy)
		}
	}
	return ""
}

// MaxWhy bounds the reason that a report gives, in bytes.
const MaxWhy = 300

// Overflows reports whether more was sent than fits into a pipe that is not being read.
func (p *Popcorn) Overflows() bool { return p.bytes > pipeHolds }

// Warnings describes lines that were not understood or not kept.
func (p *Popcorn) Warnings() []string {
	out := p.malformed.warning("popcorn")
	if p.truncated {
		out = append(out, fmt.Sprintf("the process sent more than %d keys; the rest were dropped", maxKeys))
	}
	if p.Overflows() {
		out = append(out, fmt.Sprintf("the process sent more than %d KiB on POPCORN_FD, more than a pipe holds; the server reads it only at the end, so there the process would block until its limit, exit %d", pipeHolds>>10, ExitTimeout))
	}
	return out
}

// score is what KernelBot ranks by, in seconds: the last of the benchmarks' means, which
// must not be empty, their mean or their geometric mean.
func score(means []float64, ranking string) float64 {
	sum, logs := 0.0, 0.0
	for _, m := range means {
		sum += m
		logs += math.Log(m)
	}
	switch n := float64(len(means)); ranking {
	case "mean":
		return sum / n
	case "geom":
		return math.Exp(logs / n)
	}
	return means[len(means)-1]
}
