package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/proc"
)

// small is memory in which a mebibyte is too much.
func small(t *testing.T) Memory {
	t.Helper()
	m := Memory{Dir: SharedMemory, Most: 1 << 20}
	if room, why := m.Room(); room == 0 {
		t.Skip("NOT TESTED: workspaces in memory:", why)
	}
	dir, err := os.MkdirTemp(SharedMemory, "workspace-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m.Dir = dir
	return m
}

// fast is a workspace in memory over the history of another one, and its root.
func fast(t *testing.T, m Memory) (*Root, *Workspace) {
	t.Helper()
	disk, _, repo, ids := overRepo(t)
	root, err := OpenInMemory(t.Context(), m, disk.Dir, "test-"+rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	w := root.New("memory")
	if err := w.Open(Opening{Repo: repo}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Switch(t.Context(), ids[0], true); err != nil {
		t.Fatal(err)
	}
	return root, w
}

// Only a tmpfs with room to spare, from which programs may be run, takes workspaces, and only a small part of it.
func TestRoom(t *testing.T) {
	for dir, want := range map[string]string{"": "no such file", "/proc": "is not in memory", filepath.Join(t.TempDir(), "none"): "no such file"} {
		if room, why := (Memory{Dir: dir}).Room(); room != 0 || !strings.Contains(why, want) {
			t.Errorf("%q: %d bytes, %q", dir, room, why)
		}
	}
	m := small(t)
	if room, why := m.Room(); room != 1<<20 {
		t.Errorf("%d bytes, %s", room, why)
	}
	m.Most = 1 << 60
	room, _ := m.Room()
	if free, _ := proc.Available(); room > free/4 {
		t.Errorf("%d bytes of %d", room, free)
	}
}

// Whatever takes too much memory is ended, or void: a program that goes on, and one of which the files are removed.
func TestCrowded(t *testing.T) {
	m := small(t)
	for name, script := range map[string]string{
		"goes on":   "head -c 3000000 /dev/zero >big; sleep 1000",
		"has ended": "head -c 60000000 /dev/zero >$TMPDIR/big", // far more than what another test may remove meanwhile
	} {
		root, w := fast(t, m)
		if root.Crowded() {
			t.Errorf("%s: a small tree is too much", name)
		}
		_, err := w.Run(t.Context(), proc.Spec{Argv: []string{"sh", "-c", script}, Dir: w.Dir, Env: w.Environ(os.Environ(), w.Dir, w.Caches.Dir)})
		if !errors.Is(err, errCrowded) {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.Remove(); err != nil || !root.Crowded() {
			t.Errorf("%s: %v; it is forgotten that it took too much", name, err)
		}
		root.Close()
	}
	root, w := fast(t, m)
	if res, err := w.Run(t.Context(), proc.Spec{Argv: []string{"cat", "n"}, Dir: w.Dir, Env: os.Environ()}); err != nil || string(res.Tail) != "0" || root.Crowded() {
		t.Errorf("an ordinary launch: %v, %q", err, res.Tail)
	}
	if err := os.WriteFile(filepath.Join(m.Dir, "of another"), make([]byte, 3<<20), 0o600); err != nil || root.Crowded() {
		t.Errorf("%v; what another program has in memory counts", err)
	}
	if err := os.Remove(root.lock.Name()); err != nil || !root.Crowded() {
		t.Errorf("%v; it was removed, and is used", err)
	}
}

// What a killed process left in memory goes with the next root, on the disk too; what a living one has there stays.
func TestStaleMemory(t *testing.T) {
	m := small(t)
	root, _ := fast(t, m)
	if info, err := os.Stat(root.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can read it: %v, %v", info, err)
	}
	leave := func(m Memory) (stale string) {
		stale = filepath.Join(m.folder(), fmt.Sprintf("stale-%d", os.Getpid()))
		if err := errors.Join(os.MkdirAll(filepath.Join(stale, "tree"), 0o700), os.WriteFile(stale+lockSuffix, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		return stale
	}
	gone := func(stale string) {
		t.Helper()
		for _, name := range []string{stale, stale + lockSuffix} {
			if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s was left: %v", name, err)
			}
		}
	}
	stale := leave(m)
	other, err := OpenInMemory(t.Context(), m, "another job", "test-"+rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	gone(stale)
	if err := errors.Join(other.Close(), root.Check()); err != nil {
		t.Error(err)
	}
	shared := Memory{Dir: SharedMemory}
	if err := os.Mkdir(shared.folder(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	stale = leave(shared)
	if root, err := Open(t.Context(), filepath.Join(t.TempDir(), "work", "job"), "test-"+rand.Text()); err != nil {
		t.Error(err)
	} else {
		root.Close()
	}
	gone(stale)
}

// A folder in which others can write is none for workspaces.
func TestForeignMemory(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"a link":           func(dir string) error { return os.Symlink("/", dir) },
		"a file":           func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"open for writing": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
	} {
		m := small(t)
		if err := spoil(m.folder()); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenInMemory(t.Context(), m, "job", "test-"+rand.Text()); err == nil || !strings.Contains(err.Error(), "private") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A sandbox has a /dev of its own, in which the workspace is all the same, to be written.
func TestSandboxInMemory(t *testing.T) {
	m := small(t)
	if err := proc.CheckSandbox(t.Context(), t.TempDir()); err != nil {
		t.Skip("NOT TESTED: a sandbox:", err)
	}
	root, w := fast(t, m)
	root.Sandbox = &proc.Sandbox{}
	res, err := w.Run(t.Context(), proc.Spec{
		Argv: []string{"sh", "-c", "cat n && echo x >made && touch ../no || echo refused"}, Dir: w.Dir, Env: w.Environ(os.Environ(), w.Dir, w.Caches.Dir),
	})
	if _, made := os.Stat(filepath.Join(w.Dir, "made")); err != nil || made != nil || !strings.HasPrefix(string(res.Tail), "0") || !strings.Contains(string(res.Tail), "refused") {
		t.Errorf("%v, %v, %q", err, made, res.Tail)
	}
}
