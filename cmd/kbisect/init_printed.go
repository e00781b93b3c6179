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
	for _, named := range []bool{true, false} { // a line that speaks of time comes first
		for _, m := range printfFormat().FindAllSubmatch(text, -1) {
			for line := range strings.SplitSeq(unquoted(string(m[1])), "\n") {
				at := timeInFormat().FindStringSubmatchIndex(line)
				if at == nil || named && !timeWord().MatchString(line) {
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
	var b strings.Builder
	end := 0                                 // of what has to be read
	pos := 0                                 // in format
	var cut string                           // the pattern as far as it is needed
	names := []string{"value", "unit", "of"} // taken, or no name
	plain := func(s string) {
		b.WriteString(spaces().ReplaceAllString(strings.ReplaceAll(regexp.QuoteMeta(s), "\t", `\s+`), " +"))
	}
	for _, c := range conversion().FindAllStringSubmatchIndex(format, -1) {
		if c[0] < pos {
			continue
		}
		before := format[pos:c[0]]
		plain(before)
		kind := ""
		if c[4] >= 0 {
			kind = format[c[4]:c[5]]
		}
		if c[2] >= 0 && c[3] > c[2] && !strings.HasSuffix(before, " ") {
			b.WriteString(" *") // it is padded
		}
		pos = c[1]
		switch {
		case c[0] == at[2]:
			b.WriteString(`(?P<value>[-+0-9.eE]+)`)
			plain(format[c[1]:at[6]])
			word := format[at[6]:at[7]]
			if known, err := parseUnit(word); err == nil && known.Dimension == "time" {
				b.WriteString("(?P<unit>" + word + ")")
			} else {
				b.WriteString(word)
				unit = timeUnit(word)
			}
			pos, cut = at[7], b.String()
			end = pos
		case kind == "":
			b.WriteString("%")
		case strings.Contains("diu", kind):
			m := labelBefore().FindStringSubmatch(before)
			if m == nil || slices.Contains(names, m[1]) {
				b.WriteString(`-?\d+`)
				continue
			}
			names = append(names, m[1])
			b.WriteString("(?P<" + m[1] + `>\d+)`)
			if end > 0 {
				cut = b.String()
			}
		case kind == "s":
			b.WriteString(`\S+`)
		default:
			b.WriteString(`\S+`)
		}
	}
	return strings.TrimPrefix(cut, " +"), unit
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
