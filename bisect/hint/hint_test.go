package hint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/kbisect/kbisect/bisect/hint"
)

func TestSplit(t *testing.T) {
	plain := errors.New("disk full")
	added := hint.Add(fmt.Errorf("write: %w", fs.ErrPermission), "set TMPDIR")
	for _, c := range []struct {
		name       string
		err        error
		text, hint string
	}{
		{"no hint", plain, "disk full", ""},
		{"added", added, "write: permission denied", "set TMPDIR"},
		{"wrapped", fmt.Errorf("step 1: %w", added), "step 1: write: permission denied", "set TMPDIR"},
		{"the outer of two counts", hint.Add(added, "call somebody"), "write: permission denied\nhint: set TMPDIR", "call somebody"},
		{"text after the hint stays", fmt.Errorf("%w (twice)", added), "write: permission denied\nhint: set TMPDIR (twice)", "set TMPDIR"},
	} {
		text, advice := hint.Split(c.err)
		if text != c.text || advice != c.hint {
			t.Errorf("%s: %q and %q, want %q and %q", c.name, text, advice, c.text, c.hint)
		}
	}
	if want := "write: permission denied\nhint: set TMPDIR"; added.Error() != want || !errors.Is(added, fs.ErrPermission) {
		t.Errorf("got %q", added)
	}
}
