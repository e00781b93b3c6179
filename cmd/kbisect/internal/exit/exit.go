// Package exit holds the exit codes of the contract and the error that carries one.
// Every other package returns such an error for what the user can correct ([Usage],
// [Usagef]) or for a result that is not success; main alone ends the process.
package exit

import (
	"context"
	"errors"
	"fmt"
)

// The exit codes of the contract.
const (
	OK           = 0
	Regression   = 1
	UsageError   = 2 // what the user gave is wrong
	Inconclusive = 3
	NoDifference = 4   // the two ends do not differ
	Machine      = 5   // this machine cannot do it, or its devices failed
	Internal     = 70  // a bug in kbisect
	Interrupted  = 130 // by a signal
	Unread       = 141 // the reader of the output has gone, as after | head
)

// Error is an error that ends the program with a code. A nil Err means that the
// output already says everything.
type Error struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Usage gives err the code for a mistake of the user; nil stays nil, and an interruption is not a mistake.
func Usage(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return With(UsageError, err)
}

// Usagef is [Usage] of a formatted error.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// With returns an [Error]; err may be nil.
func With(code int, err error) error { return &Error{code, err} }
