package detect

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/kernels/lazy"
)

var averageTime = lazy.Pattern(`(?i)\b(avg|average|mean|median|per)\b`)

var kernelTime = lazy.Pattern(`(?i)kernel|execution|\bgpu\b|\bdevice\b`)

// otherTime matches labels of times that are not of a kernel.
var otherTime = lazy.Pattern(`(?i)\b(allocat\w*|malloc|(mem)?cop(y|ies|ying)|memcpy|transfer\w*|[hd]2[dh]|host to device|device to host|init\w*|set-?up|cpu|host|verif\w*|reference|load(ing)?|compil\w*)\b`)

// timeLine is a line with a time or a rate that a program prints: the pattern that reads it.
type timeLine struct {
	pattern string
	rank    int
	Name    string // of the metric
	unit    string // of a rate, where it is not known whether higher or lower is better; else ""
	format  string // as it stands in the program
}

// printedTimes finds the lines in which a C program prints a time or a rate: `block_size %4d | time %.4f ms\n` becomes
// `block_size +(?P<block_size>\d+) \| time (?P<value>[-+0-9.eE]+) (?P<unit>ms)`. Times of kernels come first,
// then those of averages, then rates; what allocations, copies and the processor take is of rank 0.
func printedTimes(text []byte) (all []timeLine) {
	var questions []timeLine
	for _, m := range printfFormat().FindAllSubmatchIndex(text, -1) {
		before := text[bytes.LastIndexByte(text[:m[0]], '\n')+1 : m[0]]
		if bytes.Contains(before, []byte("//")) {
			continue
		}
		for line := range strings.SplitSeq(unquoted(string(text[m[2]:m[3]])), "\n") {
			found, ok := timeLine{Name: "time", format: strings.TrimSpace(line)}, true
			at := timeInFormat().FindStringSubmatchIndex(line)
			if at != nil {
				found.rank = timeRank(line, line[:at[0]])
			} else if at = rateInFormat().FindStringSubmatchIndex(line); at != nil {
				found.rank = 1
				found.Name, found.unit, ok = rateOf(line[:at[0]], line[at[6]:at[7]])
			}
			if at == nil || !ok {
				continue
			}
			found.pattern = patternOf(line, at)
			switch {
			case found.pattern == "" || slices.ContainsFunc(all, func(l timeLine) bool { return l.pattern == found.pattern }):
			case found.unit != "":
				questions = append(questions, found)
			default:
				all = append(all, found)
			}
		}
	}
	all = append(all, questions...)
	slices.SortStableFunc(all, func(a, b timeLine) int { return cmp.Compare(b.rank, a.rank) })
	return all
}

// Printed finds the line in the output of a program that holds the likeliest time or rate.
func Printed(output string) (line string, ok bool) {
	all := timesIn(output)
	if len(all) == 0 {
		return "", false
	}
	return all[0].format, true
}

// timesIn finds the lines of an output that hold a time or a rate, by the format that could have printed them.
func timesIn(output string) (all []timeLine) {
	var source strings.Builder
	lines := map[string]string{} // by format
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if len(line) > 500 || !numberInLine().MatchString(line) {
			continue
		}
		at := numberUnit().FindStringSubmatchIndex(line)
		format := strings.ReplaceAll(line, "%", "%%")
		if at != nil {
			format = conversionsOf(line[:at[2]]) + "%f" + conversionsOf(line[at[3]:])
		}
		quoted := strconv.Quote(format)
		lines[unquoted(quoted)] = line
		source.WriteString("printf(" + quoted + ");\n")
	}
	all = printedTimes([]byte(source.String()))
	for i := range all {
		all[i].format = lines[all[i].format]
	}
	return all
}

// conversionsOf is a text of an output with conversions in place of its numbers.
func conversionsOf(text string) string {
	return numberInLine().ReplaceAllStringFunc(strings.ReplaceAll(text, "%", "%%"), func(n string) string {
		if strings.ContainsAny(n, ".eE") {
			return "%f"
		}
		return "%d"
	})
}

// numberInLine matches a number that is no part of a word.
var numberInLine = lazy.Pattern(`\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b`)

// numberUnit matches a number before the unit of a time or a rate.
var numberUnit = lazy.Pattern(`(?:^|[^\w.])(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?) *[(\[]?(?:ns|us|µs|ms|s|sec|secs|seconds?|msec|usec|milliseconds|microseconds|nanoseconds|[kKMGTP]?i?(?:B|FLOPS?|FLOP|iter|it|tok|tokens|images|samples|fps)(?:/s|ps)?)\b`)

