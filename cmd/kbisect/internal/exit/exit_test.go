package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// TestErrors: the code, the text and the cause of an error survive wrapping.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code int
		text string
	}{
		{"of the user", Usage(fs.ErrNotExist), UsageError, "file does not exist"},
		{"formatted", Usagef("read %s: %w", "x", fs.ErrNotExist), UsageError, "read x: file does not exist"},
		{"with a code", With(Machine, fs.ErrNotExist), Machine, "file does not exist"},
		{"wrapped", fmt.Errorf("later: %w", With(Machine, fs.ErrNotExist)), Machine, "later: file does not exist"},
		{"nothing more to say", With(Regression, nil), Regression, "exit 1"},
	} {
		var e *Error
		if !errors.As(c.err, &e) || e.Code != c.code || c.err.Error() != c.text {
			t.Errorf("%s: %v", c.name, c.err)
		}
		if errors.Is(c.err, fs.ErrNotExist) != (c.code != Regression) {
			t.Errorf("%s: the cause is lost", c.name)
		}
	}
	if Usage(nil) != nil {
		t.Error("no error became one")
	}
	if e := (*Error)(nil); errors.As(Usagef("read: %w", context.Canceled), &e) {
		t.Errorf("an interruption has the code %d of a mistake", e.Code)
	}
}
