package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// kept is a switched workspace, and a work tree whose files are brought into it.
func kept(t *testing.T) (w *Workspace, tree string) {
	t.Helper()
	_, w, ids := opened(t)
	if _, err := w.Switch(t.Context(), ids[0], true); err != nil {
		t.Fatal(err)
	}
	return w, t.TempDir()
}

// Whatever a candidate has made of what was brought, the next Bring makes it again what it is in the work tree.
func TestBringUndoesWhatCandidatesDid(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"nothing":             func(string) error { return nil },
		"removed":             func(dir string) error { return os.RemoveAll(dir + "/data") },
		"changed":             func(dir string) error { return os.WriteFile(dir+"/data/a", []byte("x"), 0o666) },
		"changed its mode":    func(dir string) error { return os.Chmod(dir+"/data/run.sh", 0o600) },
		"added":               func(dir string) error { return os.WriteFile(dir+"/data/sub/more", nil, 0o666) },
		"added a folder":      func(dir string) error { return os.MkdirAll(dir+"/data/more/deep", 0o777) },
		"another link":        func(dir string) error { return relink("elsewhere", dir+"/data/link") },
		"a link for a file":   func(dir string) error { return relink("/etc/passwd", dir+"/data/a") },
		"a folder for a file": func(dir string) error { return errors.Join(os.Remove(dir+"/data/a"), os.Mkdir(dir+"/data/a", 0o777)) },
		"a file for a folder": func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/data/sub"), os.WriteFile(dir+"/data/sub", nil, 0o666))
		},
		"a link for the folder": func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/data"), os.Symlink("..", dir+"/data"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, tree := kept(t)
			gittest.WriteFiles(t, tree, map[string]string{"data/a": "1", "data/sub/b": "2", "data/run.sh": "#!/bin/sh\n", "script": "s", "other": "not named"}, 0o644)
			old := time.Unix(1700000000, 12345)
			if err := errors.Join(os.Chmod(tree+"/data/run.sh", 0o755), os.Chmod(tree+"/data/sub/b", 0o444), os.Symlink("sub/b", tree+"/data/link"), os.Chtimes(tree+"/data/a", old, old)); err != nil {
				t.Fatal(err)
			}
			bring := func() {
				t.Helper()
				if err := w.Bring(t.Context(), tree, []string{"data", "script"}); err != nil {
					t.Fatal(err)
				}
			}
			bring()
			if err := spoil(w.Dir); err != nil {
				t.Fatal(err)
			}
			bring()
			if d := cmp.Diff(gittest.Listing(t, tree+"/data"), gittest.Listing(t, w.Dir+"/data")); d != "" {
				t.Error(d)
			}
			if st, err := os.Stat(w.Dir + "/data/a"); err != nil || !st.ModTime().Equal(old) {
				t.Errorf("%v %v: a build tool would take it for changed", st.ModTime(), err)
			}
			if _, err := os.Stat(w.Dir + "/other"); err == nil {
				t.Error("what nobody named was brought")
			}
		})
	}
}

func relink(target, name string) error {
	return errors.Join(os.RemoveAll(name), os.Symlink(target, name))
}

// Files of size and time alike are not copied again: a tree of many gigabytes is brought before every build.
func TestBringCopiesOnce(t *testing.T) {
	w, tree := kept(t)
	gittest.WriteFiles(t, tree, map[string]string{"data/a": "1"}, 0o644)
	var before, after unix.Stat_t
	for _, st := range []*unix.Stat_t{&before, &after} {
		if err := errors.Join(w.Bring(t.Context(), tree, []string{"data/a"}), unix.Stat(w.Dir+"/data/a", st)); err != nil {
			t.Fatal(err)
		}
	}
	if before.Ino != after.Ino || before.Ctim != after.Ctim {
		t.Error("the file was written again")
	}
}

// What the commit itself holds stays, and so do its folders.
func TestBringLeavesTheCommitAlone(t *testing.T) {
	w, tree := kept(t)
	gittest.WriteFiles(t, tree, map[string]string{"n": "not the commit's", "n2": "new"}, 0o644)
	if err := w.Bring(t.Context(), tree, []string{"n", "n2"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"n": "0", "n2": "new"}
	for name, text := range want {
		if data, err := os.ReadFile(filepath.Join(w.Dir, name)); err != nil || string(data) != text {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// Pipes and sockets are left out rather than waited for. A link of a candidate that leads out is not written through.
func TestBringOddFiles(t *testing.T) {
	w, tree := kept(t)
	outside := t.TempDir()
	gittest.WriteFiles(t, tree, map[string]string{"d/f": "1", "top/sub/f": "2"}, 0o644)
	if err := errors.Join(unix.Mkfifo(tree+"/d/pipe", 0o666), os.Symlink(outside, w.Dir+"/top")); err != nil {
		t.Fatal(err)
	}
	if err := w.Bring(t.Context(), tree, []string{"d"}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(w.Dir + "/d/pipe"); err == nil {
		t.Error("the pipe was copied")
	}
	if err := w.Bring(t.Context(), tree, []string{"top/sub/f"}); err == nil {
		t.Error("a link that leads out was followed")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written through a link: %v %v", left, err)
	}
}

// A file that the user has removed, or a work tree that is gone, is no candidate's fault; neither is Ctrl-C.
func TestBringFaults(t *testing.T) {
	w, tree := kept(t)
	var infra *bisect.InfraError
	if err := w.Bring(t.Context(), tree, []string{"gone"}); !errors.As(err, &infra) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := w.Bring(t.Context(), tree+"/nowhere", []string{"x"}); !errors.As(err, &infra) {
		t.Errorf("a missing work tree: %v", err)
	}
	if err := w.Bring(t.Context(), tree+"/nowhere", nil); err != nil {
		t.Errorf("nothing to bring: %v", err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Bring(stopped, tree, []string{"gone"}); !errors.Is(err, context.Canceled) || errors.As(err, &infra) {
		t.Errorf("interrupted: %v", err)
	}
}
