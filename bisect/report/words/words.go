// Package words writes numbers, names and plurals the way kbisect shows them everywhere: a number first, with
// four digits and the unit in which it is read best, a ratio as a change in percent with its interval.
//
// [Printable] and [Writer] keep what strangers wrote from driving a terminal. The package must know no document and no
// page; both use it, so that a value reads the same in text, Markdown, HTML and in the sentences of a JSON document.
// Numbers that are not known (NaN, infinite) are written as "-".
package words

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Cut shortens a text to at most n characters, the last of which then is an ellipsis.
func Cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Wrapped is a text in lines of at most width characters, at most `most` of them, the last one cut; 0 or less is no
// limit. It breaks at spaces, or inside a word that is longer than a line.
func Wrapped(text string, width, most int) (out []string) {
	if width <= 0 {
		return []string{text}
	}
	width = max(width, 10)
	for utf8.RuneCountInString(text) > width && (most <= 0 || len(out) < most-1) {
		line := string([]rune(text)[:width+1])
		at := strings.LastIndex(line, " ")
		if at <= 0 {
			at = len(string([]rune(text)[:width]))
		}
		out, text = append(out, strings.TrimRight(text[:at], " ")), strings.TrimLeft(text[at:], " ")
	}
	return append(out, Cut(text, width))
}

// Lines makes each line of a text printable and drops the empty ones; tabs stay.
func Lines(s string) string {
	var out []string
	for _, line := range strings.Split(s, "\n") {
		if line = strings.TrimRight(Tabbed(line), " "); line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// Tabbed is Printable for a line of code, of which the tabs stay.
func Tabbed(s string) string {
	parts := strings.Split(s, "\t")
	for i := range parts {
		parts[i] = Printable(parts[i])
	}
	return strings.Join(parts, "\t")
}

// Count is a number with its noun, which is given in the singular and must be regular (except "series").
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, plural(noun))
}

// plural is the plural of a noun as Count takes it.
func plural(noun string) string {
	switch {
	case noun == "series":
		return noun
	case strings.HasSuffix(noun, "ch"):
		return noun + "es"
	}
	return noun + "s"
}

// All begins a sentence about all of n things: "The launch", "Both launches", "All 5 launches".
func All(n int, noun string) string {
	switch n {
	case 1:
		return "The " + noun
	case 2:
		return "Both " + plural(noun)
	}
	return "All " + Count(n, noun)
}

