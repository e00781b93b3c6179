package protocol

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// Popcorn reads what a process of KernelBot's sends on POPCORN_FD: `key: value`, of equal keys the
// last counts. The zero value is ready; a Popcorn serves one process. Feed each line to [Popcorn.Lines]
// as it arrives and what that returns to a [Protocol] (its Base is that of the [Stage]), which keeps the
// phases; the results are here. What has arrived of a process that was killed is kept.
type Popcorn struct {
	Stage   string // prefix of the phases: "test" makes "test/warmup"
	Metric  string // of the timings; "": "time"
	Ranking string // last, mean or geom: how one score is made of all means; "": there is none

	values map[string]string
	order  []string // keys in the order of first arrival
	bad    int
	lost   bool // keys over the bound
	bytes  int  // of all lines
	first  string
	last   string // key of the line before
}

// Bounds on what one process may make us keep.
const (
	maxKeys    = 1 << 14
	maxText    = 16 << 10 // of one value
	maxPopcorn = 1 << 12  // of the cases of one kind
	pipeHolds  = 64 << 10 // bytes, on Linux
)

// Lines takes one line and returns what it says in the words of the trial protocol: phases and
// cases, as the arrival of keys tells them. The words of the probe pass through.
func (p *Popcorn) Lines(line string) []string {
	p.bytes += len(line) + 1
	line = strings.TrimSuffix(line, "\r")
	if strings.TrimSpace(line) == "" {
		return nil
	}
	key, value, found := strings.Cut(line, ":")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case p.message(key, found):
		p.values[p.last] = Plain(p.values[p.last]+" "+strings.TrimSpace(line), maxText)
		return nil
	case !found || key == "" || len(key) > 200:
		p.reject(line)
		return nil
	case key == "enter" || key == "leave":
		return []string{line}
	}
	p.keep(key, value)
	p.last = key
	return p.translate(key, value)
}

// message reports whether a line goes on with the message of a failed case, which evaluations write as it is.
func (p *Popcorn) message(key string, found bool) bool {
	_, known := p.values[p.last]
	return known && strings.HasSuffix(p.last, ".error") && !(found && popcornKey.MatchString(key))
}

// popcornKey matches what evaluations send values under.
var popcornKey = regexp.MustCompile(`^(check|enter|leave|compile|[a-z]+-count|[a-z]+\.\d+\.[a-z_.]+|[a-z_]+\.[a-z_.]+)$`)

func (p *Popcorn) reject(line string) {
	if p.bad++; p.bad == 1 {
		p.first = Plain(line, MaxWhere)
	}
}

func (p *Popcorn) keep(key, value string) {
	if p.values == nil {
		p.values = map[string]string{}
	}
	if _, known := p.values[key]; !known {
		if len(p.order) >= maxKeys {
			p.lost = true
			return
		}
		p.order = append(p.order, key)
	}
	p.values[key] = value[:min(len(value), maxText)]
}

// translate names the phases that the runner itself does not know. A test process loads until its
// first case is announced, whose status comes after the import of the submission, its compilations
// and its first call; a benchmark process says nothing until the warm-up is over.
func (p *Popcorn) translate(key, value string) []string {
	index, field, numbered := caseKey(key, "test")
	switch {
	case key == "check":
		return []string{"phase: " + teardown}
	case key == "benchmark-count":
		return []string{"phase: " + p.phase("measure")}
	case numbered && field == "spec" && index == 0:
		return []string{"phase: " + p.phase("warmup"), "case: " + value}
	case numbered && field == "spec":
		return []string{"phase: " + p.phase("check"), "case: " + value}
	}
	if _, field, ok := caseKey(key, "benchmark"); ok && field == "spec" && p.Stage != "leaderboard" { // there it comes after the case
		return []string{"case: " + value}
	}
	return nil
}

func (p *Popcorn) phase(name string) string {
	if p.Stage == "" {
		return name
	}
	return p.Stage + "/" + name
}

// caseKey takes "benchmark.3.mean" apart.
func caseKey(key, kind string) (index int, field string, ok bool) {
	rest, ok := strings.CutPrefix(key, kind+".")
	if !ok {
		return 0, "", false
	}
	number, field, ok := strings.Cut(rest, ".")
	index, err := strconv.Atoi(number)
	return index, field, ok && err == nil && index >= 0 && index < maxPopcorn
}

// Values are the keys with their last values, as far as they have arrived.
func (p *Popcorn) Values() map[string]string { return p.values }

// timings are the fields of a benchmark that are kept as series, with the unit that they are sent in.
func (p *Popcorn) timings() []struct{ field, metric, unit string } {
	name := p.Metric
	if name == "" {
		name = "time"
	}
	return []struct{ field, metric, unit string }{
		{"mean", name, "ns"}, {"best", name + ".best", "ns"}, {"worst", name + ".worst", "ns"},
		{"std", name + ".std", "ns"}, {"runs", name + ".runs", ""},
	}
}

// Series are the timings of the benchmarks, in seconds: for each case the mean under the name of the
// metric, and beside it its best, worst, std and the number of runs that the stopping rule needed; and where all
// benchmarks came to their end the score that the server ranks by.
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
			v, unit := Seconds(v, t.unit)
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

// spec names a case as the runner does, or by its number.
func (p *Popcorn) spec(kind string, index int) string {
	if s := p.values[fmt.Sprintf("%s.%d.spec", kind, index)]; s != "" {
		return s
	}
	return fmt.Sprintf("%s %d", kind, index)
}

// Failure is the first case that failed, with its error, or "".
func (p *Popcorn) Failure() string {
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

// Overflows reports whether more was sent than a pipe holds that nobody reads.
func (p *Popcorn) Overflows() bool { return p.bytes > pipeHolds }

// Warnings tells of lines that were not understood or not kept.
func (p *Popcorn) Warnings() []string {
	var out []string
	if p.bad > 0 {
		out = append(out, fmt.Sprintf("%d malformed popcorn lines, such as %q", p.bad, p.first))
	}
	if p.lost {
		out = append(out, fmt.Sprintf("the process sent more than %d keys; the others were left out", maxKeys))
	}
	if p.Overflows() {
		out = append(out, fmt.Sprintf("the process sent more than the %d KiB on POPCORN_FD that a pipe holds, which the server reads when it has ended: it would wait there until its limit, exit %d", pipeHolds>>10, ExitTimeout))
	}
	return out
}

// score is what KernelBot ranks by, in seconds, from the means of all benchmarks, of which there is one at
// least: the last of them, their mean or their geometric mean.
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
