package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxShown bounds how many mistakes of one file are shown at once.
const maxShown = 10

// Error is everything that is wrong with one configuration file, in the order of its lines. Its text has one line
// for each mistake, "file:line: key: why", and a hint.
type Error struct {
	File     string
	problems []problem
}

// problem is one broken rule.
type problem struct {
	line int    // from 1
	key  string // such as "build.limit"; "" if the file itself is wrong
	text string
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.problems {
		if i == maxShown {
			fmt.Fprintf(&b, "\n%s: and %d more", e.File, len(e.problems)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d: ", e.File, p.line)
		if p.key != "" {
			b.WriteString(p.key + ": ")
		}
		b.WriteString(p.text)
	}
	b.WriteString("\nhint: kbisect help config shows every key")
	return b.String()
}

// problemAt is an *Error about the file itself, on a line.
func problemAt(file string, line int, text string) error {
	return &Error{File: file, problems: []problem{{line: line, text: text}}}
}

// err returns the mistakes so far as an *Error, or nil. They are sorted by line, since tables are read in the order of
// the schema and the keys of a table in that of a map, which is random.
func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b problem) int {
		return cmp.Or(a.line-b.line, strings.Compare(a.key, b.key))
	})
	return &Error{File: r.file, problems: r.problems}
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
