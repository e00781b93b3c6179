// Package hint carries what a user can do about an error beside the error itself.
// On a terminal both are one text, "what failed\nhint: what to do"; [Split] takes
// them apart where they are shown in different places, without reading the text.
package hint

import (
	"errors"
	"strings"
)

// separator stands between an error and its hint.
const separator = "\nhint: "

// hinted is an error with a hint.
type hinted struct {
	error
	hint string
}

// Add returns err with a hint: one sentence without a full stop, such as a
// command to type.
func Add(err error, hint string) error { return &hinted{err, hint} }

func (e *hinted) Error() string { return e.error.Error() + separator + e.hint }

func (e *hinted) Unwrap() error { return e.error }

// Hint implements the interface that [Split] looks for.
func (e *hinted) Hint() string { return e.hint }

// Split returns the text of an error without its hint, and the hint of the first
// error in its chain that has a method Hint; "" where none has.
func Split(err error) (text, hint string) {
	var h interface{ Hint() string }
	if !errors.As(err, &h) {
		return err.Error(), ""
	}
	return strings.TrimSuffix(err.Error(), separator+h.Hint()), h.Hint()
}
