package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWriteErrorsSayWhatToDo(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}
	err := writeError("/slot", "write f", full)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "/slot") || !strings.Contains(err.Error(), "\nhint: free space") {
		t.Errorf("got %v", err)
	}
	// A plain file where a folder is needed.
	r := newTestRepo(t)
	r.commit(t, "a")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	repo := open(t, r.dir)
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := repo.Export(dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

func TestUseAfterClose(t *testing.T) {
	r := newTestRepo(t)
	c := r.commit(t, "a")
	e := export(t, open(t, r.dir))
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Switch(t.Context(), c, true); err == nil {
		t.Error("a closed export was switched")
	}
}

func TestEmptyTree(t *testing.T) {
	r := newTestRepo(t)
	r.write(t, "f", "1")
	a := r.commit(t, "a")
	empty := r.commitTree(t, r.pipe(t, "", "mktree"), r.date, a)
	e := export(t, open(t, r.dir))
	for _, c := range []string{empty, a, empty, a} {
		hop(t, e, c, true)
		if got := listing(t, e.Dir()); (len(got) == 1) != (c == a) {
			t.Fatalf("slot holds %v", got)
		}
	}
}
