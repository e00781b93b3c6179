package detect

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// timeLine is a line with a time or a rate that a program prints, and the pattern that reads it.
type timeLine struct {
	Name    string // of the metric
	pattern string
	rank    int
	line    string
}

// Quoted is the pattern as a TOML string, without escapes where possible.
func (l timeLine) Quoted() string {
	if strings.Contains(l.pattern, "'") {
		return tomlString(l.pattern)
	}
	return "'" + l.pattern + "'"
}

// Printed finds the line in the output of a program that holds the likeliest time or rate.
func Printed(output string) (line string, ok bool) {
	all := timesIn(output)
	if len(all) == 0 {
		return "", false
	}
	return all[0].line, true
}

// timesIn finds the lines of an output that hold a time or a rate: `block_size 128 | time 0.12 ms` is read by
// `block_size +(?P<block_size>\d+) +\| +time +(?P<value>[-+0-9.eE]+) +(?P<unit>ms)`. Times of kernels come first, then
// those of averages, then rates; what allocations, copies and the processor take comes last, of rank 0.
func timesIn(output string) (all []timeLine) {
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); len(line) > 500 {
			continue
		}
		found := timeLine{Name: "time", line: line}
		at := timeInLine().FindStringSubmatchIndex(line)
		if at != nil {
			found.rank = timeRank(line, line[:at[2]])
		} else if at = rateIn(line); at != nil {
			found.Name, found.rank = "rate", 1
			if word := rateWord().FindString(line[:at[2]]); word != "" {
				found.Name = strings.ToLower(word)
			}
		}
		if at == nil {
			continue
		}
		found.pattern = patternOf(line, at[2:])
		if !slices.ContainsFunc(all, func(l timeLine) bool { return l.pattern == found.pattern }) {
			all = append(all, found)
		}
	}
	slices.SortStableFunc(all, func(a, b timeLine) int { return cmp.Compare(b.rank, a.rank) })
	return all
}

// rateIn finds the first number of a line whose unit is work in a time.
func rateIn(line string) []int {
	for _, at := range rateInLine().FindAllStringSubmatchIndex(line, -1) {
		u, known := metric.ParseUnit(line[at[4]:at[5]])
		if known && u.Better == metric.Higher && strings.Contains(u.Base, "/") {
			return at
		}
	}
	return nil
}

// A number, what stands between it and its unit, and the unit.
const numberBefore = `(?:^|[^\w.])(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)[)\]]? *[(\[]?`

var (
	timeInLine   = lazy.Pattern(numberBefore + `(ns|us|µs|ms|s|sec|secs|second|seconds|msec|usec|milliseconds|microseconds|nanoseconds)\b`)
	rateInLine   = lazy.Pattern(numberBefore + `([A-Za-z]+(?:/[A-Za-z]+)?)`)
	numberInLine = lazy.Pattern(`\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b`) // no part of a word
	labelBefore  = lazy.Pattern(`([A-Za-z_]\w*)[ =:(\[]*$`)
	spaces       = lazy.Pattern(` +`)
)

// What the words of a line say of its time.
var (
	averageTime = lazy.Pattern(`(?i)\b(avg|average|mean|median|per)\b`)
	kernelTime  = lazy.Pattern(`(?i)kernel|execution|\bgpu\b|\bdevice\b`)
	otherTime   = lazy.Pattern(`(?i)\b(allocat\w*|malloc|(mem)?cop(y|ies|ying)|memcpy|transfer\w*|[hd]2[dh]|host to device|device to host|init\w*|set-?up|cpu|host|verif\w*|reference|load(ing)?|compil\w*)\b`)
	timeWord    = lazy.Pattern(`(?i)time|elapsed|took|avg|average|mean|median|latency|duration`)
	rateWord    = lazy.Pattern(`(?i)\b(throughput|bandwidth|rate|speed|performance|perf|score)\b`)
)

// timeRank says how likely a line is the time of a kernel, by its words; label is the
// part before the number.
func timeRank(line, label string) int {
	switch {
	case otherTime().MatchString(label):
		return 0
	case kernelTime().MatchString(label):
		return 4
	case averageTime().MatchString(label):
		return 3
	case timeWord().MatchString(line):
		return 2
	}
	return 1
}

// patternOf turns a line into a pattern: at are the places of the number that is read and of its unit. Whole numbers
// with a name before them tell cases apart; the pattern ends with the unit, or the last of them.
func patternOf(line string, at []int) string {
	taken := []string{"value", "unit", "of", "x"} // or no name
	var text strings.Builder
	plain := func(s string) {
		text.WriteString(spaces().ReplaceAllString(strings.ReplaceAll(regexp.QuoteMeta(s), "\t", `\s+`), " +"))
	}
	pos, needed := 0, ""
	for _, n := range append(numberInLine().FindAllStringIndex(line, -1), []int{len(line), len(line)}) {
		if needed == "" && n[1] > at[0] {
			plain(line[pos:at[0]])
			text.WriteString(`(?P<value>[-+0-9.eE]+)`)
			plain(line[at[1]:at[2]])
			text.WriteString("(?P<unit>" + line[at[2]:at[3]] + ")")
			needed, pos = text.String(), at[3]
		}
		if n[0] < pos || n[0] == n[1] {
			continue
		}
		before := line[pos:n[0]]
		plain(before)
		pos = n[1]
		switch m := labelBefore().FindStringSubmatch(before); {
		case strings.ContainsAny(line[n[0]:n[1]], ".eE"):
			text.WriteString(`\S+`)
		case m != nil && !slices.Contains(taken, m[1]):
			taken = append(taken, m[1])
			text.WriteString("(?P<" + m[1] + `>\d+)`)
			if needed != "" {
				needed = text.String()
			}
		default:
			text.WriteString(`-?\d+`)
		}
	}
	return needed
}
