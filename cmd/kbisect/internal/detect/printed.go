package detect

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// timeLine is a line with a time or a rate that a program prints, and the regular expression that reads it.
type timeLine struct {
	Name    string // of the metric
	pattern string
	rank    int    // how likely it is the time of a kernel, 0 to 4; see timeRank
	line    string // as it was printed
}

// Quoted is the pattern as a TOML string, without escapes where possible.
func (l timeLine) Quoted() string {
	if strings.Contains(l.pattern, "'") {
		return tomlString(l.pattern)
	}
	return "'" + l.pattern + "'"
}

// Printed finds the line in a program's output that holds the likeliest time or rate.
func Printed(output string) (line string, ok bool) {
	all := timesIn(output)
	if len(all) == 0 {
		return "", false
	}
	return all[0].line, true
}

// timesIn finds the lines of an output that hold a time or a rate, likeliest first: `block_size 128 | time 0.12 ms`
// is read by `block_size +(?P<block_size>\d+) +\| +time +(?P<value>[-+0-9.eE]+) +(?P<unit>ms)`. Times of kernels
// come before averages, then other times, then rates; allocations, copies and processor times come last, with rank
// 0. Lines that the same pattern reads are listed once.
func timesIn(output string) (all []timeLine) {
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); len(line) > 500 || !utf8.ValidString(line) { // no pattern can hold the second
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

// rateIn finds the first number of a line whose unit is an amount per time, and returns its place as timeInLine
// does; nil if there is none.
func rateIn(line string) []int {
	for _, at := range rateInLine().FindAllStringSubmatchIndex(line, -1) {
		u, known := metric.ParseUnit(line[at[4]:at[5]])
		if known && u.Better == metric.Higher && strings.Contains(u.Base, "/") {
			return at
		}
	}
	return nil
}

// numberBefore matches a number and what may stand between it and its unit; the unit follows in the patterns.
const numberBefore = `(?:^|[^\w.])(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)[)\]]? *[(\[]?`

var (
	timeInLine   = lazy.Pattern(numberBefore + `(ns|us|µs|ms|s|sec|secs|second|seconds|msec|usec|milliseconds|microseconds|nanoseconds)\b`)
	rateInLine   = lazy.Pattern(numberBefore + `([A-Za-z]+(?:/[A-Za-z]+)?)`)
	numberInLine = lazy.Pattern(`\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b`) // not within a word
	labelBefore  = lazy.Pattern(`([A-Za-z_]\w*)[ =:(\[]*$`)
	spaces       = lazy.Pattern(` +`)
)

// Words in a line that say what its time is about.
var (
	averageTime = lazy.Pattern(`(?i)\b(avg|average|mean|median|per)\b`)
	kernelTime  = lazy.Pattern(`(?i)kernel|execution|\bgpu\b|\bdevice\b`)
	otherTime   = lazy.Pattern(`(?i)\b(allocat\w*|malloc|(mem)?cop(y|ies|ying)|memcpy|transfer\w*|[hd]2[dh]|host to device|device to host|init\w*|set-?up|cpu|host|verif\w*|reference|load(ing)?|compil\w*)\b`)
	timeWord    = lazy.Pattern(`(?i)time|elapsed|took|avg|average|mean|median|latency|duration`)
	rateWord    = lazy.Pattern(`(?i)\b(throughput|bandwidth|rate|speed|performance|perf|score)\b`)
)

// timeRank says how likely a line is the time of a kernel; label is the part before the number.
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

// patternOf turns a line into a regular expression. at are the byte offsets of the number that is read and of its
// unit (start, end, start, end). Whole numbers with a name before them become groups, whose values name the case; other
// numbers match any number. The pattern ends with the unit or with the last such group, since what follows may vary.
func patternOf(line string, at []int) string {
	taken := []string{"value", "unit", "of", "x"} // names that a group may not have
	var text strings.Builder
	plain := func(s string) {
		text.WriteString(spaces().ReplaceAllString(strings.ReplaceAll(regexp.QuoteMeta(s), "\t", `\s+`), " +"))
	}
	// pos is how far the line has been turned into text; needed is text up to the unit or to the last group after
	// it.
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
