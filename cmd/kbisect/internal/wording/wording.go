// Package wording has the words that only a terminal shows: durations, the first line of an error, "did you mean". It
// knows nothing of searches.
package wording

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xrash/smetrics"
)

// DidYouMean is `; did you mean "limit"?` where a choice is near word, else "".
func DidYouMean(word string, choices []string) string {
	if near := Nearest(word, choices); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Nearest returns the choice of which word is probably a misspelling, or "".
func Nearest(word string, choices []string) string {
	best, bestLikeness := "", 0.85 // at this likeness, "hist" is still taken for history, but "wall" not for fall
	for _, c := range choices {
		if l := likeness(plainWord(word), plainWord(c)); l > bestLikeness {
			best, bestLikeness = c, l
		}
	}
	return best
}

// likeness is that of Jaro and Winkler, with their constants, from 0 to 1. It sees little in "rnu" and "run", so that two
// swapped letters count as much as one that is missing from a long word.
func likeness(a, b string) float64 {
	letters := func(s string) []byte { return slices.Sorted(slices.Values([]byte(s))) }
	if n, err := smetrics.Hamming(a, b); err == nil && n == 2 && slices.Equal(letters(a), letters(b)) {
		return 0.95
	}
	return smetrics.JaroWinkler(a, b, 0.7, 4)
}

// Headline is the first line of a text.
func Headline(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Span is a duration rounded for people: "4.2s", "1m30s".
func Span(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// plainWord drops the differences that users do not notice: case and separators.
func plainWord(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}
