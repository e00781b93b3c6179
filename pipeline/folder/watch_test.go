package folder

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watched is a folder with the file d/f, which is watched under the number returned.
func watched(t *testing.T) (f *Folder, w *Watch, id int32, file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "d", "f")
	if err := os.Mkdir(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	if w = NewWatch(f); w == nil {
		t.Skip("files cannot be watched here")
	}
	t.Cleanup(w.Close)
	if id = w.Add("d/f"); id == 0 {
		t.Skip("no watch is left")
	}
	return f, w, id, file
}

// hears reports whether something has happened to a watched file.
func hears(t *testing.T, w *Watch, id int32) (heard bool) {
	t.Helper()
	if !w.Hear(func(at int32, _ bool) { heard = heard || at == id }) {
		t.Fatal("events were lost")
	}
	return heard
}

func TestWatchHearsEveryChange(t *testing.T) {
	link := func(file string) string { return filepath.Join(filepath.Dir(filepath.Dir(file)), "elsewhere") }
	for name, change := range map[string]func(file string) error{
		"written":   func(file string) error { return os.WriteFile(file, []byte("new"), 0o666) },
		"truncated": func(file string) error { return os.Truncate(file, 1) },
		"mode":      func(file string) error { return os.Chmod(file, 0o600) },
		"time":      func(file string) error { return os.Chtimes(file, time.Time{}, time.Unix(1, 0)) },
		"attribute": func(file string) error { return unix.Setxattr(file, "user.x", []byte("1"), 0) },
		"linked":    func(file string) error { return os.Link(file, link(file)) },
		"removed":   os.Remove,
		"renamed": func(file string) error {
			return errors.Join(os.Link(file, link(file)), os.Rename(link(file), file+"2"), os.Remove(file))
		},
		"replaced": func(file string) error {
			return errors.Join(os.WriteFile(file+".new", nil, 0o666), os.Rename(file+".new", file))
		},
		"the folder moved": func(file string) error {
			moved := filepath.Dir(file) + "2"
			return errors.Join(os.Rename(filepath.Dir(file), moved), os.WriteFile(filepath.Join(moved, "f"), []byte("new"), 0o666))
		},
		"by a program": func(file string) error { return exec.Command("sh", "-c", `echo new >"$0"`, file).Run() },
		"in memory": func(file string) error {
			f, err := os.OpenFile(file, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			mem, err := unix.Mmap(int(f.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				return err
			}
			mem[0] = 'n'
			return unix.Munmap(mem)
		},
		"flags": func(file string) error { // which change nothing that is told
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0x40) // nodump, where the file system has it
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, w, id, file := watched(t)
			if hears(t, w, id) {
				t.Error("heard before anything happened")
			}
			if _, err := os.Lstat(file); err != nil || hears(t, w, id) {
				t.Errorf("looking at the file is heard: %v", err)
			}
			if err := change(file); err == unix.EOPNOTSUPP {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			if !hears(t, w, id) {
				t.Error("not heard")
			}
		})
	}
}

// Written by a name outside that it was given before, the file is heard of too.
func TestWatchHearsOtherNames(t *testing.T) {
	_, w, id, file := watched(t)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Link(file, other); err != nil {
		t.Skip(err)
	}
	hears(t, w, id)
	if err := os.WriteFile(other, []byte("new"), 0o666); err != nil {
		t.Fatal(err)
	}
	if !hears(t, w, id) {
		t.Error("not heard")
	}
}

func TestWatchTellsThatEventsWereLost(t *testing.T) {
	f, w, _, _ := watched(t)
	if err := os.WriteFile(filepath.Join(f.dir, "g"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if w.Add("g") == 0 {
		t.Skip("no watch is left")
	}
	at := f.open[0].fd
	for range 10_000 { // two that alternate are not joined
		for _, name := range []string{"d/f", "g"} {
			if err := unix.Fchmodat(at, name, 0o600, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w.Hear(func(int32, bool) {}) {
		t.Error("all events were heard")
	}
}

// What cannot be watched has the number 0, and no Watch is fine.
func TestWatchOfNothing(t *testing.T) {
	_, w, id, _ := watched(t)
	for _, name := range []string{"none", "d/f/x", "d/f"} {
		if got := w.Add(name); got != 0 {
			t.Errorf("%s: watched as %d, the first file as %d", name, got, id)
		}
	}
	w.room.Store(0)
	if w.Add("d") != 0 {
		t.Error("watched beyond the limit")
	}
	var none *Watch
	none.Close()
	if none.Add("d/f") != 0 || !none.Hear(func(int32, bool) { t.Error("heard") }) {
		t.Error("without a watch something is heard")
	}
}
