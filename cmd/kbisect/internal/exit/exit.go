// Package exit holds the exit codes of the contract and the error that carries one.
// Every other package returns such an error for what the user can correct ([Usage],
// [Usagef]) or for a result that is not success; main alone ends the process.
package exit

import (
	"fmt"
)

// The exit codes of the contract.
const (
	OK           = 0
	Regression   = 1
	UsageError   = 2
	Inconclusive = 3
	NoDifference = 4
	Machine      = 5
	Internal     = 70
	Interrupted  = 130
)

// Error ends the program with a code; a nil Err means that everything has been said.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Usage marks an error as the user's to mend.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return With(UsageError, err)
}

func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// With ends the program with a code; a nil err means that everything has been said.
func With(code int, err error) error { return &Error{code, err} }
