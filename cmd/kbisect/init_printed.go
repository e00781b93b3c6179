package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// printedTime finds the line in which a C program prints a time, and returns the pattern that reads it, or
// "": `block_size %4d | time %.4f ms\n` becomes `block_size +(?P<block_size>\d+) \| time (?P<value>[-+0-9.eE]+)
// (?P<unit>ms)`. unit is set where the pattern has no group for it.
func printedTime(text []byte) (pattern, unit string) {
	inFormat, word := timeInFormat(), timeWord()
	for _, named := range []bool{true, false} { // a line that speaks of time comes first
		for _, m := range printfFormat().FindAllSubmatch(text, -1) {
			for line := range strings.SplitSeq(unquoted(string(m[1])), "\n") {
				at := inFormat.FindStringSubmatchIndex(line)
				if at == nil || named && !word.MatchString(line) {
					continue
				}
				return patternOf(line, at)
			}
		}
	}
	return "", ""
}

func printfFormat() *regexp.Regexp {
	return regexp.MustCompile(`\bf?printf\s*\(\s*(?:std(?:out|err)\s*,\s*)?("(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*)`)
}

func quotedPiece() *regexp.Regexp {
	return regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"`)
}

func conversion() *regexp.Regexp {
	return regexp.MustCompile(`%(?:%|[-+ #0]*(\d*)(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t)?([a-zA-Z]))`)
}

// the conversion, its width, and the unit
func timeInFormat() *regexp.Regexp {
	return regexp.MustCompile(`(%[-+ #0]*(\d*)(?:\.\d+)?l?[feEgG])[)\]]? *[(\[]?(ns|us|µs|ms|s|sec|secs|second|seconds|msec|usec|milliseconds|microseconds|nanoseconds)\b`)
}

func timeWord() *regexp.Regexp {
	return regexp.MustCompile(`(?i)time|elapsed|took|avg|average|mean|median|latency|duration`)
}

func labelBefore() *regexp.Regexp {
	return regexp.MustCompile(`([A-Za-z_]\w*)[ =:(\[]*$`)
}

func spaces() *regexp.Regexp {
	return regexp.MustCompile(` +`)
}

// unquoted joins the pieces of a C string; what Go does not know of its escapes stays as it is.
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
func patternOf(format string, at []int) (pattern, unit string) {
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
	return strings.TrimPrefix(p.needed, " +"), p.unit
}

// printed is a pattern in the making.
type printed struct {
	text   strings.Builder
	needed string // the pattern as far as it is needed, once the time is in it
	unit   string // of the time, where the pattern has no group for it
	names  []string
}

func (p *printed) plain(s string) {
	s = strings.ReplaceAll(regexp.QuoteMeta(s), "\t", `\s+`)
	p.text.WriteString(spaces().ReplaceAllString(s, " +"))
}

// time is the number that is read, what stands before its unit, and that.
func (p *printed) time(before, word string) {
	p.text.WriteString(`(?P<value>[-+0-9.eE]+)`)
	p.plain(before)
	if known, err := parseUnit(word); err == nil && known.Dimension == "time" {
		p.text.WriteString("(?P<unit>" + word + ")")
	} else {
		p.text.WriteString(word)
		p.unit = timeUnit(word)
	}
	p.needed = p.text.String()
}

// other is what another conversion prints, of which a whole number may have a name.
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
	default:
		p.text.WriteString(`\S+`)
	}
}

// timeUnit is the unit of a long word.
func timeUnit(word string) string {
	switch word[:min(2, len(word))] {
	case "ms", "mi":
		if strings.HasPrefix(word, "mic") {
			return "us"
		}
		return "ms"
	case "us":
		return "us"
	case "na":
		return "ns"
	}
	return "s"
}
