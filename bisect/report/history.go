package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

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
}

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
	Base    *string         `json:"base"` // commit that the ratios are of
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

// HistoryText writes a history for people; marks draws its lines, from low to high.
func HistoryText(w io.Writer, h History, marks []rune) error {
	p := &printer{w: w}
	for i, s := range h.Series {
		if i > 0 {
			p.f("\n")
		}
		p.series(s, marks)
	}
	if h.Shown < h.All {
		p.f("\n%d of %d measured commits shown; --limit shows more\n", h.Shown, h.All)
	}
	return p.err
}

// ways says how a series was measured: on what, by what command, with what caches.
func (s HistorySeries) ways() string {
	on := "no device watched"
	if len(s.Devices) > 0 {
		on = "on " + strings.Join(s.Devices, ", ")
	}
	words := on + "; " + strings.Join(s.Command, " ")
	if s.Caches != nil {
		words += "; " + *s.Caches + " caches"
	}
	return words
}

func (p *printer) series(s HistorySeries, marks []rune) {
	p.f("%s; %s\n", printable(s.name()), printable(s.ways()))
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  commit\tdate\tlaunches\tmedian\tratio\tsubject\n")
	for _, c := range s.Commits {
		fmt.Fprintf(t, "  %s\t%s\t%d\t%s\t%s\t%s\n", short(c.Commit), day(c.Date), c.Launches, c.value(s.Unit), ratioWord(c.Ratio), cut(printable(c.Subject), 50))
	}
	p.flush(t)
	if line, low, high := s.line(marks); line != "" {
		failed := ""
		if mark := failedMark(marks); strings.ContainsRune(line, mark) {
			failed = fmt.Sprintf(", %c failed", mark)
		}
		p.f("  %s  %s to %s, oldest first%s\n", line, quantity(low, s.Unit), quantity(high, s.Unit), failed)
	}
}

func (s HistorySeries) name() string {
	if s.Case != nil {
		return s.Metric + " of " + *s.Case
	}
	return s.Metric
}

// value is the median of a commit, or how its launches ended.
func (c HistoryCommit) value(unit string) string {
	var parts []string
	if c.Values.N > 0 {
		parts = append(parts, c.Values.median(unit))
	}
	for _, f := range c.Failures {
		s := string(f.Class)
		if f.Phase != nil && f.Class != bisect.BuildFailed {
			s += " in " + *f.Phase
		}
		parts = append(parts, fmt.Sprintf("%d %s", f.Launches, s))
	}
	if len(parts) == 0 {
		return "no value"
	}
	return strings.Join(parts, ", ")
}

func day(date string) string { return date[:min(10, len(date))] }

func ratioWord(n Number) string {
	if !n.Known() {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(n))
}

// failedMark stands for a commit none of whose launches gave a value, in the alphabet of the other marks.
func failedMark(marks []rune) rune {
	if len(marks) > 0 && marks[0] > 0x7f {
		return '×'
	}
	return 'x'
}

// line draws the medians of a series, a mark a commit; one that has nothing to show leaves a gap.
func (s HistorySeries) line(marks []rune) (line string, low, high Number) {
	low, high = Number(math.Inf(1)), Number(math.Inf(-1))
	known := 0
	for _, c := range s.Commits {
		if v := c.Values.Median; v.Known() {
			low, high = min(low, v), max(high, v)
			known++
		}
	}
	if known < 2 || len(marks) == 0 {
		return "", low, high
	}
	var out []rune
	for _, c := range s.Commits {
		v := c.Values.Median
		if !v.Known() {
			mark := ' '
			if len(c.Failures) > 0 {
				mark = failedMark(marks)
			}
			out = append(out, mark)
			continue
		}
		at := 0.0
		if high > low {
			at = float64((v - low) / (high - low))
		}
		out = append(out, marks[int(math.Round(at*float64(len(marks)-1)))])
	}
	return string(out), low, high
}
