package source

import (
	"strconv"
	"strings"
	"time"

	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
)

// Commit is one commit as its object says.
type Commit struct {
	ID      string   // full id in hex
	Parents []string // ids, none for a root or where it is cut
	Cut     bool     // the clone is shallow and ends here
	Tree    string   // id of the root tree
	Author  string
	Email   string
	When    time.Time // the author's date
	Subject string    // first paragraph of the message on one line
}

// describe completes a commit by its object. Odd authors and dates are taken as they come: old
// histories hold many.
func describe(n *commits.Node, data []byte) Commit {
	c := Commit{ID: n.ID, Tree: n.Tree, Parents: n.Parents}
	head, message, _ := strings.Cut(string(data), "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		if author, ok := strings.CutPrefix(line, "author "); ok {
			c.Author, c.Email, c.When = parseIdent(author)
		}
	}
	c.Subject = subject(message)
	return c
}

// parseIdent splits "A U Thor <author@example.com> 1700000000 +0100".
func parseIdent(s string) (name, email string, when time.Time) {
	rest := ""
	if i := strings.LastIndexByte(s, '>'); i >= 0 {
		s, rest = s[:i], strings.TrimSpace(s[i+1:])
	}
	name, email, _ = strings.Cut(s, "<")
	stamp, zone, _ := strings.Cut(rest, " ")
	if sec, err := strconv.ParseInt(stamp, 10, 64); err == nil {
		when = time.Unix(sec, 0).In(parseZone(zone))
	}
	return clean(strings.TrimSpace(name)), clean(strings.TrimSpace(email)), when
}

// parseZone reads a zone such as "+0100"; what is not one is UTC.
func parseZone(s string) *time.Location {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) != 5 || n < -2400 || n > 2400 {
		return time.UTC
	}
	return time.FixedZone(s, (n/100)*3600+(n%100)*60)
}

// subject is the first paragraph on one line, as git's %s.
func subject(message string) string {
	message = strings.TrimLeft(message, "\n")
	var lines []string
	for line := range strings.SplitSeq(message, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			break
		}
		lines = append(lines, line)
	}
	return clean(strings.Join(lines, " "))
}

// clean keeps a text of a commit, without the rest of the commit and without more of it than
// anybody reads.
func clean(s string) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), 4096)], "\uFFFD"))
}
