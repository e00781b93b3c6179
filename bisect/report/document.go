// Package report holds what a command came to, as facts: each result is a [Document], which is the JSON of the
// contract when it is marshalled and is read back only from the store. [NewSearch] makes that of a search from a
// finding and the [Ledger] of its launches; the documents of the other commands are filled by who launched.
//
// What people read is made from a document by package page, what CI systems read by package ci. This package must know
// neither; of words it holds only the sentences that are keys of a document: headline, verdict, summary.
//
// In all documents times are in seconds and commits are full ids. A ratio is new over old, and so are the bounds of
// its interval; a probability goes from 0 to 1; a share of 1 is all of the difference between the ends. Keys are part
// of the contract: one that does not apply is null or an empty list, never missing.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Document is what a command came to: a [*Search], a [*Comparison], a [*Gate], a [*Measurement], an [*Explanation] or
// a [*History]. The unexported methods are what [Complete] and [Read] need; other packages tell documents apart by
// their type.
type Document interface {
	schema() string
	facts() *Facts
	about() subject
	next(l Ledger) []Command
}

// Read reads a document that the store keeps, by its schema. Its error names the session.
func Read(data []byte, session string) (Document, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("the finding of session %s: %w", session, err)
	}
	for _, d := range []Document{&Search{}, &Comparison{}, &Gate{}, &Measurement{}, &Explanation{}, &History{}} {
		if d.schema() != head.Schema {
			continue
		}
		if err := json.Unmarshal(data, d); err != nil {
			return nil, fmt.Errorf("the finding of session %s: %w", session, err)
		}
		return d, nil
	}
	return nil, fmt.Errorf("the finding of session %s: unknown schema %q", session, head.Schema)
}

// WriteJSON writes a document, or another value of a report, indented and with a final line feed. What could drive a
// terminal is escaped. The error is that of marshalling or of w.
func WriteJSON(w io.Writer, document any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(document); err != nil {
		return err
	}
	_, err := w.Write(words.JSON(text.Bytes()))
	return err
}

// Number is null in JSON when it is not known.
type Number = bisect.Number

// Unknown is the number that is not known.
func Unknown() Number { return bisect.Unknown() }

// Summary describes the launches of one candidate, one number a launch.
type Summary = compare.Summary

// Estimate is a number with its interval.
type Estimate struct {
	Value Number `json:"value"`
	Low   Number `json:"low"`
	High  Number `json:"high"`
}

// CommitInfo is what a reader wants to know of a commit. Of one that the repository no longer holds, only the ID is
// known.
type CommitInfo struct {
	ID, Subject, Author, Email string
	When                       time.Time
	Files                      []string // changed against the first parent
}

// author is a name with its address, as git writes it.
func (c CommitInfo) author() string {
	if c.Email == "" {
		return c.Author
	}
	return c.Author + " <" + c.Email + ">"
}

// date is in RFC 3339 with the offset of the author; "" where it is not known.
func (c CommitInfo) date() string {
	if c.When.IsZero() {
		return ""
	}
	return c.When.Format("2006-01-02T15:04:05-07:00")
}

// Candidate is one side of a comparison, or what was measured, with how many of its launches count.
type Candidate struct {
	Revision string     `json:"revision"` // as it was asked for
	Commit   string     `json:"commit"`
	Subject  string     `json:"subject"`
	Author   string     `json:"author"`
	Date     string     `json:"date"`
	Launches int        `json:"launches"`
	Counted  int        `json:"counted"`
	WarmUps  int        `json:"warm_ups"`
	LeftOut  []Excluded `json:"left_out"`
	Marked   []Excluded `json:"marked"` // that count in spite of something
	Failure  *Failure   `json:"failure"`
}

// Candidate is a commit as a side of a comparison; revision is how it was asked for.
func (c CommitInfo) Candidate(revision string) Candidate {
	return Candidate{Revision: revision, Commit: c.ID, Subject: c.Subject, Author: c.author(), Date: c.date(), LeftOut: []Excluded{}, Marked: []Excluded{}}
}

// Excluded is a number of launches with the reason they share.
type Excluded struct {
	Why      string `json:"why"`
	Launches int    `json:"launches"`
}

// Failure is how a launch ended that did not end well.
type Failure struct {
	Class bisect.Class `json:"class"`
	Phase *string      `json:"phase"`
	Why   string       `json:"why"`
}

// NewFailure puts an outcome that did not end well into a report; nil, none, stays nil.
func NewFailure(o *bisect.Outcome) *Failure {
	if o == nil {
		return nil
	}
	return &Failure{o.Class, text(o.Phase), o.Why}
}

// Table is a table of a document, in words. Its cells are made where the figures are known, so that it reads the same
// in every format.
type Table struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Notes   []string   `json:"notes"`
	Changed []int      `json:"changed,omitempty"` // rows that differ by more than noise

	Values [][2]Number `json:"values,omitempty"` // the two figures of a row, in one unit; null where they are not numbers
}

// text is null for an empty string.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// ErrorText is an error in words, null for none.
func ErrorText(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}

// Text is "" for null.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// number names a metric with its case.
func number(metric string, one *string) string {
	return bisect.Effect{Metric: metric, Case: Text(one)}.Name()
}
