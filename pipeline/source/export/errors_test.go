package export

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func TestWriteErrorsSayWhatToDo(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}
	err := writeError("/slot", "write f", full)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "/slot") || !strings.Contains(err.Error(), "\nhint: free space") {
		t.Errorf("got %v", err)
	}
	// A plain file where a folder is needed.
	r := gittest.New(t)
	r.Commit(t, "a")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	repo := open(t, r.Dir)
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := New(t.Context(), repo, dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

func TestUseAfterClose(t *testing.T) {
	r := gittest.New(t)
	c := r.Commit(t, "a")
	e := export(t, open(t, r.Dir))
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Switch(t.Context(), c, true); err == nil {
		t.Error("a closed export was switched")
	}
}

func TestEmptyTree(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "f", "1")
	a := r.Commit(t, "a")
	empty := r.CommitTree(t, r.Pipe(t, "", "mktree"), r.Date, a)
	e := export(t, open(t, r.Dir))
	for _, c := range []string{empty, a, empty, a} {
		hop(t, e, c, true)
		if got := gittest.Listing(t, e.Dir()); (len(got) == 1) != (c == a) {
			t.Fatalf("slot holds %v", got)
		}
	}
}
