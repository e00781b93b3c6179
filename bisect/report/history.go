package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// HistorySchema names the JSON document of a history and its version.
const HistorySchema = "kbisect.history/1"

// History is what has been measured, commit by commit, oldest first. Values of different devices, commands or
// caches stand in different series.
type History struct {
	Schema string          `json:"schema"`
	Series []HistorySeries `json:"series"`
	Shown  int             `json:"commits_shown"`
	All    int             `json:"commits_measured"`
	Facts
}

func (*History) schema() string { return HistorySchema }

// about implements Document: nothing was launched.
func (*History) about() subject { return subject{} }

// next implements Document.
func (*History) next(Ledger) []Command { return []Command{} }

// HistorySeries are the commits measured in one way.
type HistorySeries struct {
	Devices []string        `json:"devices"` // UUIDs; empty: none was watched
	Command []string        `json:"command"`
	Build   []string        `json:"build"`
	Caches  *string         `json:"caches"` // cold or warm, where the program uses caches
	Metric  string          `json:"metric"`
	Case    *string         `json:"case"` // null: all cases together
	Unit    string          `json:"unit"`
	Higher  bool            `json:"higher_is_better"`
	Better  string          `json:"better"` // lower, higher or unknown
	Base    *string         `json:"base"`   // commit that the ratios are of
	Commits []HistoryCommit `json:"commits"`
}

// HistoryCommit is one commit of a series.
type HistoryCommit struct {
	Commit   string     `json:"commit"`
	Subject  string     `json:"subject"`
	Date     string     `json:"date"`
	Launches int        `json:"launches"`
	Values   Summary    `json:"values"`
	Ratio    Number     `json:"ratio"` // of the median to that of the base
	Failures []Failures `json:"failures"`
}

// Failures are launches that ended in the same way.
type Failures struct {
	Class    bisect.Class `json:"class"`
	Phase    *string      `json:"phase"`
	Launches int          `json:"launches"`
}

// Name is the metric with its case.
func (s HistorySeries) Name() string { return number(s.Metric, s.Case) }

// Step is a commit at which a series moved.
type Step struct {
	At     int     // its place
	Change float64 // ratio
}

// leastStep is the smallest change, as a fraction, that counts as a step: launches of different days drift.
const leastStep = 0.01

// Steps are the commits at which the level changed. A commit is a step when its 95 % interval and the intervals of all
// commits since the last step have nothing in common, and the medians differ by more than leastStep. Commits without
// an interval are skipped.
func (s HistorySeries) Steps() (out []Step) {
	var level []float64
	low, high := Number(math.Inf(1)), Number(math.Inf(-1))
	for i, c := range s.Commits {
		v := c.Values
		if !v.Median.Known() || !v.Low.Known() || !v.High.Known() {
			continue
		}
		if len(level) > 0 {
			before := Median(level)
			if (v.Low > high || v.High < low) && before > 0 && math.Abs(float64(v.Median/before)-1) > leastStep {
				out = append(out, Step{i, float64(v.Median / before)})
				level, low, high = nil, Number(math.Inf(1)), Number(math.Inf(-1))
			}
		}
		level, low, high = append(level, float64(v.Median)), min(low, v.Low), max(high, v.High)
	}
	return out
}

// On says how a series was measured: on what, by what command, with what caches.
func (s HistorySeries) On() string {
	on := "no device watched"
	if len(s.Devices) > 0 {
		on = "on " + strings.Join(s.Devices, ", ")
	}
	on += "; " + strings.Join(s.Command, " ")
	if s.Caches != nil {
		on += "; " + *s.Caches + " caches"
	}
	return on
}

// Words are the median of a commit, or how its launches ended.
func (c HistoryCommit) Words(unit string) string {
	var parts []string
	if c.Values.N > 0 {
		parts = append(parts, c.Values.Words(unit))
	}
	for _, f := range c.Failures {
		s := string(f.Class)
		if f.Phase != nil && f.Class != bisect.BuildFailed {
			s += " in " + *f.Phase
		}
		parts = append(parts, fmt.Sprintf("%d %s", f.Launches, s))
	}
	return cmp.Or(strings.Join(parts, ", "), "no value")
}