// rateOf names a rate by the words before it; unknown is its unit where that does not say whether higher or lower is
// better. A number that neither its unit nor its label makes a rate is none.
func rateOf(label, unit string) (name, unknown string, ok bool) {
	name = "rate"
	m := rateWord().FindString(label)
	if m != "" {
		name = strings.ToLower(m)
	}
	u, known := metric.ParseUnit(unit)
	switch {
	case known && u.Better == metric.Higher:
		return name, "", true
	case known && u.Better == metric.Lower:
		return "", "", false
	}
	return name, unit, m != ""
}

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

var printfFormat = lazy.Pattern(`\bf?printf\s*\(\s*(?:std(?:out|err)\s*,\s*)?("(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*)`)

var quotedPiece = lazy.Pattern(`"(?:[^"\\\n]|\\.)*"`)

var conversion = lazy.Pattern(`%(?:%|[-+ #0]*(\d*)(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t)?([a-zA-Z]))`)

// the conversion, its width, and the unit
var timeInFormat = lazy.Pattern(`(%[-+ #0]*(\d*)(?:\.\d+)?l?[feEgG])[)\]]? *[(\[]?(ns|us|µs|ms|s|sec|secs|second|seconds|msec|usec|milliseconds|microseconds|nanoseconds)\b`)

// the same of a rate
var rateInFormat = lazy.Pattern(`(%[-+ #0]*(\d*)(?:\.\d+)?l?[feEgG])[)\]]? *[(\[]?([A-Za-z][A-Za-z]*(?:/[A-Za-z]+)?)`)

var rateWord = lazy.Pattern(`(?i)\b(throughput|bandwidth|rate|speed|performance|perf|score)\b`)

var timeWord = lazy.Pattern(`(?i)time|elapsed|took|avg|average|mean|median|latency|duration`)

var labelBefore = lazy.Pattern(`([A-Za-z_]\w*)[ =:(\[]*$`)

var spaces = lazy.Pattern(` +`)

// unquoted joins the pieces of a C string. Escapes that Go does not know stay.
func unquoted(pieces string) string {
	var b strings.Builder
	for _, q := range quotedPiece().FindAllString(pieces, -1) {
		if s, err := strconv.Unquote(q); err == nil {
			b.WriteString(s)
		} else {
			b.WriteString(strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(strings.Trim(q, `"`)))
		}
	}
	return b.String()
}

// patternOf turns a format into a pattern: at are the places of timeInFormat in it. Whole numbers with a
// name before them tell cases apart.
func patternOf(format string, at []int) string {
	p := printed{names: []string{"value", "unit", "of"}} // taken, or no name
	pos := 0
	for _, c := range conversion().FindAllStringSubmatchIndex(format, -1) {
		before, kind := format[pos:c[0]], ""
		if c[4] >= 0 {
			kind = format[c[4]:c[5]]
		}
		p.plain(before)
		if c[2] >= 0 && c[3] > c[2] && !strings.HasSuffix(before, " ") {
			p.text.WriteString(" *") // it is padded
		}
		if pos = c[1]; c[0] == at[2] {
			p.time(format[c[1]:at[6]], format[at[6]:at[7]])
			pos = at[7]
			continue
		}
		p.other(kind, before)
	}
	return strings.TrimPrefix(p.needed, " +")
}

// printed builds a pattern.
type printed struct {
	text   strings.Builder
	needed string // the pattern as far as it is needed, once the time is in it
	names  []string
}

// plain adds text of a format that stands for itself; spaces in it match any number of them.
func (p *printed) plain(s string) {
	s = strings.ReplaceAll(regexp.QuoteMeta(s), "\t", `\s+`)
	p.text.WriteString(spaces().ReplaceAllString(s, " +"))
}

// time adds the number that is read, the text before its unit, and the unit.
func (p *printed) time(before, word string) {
	p.text.WriteString(`(?P<value>[-+0-9.eE]+)`)
	p.plain(before)
	p.text.WriteString("(?P<unit>" + word + ")")
	p.needed = p.text.String()
}

// other adds what another conversion prints. A whole number with a name before it
// becomes a group.
func (p *printed) other(kind, before string) {
	name := ""
	if m := labelBefore().FindStringSubmatch(before); m != nil {
		name = m[1]
	}
	switch whole := kind != "" && strings.Contains("diu", kind); {
	case kind == "":
		p.text.WriteString("%")
	case whole && name != "" && !slices.Contains(p.names, name):
		p.names = append(p.names, name)
		p.text.WriteString("(?P<" + name + `>\d+)`)
		if p.needed != "" {
			p.needed = p.text.String()
		}
	case whole:
		p.text.WriteString(`-?\d+`)
	case kind == "s": // a name, which may have spaces and be padded
		p.text.WriteString(`.+?`)
	default:
		p.text.WriteString(`\S+`)
	}
}

// Quoted is the pattern as a TOML string, without escapes where possible.
func (l timeLine) Quoted() string {
	if strings.Contains(l.pattern, "'") {
		return tomlString(l.pattern)
	}
	return "'" + l.pattern + "'"
}