// Listed names the first of a list and counts the rest.
func Listed(all []string, most int) string {
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// Seconds is a measured duration: 2.31 s, 3m20s or, of less than a tenth of a second, 32.1 ms.
func Seconds(s float64) string {
	if s > 0 && s < 0.1 {
		return Brief(s)
	}
	if s >= 59.995 { // which would read 60.00 s
		return time.Duration(s * float64(time.Second)).Round(time.Second).String()
	}
	return fmt.Sprintf("%.2f s", s)
}

// Limit is a duration that was chosen, such as 3 s or 180 s.
func Limit(s float64) string {
	if s >= 600 {
		text := time.Duration(s * float64(time.Second)).String()
		if whole, ok := strings.CutSuffix(text, "m0s"); ok {
			text = whole + "m"
		}
		return text
	}
	return fmt.Sprintf("%.4g s", s)
}

// Brief is a duration of which only the magnitude matters, such as 32.1 ms.
func Brief(s float64) string {
	if s >= 60 {
		return time.Duration(s * float64(time.Second)).Round(time.Second).String()
	}
	scale, unit := Prefixed(s, "s")
	return fmt.Sprintf("%.3g %s", s*scale, unit)
}

// Percent is a fraction without a sign, in percent: a share, a spread, a bound.
func Percent(f float64) string {
	switch {
	case !known(f):
		return "-"
	case f >= 0.1:
		return fmt.Sprintf("%.0f %%", 100*f)
	}
	return fmt.Sprintf("%.2g %%", 100*f)
}

// Confidence is a probability in percent. It never reads 100 %, since it rests on trials.
func Confidence(p float64) string { return fmt.Sprintf("%.4g %%", min(100*p, 99.99)) }

// Odds are those of a log-likelihood ratio (natural logarithm), cut off at a million to one.
func Odds(log float64) string {
	const most = 1e6
	odds := math.Min(math.Exp(math.Abs(log)), most)
	if log < 0 {
		return fmt.Sprintf("1 : %.0f", odds)
	}
	return fmt.Sprintf("%.0f : 1", odds)
}

// Change is a ratio as people read it: "+4.9 %" or, from twofold on, "2.92 times".
func Change(ratio float64) string {
	if !known(ratio) {
		return "-"
	}
	return change(ratio, ratio) + unitOf(ratio)
}

// Interval is a ratio with its bounds, "+4.9 % (95 % CI +4.1 to +5.6 %)"; without bounds where they are unknown.
func Interval(ratio, low, high, confidence float64) string {
	if !known(ratio) || !known(low) || !known(high) || low <= 0 {
		return Change(ratio)
	}
	return fmt.Sprintf("%s (%.4g %% CI %s)", Change(ratio), 100*confidence, Between(ratio, low, high))
}

// Between are the bounds of a ratio, in the form that the ratio itself has.
func Between(ratio, low, high float64) string {
	return fmt.Sprintf("%s to %s%s", change(low, ratio), change(high, ratio), unitOf(ratio))
}

// change is a ratio in the form that `leading` has, so that a value and its bounds can be compared at a glance.
func change(ratio, leading float64) string {
	switch percent := 100 * (ratio - 1); {
	case leading >= 2 && ratio >= 999.5: // not as 1e+03
		return fmt.Sprintf("%.0f", ratio)
	case leading >= 2:
		return fmt.Sprintf("%.3g", ratio)
	case math.Abs(leading-1) < 0.01:
		return fmt.Sprintf("%+.2f", percent)
	default:
		return fmt.Sprintf("%+.1f", percent)
	}
}

func unitOf(ratio float64) string {
	if ratio >= 2 {
		return " times"
	}
	return " %"
}

// Better says which values of a number are better.
func Better(higher bool) string { return Direction(higher) + " is better" }

// Direction is Better for a column of that name.
func Direction(higher bool) string {
	if higher {
		return "higher"
	}
	return "lower"
}

// Quantity is a value in the unit in which it is read best; "-" where it is not known.
func Quantity(v float64, unit string) string {
	if !known(v) {
		return "-"
	}
	scale, name := Prefixed(v, unit)
	return Figure(v*scale) + Unit(name)
}

// Range is two values with one unit, that of the larger.
func Range(low, high float64, unit string) string {
	if !known(low) {
		return "-"
	}
	scale, name := Prefixed(high, unit)
	return fmt.Sprintf("%s to %s%s", Figure(low*scale), Figure(high*scale), Unit(name))
}

// Unit is a unit behind its number: nothing for a ratio or a count.
func Unit(unit string) string {
	switch unit {
	case "", "1":
		return ""
	case "us":
		return " µs"
	}
	return " " + unit
}

// Prefixed chooses the unit in which a value is read best, and the factor that converts to it. Only seconds, bytes,
// hertz and rates ("/s") get prefixes; other units stay as programs send them.
func Prefixed(v float64, unit string) (scale float64, name string) {
	type prefix struct {
		least, scale float64
		sign         string
	}
	table := []prefix{{1e12, 1e-12, "T"}, {1e9, 1e-9, "G"}, {1e6, 1e-6, "M"}, {1e4, 1e-3, "k"}, {0, 1, ""}}
	switch unit {
	case "s":
		table = []prefix{{1, 1, ""}, {1e-3, 1e3, "m"}, {1e-6, 1e6, "µ"}, {0, 1e9, "n"}}
	case "B", "Hz":
	default:
		if !strings.HasSuffix(unit, "/s") {
			return 1, unit
		}
	}
	for _, x := range table {
		if math.Abs(v) >= x.least {
			return x.scale, x.sign + unit
		}
	}
	return 1, unit
}

// Figure is a measured value with four digits.
func Figure(v float64) string {
	switch a := math.Abs(v); {
	case !known(v):
		return "-"
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a == 0:
		return "0"
	case a >= 0.001:
		// The exponent of the rounded value: 9.9996 is 10.00, and not 10.000.
		_, exponent, _ := strings.Cut(fmt.Sprintf("%.3e", a), "e")
		n, _ := strconv.Atoi(exponent)
		return fmt.Sprintf("%.*f", max(0, 3-n), v)
	}
	return fmt.Sprintf("%.3e", v)
}

// P is a probability of a test.
func P(p float64) string {
	switch {
	case !known(p):
		return "-"
	case p < 0.001:
		return fmt.Sprintf("%.1e", p)
	}
	return fmt.Sprintf("%.3f", p)
}

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Shell writes words so that a POSIX shell reads them back as they are. bash takes a word with an equals sign for an
// assignment, in which it expands a "~" behind "=" and ":", so these are quoted too.
func Shell(argv []string) string {
	var out []string
	for _, word := range argv {
		if word == "" || word[0] == '~' || strings.Contains(word, "=~") || strings.Contains(word, ":~") || strings.ContainsFunc(word, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,^~", r))
		}) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}
