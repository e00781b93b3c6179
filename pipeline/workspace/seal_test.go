package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A workspace in which a process failed is used again only if the process left the export as the build did, whatever it
// did to hide that.
func TestRecover(t *testing.T) {
	t.Setenv("TMPDIR", "/var/tmp")
	_, w, ids := opened(t)
	if now(w) == unknown {
		t.Skip("NOT TESTED: /var/tmp is not on a disk")
	}
	old := time.Now().Add(-time.Hour)
	in := func(names ...string) string { return filepath.Join(append([]string{w.Dir}, names...)...) }
	var errs []error
	do := func(err error) { errs = append(errs, err) }
	for what, c := range map[string]struct {
		change func()
		clean  bool
	}{
		"nothing":            {func() {}, true},
		"it was read":        {func() { _, err := os.ReadFile(in("sub", "o")); do(err) }, true},
		"a file beside it":   {func() { do(os.WriteFile(filepath.Join(w.Folder, "other"), nil, 0o666)) }, true},
		"a file came":        {func() { do(os.WriteFile(in("sub", "new"), nil, 0o666)) }, false},
		"a folder came":      {func() { do(os.Mkdir(in("sub", "new"), 0o777)) }, false},
		"a file went":        {func() { do(os.Remove(in("sub", "o"))) }, false},
		"it was written":     {func() { do(os.WriteFile(in("sub", "o"), []byte("p"), 0o666)) }, false},
		"its mode changed":   {func() { do(os.Chmod(in("sub", "o"), 0o600)) }, false},
		"it was renamed":     {func() { do(os.Rename(in("sub", "o"), in("sub", "p"))) }, false},
		"the export went":    {func() { do(os.RemoveAll(w.Dir)) }, false},
		"one was exchanged":  {func() { do(os.Remove(in("link"))); do(os.Symlink("n", in("link"))) }, false},
		"by another name":    {func() { do(os.WriteFile(filepath.Join(w.Folder, "outside"), []byte("p"), 0o666)) }, false},
		"with its old times": {func() { do(os.WriteFile(in("sub", "o"), []byte("p"), 0o666)); do(os.Chtimes(in("sub", "o"), old, old)) }, false},
		"through memory": {func() {
			f, err := os.OpenFile(in("sub", "o"), os.O_RDWR, 0)
			do(err)
			defer f.Close()
			m, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_WRITE, unix.MAP_SHARED)
			do(err)
			m[0]++
			do(unix.Munmap(m))
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := w.Switch(t.Context(), ids[0], true); err != nil {
				t.Fatal(err)
			}
			errs = nil
			do(os.Mkdir(in("sub"), 0o777))
			do(os.WriteFile(in("sub", "o"), []byte("o"), 0o666))
			do(os.Symlink("sub", in("link")))
			do(os.RemoveAll(filepath.Join(w.Folder, "outside")))
			do(os.Link(in("sub", "o"), filepath.Join(w.Folder, "outside")))
			Seal(w, true)
			c.change()
			for _, err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
			w.Contents.Dirty = true
			if Recover(w); w.Contents.Dirty == c.clean {
				t.Errorf("dirty: %v", w.Contents.Dirty)
			}
		})
	}
	for what, left := range map[string]Contents{"the build failed": {Dirty: true, sealed: now(w)}, "nothing was built": {Dirty: true, Built: true}} {
		w.Contents = left
		if Recover(w); !w.Contents.Dirty {
			t.Error(what)
		}
	}
}
