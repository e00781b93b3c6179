package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems bounds how many problems of one file are shown at once.
const maxProblems = 10

// ConfigError is everything that is wrong with one configuration file, in the
// order of its lines. Its text is one line per problem, as "file:line: key: why".
type ConfigError struct {
	File     string
	Problems []ConfigProblem
}

// ConfigProblem is one broken rule.
type ConfigProblem struct {
	Line int    // from 1
	Key  string // as "build.limit"; "" where the file itself is wrong
	Text string
}

// Error implements error.
func (e *ConfigError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i == maxProblems {
			fmt.Fprintf(&b, "\n%s: and %d more", e.File, len(e.Problems)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d: ", e.File, p.Line)
		if p.Key != "" {
			b.WriteString(p.Key + ": ")
		}
		b.WriteString(p.Text)
	}
	b.WriteString("\nhint: kbisect init, in an empty folder, writes a kbisect.toml with comments to compare with")
	return b.String()
}

func configProblem(file string, line int, text string) error {
	return &ConfigError{File: file, Problems: []ConfigProblem{{Line: line, Text: text}}}
}

// err returns what was collected, or nil.
func (r *configReader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b ConfigProblem) int {
		return cmp.Or(a.Line-b.Line, strings.Compare(a.Key, b.Key))
	})
	return &ConfigError{File: r.file, Problems: r.problems}
}

// oneOf lists choices for a person: `"a", "b" or "c"`.
func oneOf(choices []string) string {
	quoted := make([]string, len(choices))
	for i, c := range choices {
		quoted[i] = fmt.Sprintf("%q", c)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// didYouMean is ` did you mean "limit"?` where a choice is near, and else "".
func didYouMean(word string, choices []string) string {
	if near := nearest(word, choices); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// nearest returns the choice that is a likely slip of word, or "". A short word
// has to be nearer than a long one.
func nearest(word string, choices []string) string {
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

// plainWord takes away what people vary without noticing.
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
