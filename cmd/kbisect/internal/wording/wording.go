// Package wording puts values into words for a terminal: short commit ids, counts
// with plurals, durations, "did you mean". It knows nothing of searches.
package wording

import (
	"fmt"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect/report/words"
)

// DidYouMean is `; did you mean "limit"?` where a choice is near word, else "".
func DidYouMean(word string, choices []string) string {
	if near := Nearest(word, choices); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Nearest returns the choice of which word is probably a misspelling, or "". A short
// word has to be nearer than a long one.
func Nearest(word string, choices []string) string {
	if len(word) > 64 {
		return ""
	}
	best, bestDist := "", 1+max(1, min(3, len(word)/3))
	for _, c := range choices {
		if d := editDistance(plainWord(word), plainWord(c)); d < bestDist {
			best, bestDist = c, d
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

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func editDistance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}

// Short abbreviates a commit id, for packages that may not import those of reports.
func Short(id string) string { return words.Short(id) }

// Shell writes words as a POSIX shell reads them, likewise.
func Shell(argv []string) string { return words.Shell(argv) }
