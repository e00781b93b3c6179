// Package wording has the words that only a terminal shows: durations, the first line of an error, "did you mean". It
// knows nothing of searches.
package wording

import (
	"fmt"
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
		// The last two numbers are those of Jaro and Winkler.
		if l := smetrics.JaroWinkler(plainWord(word), plainWord(c), 0.7, 4); l > bestLikeness {
			best, bestLikeness = c, l
		}
	}
	return best
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
