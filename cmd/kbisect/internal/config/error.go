package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems bounds how many problems of one file are shown at once.
const maxProblems = 10

// Error is everything that is wrong with one configuration file, in the
// order of its lines. Its text is one line per problem, as "file:line: key: why".
type Error struct {
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
func (e *Error) Error() string {
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
	return &Error{File: file, Problems: []ConfigProblem{{Line: line, Text: text}}}
}

// err returns what was collected, or nil.
func (r *configReader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b ConfigProblem) int {
		return cmp.Or(a.Line-b.Line, strings.Compare(a.Key, b.Key))
	})
	return &Error{File: r.file, Problems: r.problems}
}

// OneOf lists choices for a person: `"a", "b" or "c"`.
func OneOf(choices []string) string {
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
