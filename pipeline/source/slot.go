package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// slot does the file work of an Export. Every change goes through an os.Root
// and only below folders that were seen to be real ones, so that no symlink
// planted by a commit or a build can lead elsewhere.
type slot struct {
	dir       string
	root      *os.Root
	foldsCase bool          // kern.h and Kern.h are one file
	grain     time.Duration // of file times
	trusted   map[string]bool
}

// slotState is kept beside the slot. It marks the folder as ours and carries
// the last stamp from one session to the next.
type slotState struct {
	Tree  string `json:"tree"`
	Dirty bool   `json:"dirty"` // a switch was under way
	Stamp int64  `json:"stamp"` // ns since 1970
}

func stateFile(dir string) string { return dir + ".state" }

// openSlot makes dir an empty slot and returns the stamp of its last switch.
func openSlot(dir string) (*slot, time.Time, error) {
	fail := func(what string, err error) (*slot, time.Time, error) {
		return nil, time.Time{}, writeError(dir, what, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return fail("create the folder above it", err)
	}
	state, known := loadState(dir)
	if err := checkForeign(dir, known); err != nil {
		return nil, time.Time{}, err
	}
	s := &slot{dir: dir}
	state.Dirty = true
	if err := s.saveState(state); err != nil {
		return nil, time.Time{}, err
	}
	if err := s.renew(); err != nil {
		return nil, time.Time{}, err
	}
	if err := s.probe(); err != nil {
		s.close()
		return fail("probe the file system", err)
	}
	return s, time.Unix(0, state.Stamp), nil
}

// loadState reads the state beside dir; ok is false where dir is not known as a
// slot.
func loadState(dir string) (slotState, bool) {
	var s slotState
	data, err := os.ReadFile(stateFile(dir))
	if err != nil {
		return s, false
	}
	return s, json.Unmarshal(data, &s) == nil
}

// checkForeign protects a folder that is not a slot from being emptied.
func checkForeign(dir string, known bool) error {
	fi, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || known {
		return nil
	}
	if err != nil {
		return writeError(dir, "read it", err)
	}
	if !fi.IsDir() {
		return fmt.Errorf("export into %s: not a folder\nhint: choose another path", dir)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return writeError(dir, "read it", err)
	}
	if len(names) > 0 {
		return fmt.Errorf("export into %s: it has files that were not exported\nhint: choose an empty folder", dir)
	}
	return nil
}

// saveState replaces the state file as a whole. Unlike renameio it does not
// sync: it runs twice a switch, and two syncs make a switch half as slow again. What
// a power failure can cost is one folder that is no longer known as a slot.
func (s *slot) saveState(state slotState) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	file := stateFile(s.dir)
	if err := os.WriteFile(file+".new", data, 0o666); err != nil {
		os.Remove(file + ".new")
		return writeError(s.dir, "write "+file, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return writeError(s.dir, "write "+file, err)
	}
	return nil
}

// intact reports whether the folder is still the one that was opened.
func (s *slot) intact() bool {
	here, err := os.Lstat(s.dir)
	if err != nil || s.root == nil {
		return false
	}
	opened, err := s.root.Stat(".")
	return err == nil && os.SameFile(here, opened)
}

// renew leaves the slot as an existing empty folder, opened.
func (s *slot) renew() error {
	s.close()
	if err := emptyTree(s.dir); err != nil {
		return writeError(s.dir, "empty it", err)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return writeError(s.dir, "open it", err)
	}
	s.root = root
	return nil
}

func (s *slot) close() error {
	if s.root == nil {
		return nil
	}
	err := s.root.Close()
	s.root = nil
	return err
}

// probe learns how the file system keeps names and times.
func (s *slot) probe() error {
	const name = "kbisect-Probe"
	if err := s.root.WriteFile(name, nil, 0o666); err != nil {
		return err
	}
	defer s.root.Remove(name)
	_, err := s.root.Lstat(strings.ToUpper(name))
	s.foldsCase = err == nil
	// An odd number of nanoseconds shows what is cut off.
	want := time.Unix(time.Now().Unix()|1, 123456789)
	if err := s.root.Chtimes(name, want, want); err != nil {
		return err
	}
	fi, err := s.root.Lstat(name)
	if err != nil {
		return err
	}
	s.grain = grainOf(want, fi.ModTime())
	return nil
}

// grainOf returns the step of file times from one time as set and as kept.
func grainOf(set, kept time.Time) time.Duration {
	for _, g := range []time.Duration{1, 100, time.Microsecond, time.Millisecond, 10 * time.Millisecond, time.Second} {
		if set.Truncate(g).Equal(kept) {
			return g
		}
	}
	return 2 * time.Second
}

// nextStamp returns a time later than the last stamp and than every time seen
// in the slot, and not before now.
func (s *slot) nextStamp(last, newest time.Time) time.Time {
	t := time.Now().Round(0)
	for _, before := range []time.Time{last, newest} {
		if after := before.Add(time.Microsecond); after.After(t) {
			t = after
		}
	}
	if s.grain > time.Microsecond {
		t = t.Add(s.grain).Truncate(s.grain)
	}
	return t
}

// settle waits where file times are coarse, so that the output of a build does
// not look older than its sources.
func (s *slot) settle(ctx context.Context, stamp time.Time) error {
	ahead := time.Until(stamp)
	if ahead <= 0 || ahead > 2*s.grain {
		return nil
	}
	select {
	case <-time.After(ahead):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// freeBytes is how much the file system takes, as far as it says so.
func (s *slot) freeBytes() int64 {
	var st unix.Statfs_t
	if unix.Statfs(s.dir, &st) != nil || st.Blocks == 0 {
		return math.MaxInt64
	}
	return int64(st.Bavail) * st.Bsize
}

// ensureParents makes sure that everything above a path is a folder; anything
// else with that name is removed.
func (s *slot) ensureParents(full string) error {
	dir := path.Dir(full)
	if dir == "." || s.trusted[dir] {
		return nil
	}
	if err := s.ensureParents(dir); err != nil {
		return err
	}
	return s.ensureDir(dir)
}

// ensureDir makes a path a folder, whose parents are folders already.
func (s *slot) ensureDir(dir string) error {
	if s.trusted[dir] {
		return nil
	}
	fi, err := s.root.Lstat(dir)
	if err == nil && !fi.IsDir() {
		if err := s.removeAll(dir); err != nil {
			return err
		}
		err = fs.ErrNotExist
	}
	if err != nil {
		if err := s.retry(dir, func() error { return s.root.Mkdir(dir, 0o777) }); err != nil {
			return writeError(s.dir, "create folder "+dir, err)
		}
	}
	s.trusted[dir] = true
	return nil
}

// retry runs a change in a folder, and once more with write permission where a
// build has removed it.
func (s *slot) retry(full string, change func() error) error {
	err := change()
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	dir := path.Dir(full)
	fi, statErr := s.root.Lstat(dir)
	if statErr != nil || !fi.IsDir() || fi.Mode().Perm()&0o700 == 0o700 {
		return err
	}
	if chmodErr := s.root.Chmod(dir, fi.Mode().Perm()|0o700); chmodErr != nil {
		return err
	}
	return change()
}

// replace runs a creation that fails when something is in the way, and if so
// removes that first.
func (s *slot) replace(full string, create func() error) error {
	err := s.retry(full, create)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.removeAll(full); err != nil {
		return err
	}
	return s.retry(full, create)
}

func (s *slot) symlink(target, full string) error {
	err := s.replace(full, func() error { return s.root.Symlink(target, full) })
	if err != nil {
		return writeError(s.dir, "link "+full, err)
	}
	return nil
}

// create writes a new file; an old one is unlinked, never written into, for
// it may share its content with others by a hard link.
func (s *slot) create(full string, perm os.FileMode, content io.Reader) error {
	var f *os.File
	err := s.replace(full, func() (err error) {
		f, err = s.root.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		return err
	})
	if err != nil {
		return writeError(s.dir, "create "+full, err)
	}
	_, err = io.Copy(f, content)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return writeError(s.dir, "write "+full, err)
	}
	return nil
}

// setStamp gives a path its time and returns how it looks from now on.
func (s *slot) setStamp(full string, link bool, stamp time.Time) (fileStamp, error) {
	var err error
	if link {
		err = setLinkTime(filepath.Join(s.dir, filepath.FromSlash(full)), stamp)
	} else {
		err = s.root.Chtimes(full, stamp, stamp)
	}
	if err != nil {
		return fileStamp{}, writeError(s.dir, "set the time of "+full, err)
	}
	fi, err := s.root.Lstat(full)
	if err != nil {
		return fileStamp{}, writeError(s.dir, "read "+full, err)
	}
	return stampOf(fi), nil
}

// realParents reports whether everything above a path is a folder and not a
// link to one.
func (s *slot) realParents(full string) bool {
	dir := path.Dir(full)
	if dir == "." {
		return true
	}
	if known, ok := s.trusted[dir]; ok {
		return known
	}
	real := s.realParents(dir)
	if real {
		fi, err := s.root.Lstat(dir)
		real = err == nil && fi.IsDir()
	}
	s.trusted[dir] = real
	return real
}

// removeFile deletes a tracked path that the wanted commit lacks. A folder in
// its place is build output and stays.
func (s *slot) removeFile(full string) error {
	if !s.realParents(full) {
		return nil
	}
	fi, err := s.root.Lstat(full)
	if errors.Is(err, fs.ErrNotExist) || err == nil && fi.IsDir() {
		return nil
	}
	if err == nil {
		err = s.retry(full, func() error { return s.root.Remove(full) })
	}
	if err != nil {
		return writeError(s.dir, "remove "+full, err)
	}
	return nil
}

// removeIfEmptyDir deletes a folder that holds nothing.
func (s *slot) removeIfEmptyDir(dir string) error {
	if !s.realParents(dir) {
		return nil
	}
	fi, err := s.root.Lstat(dir)
	if err != nil || !fi.IsDir() {
		return nil
	}
	err = s.retry(dir, func() error { return s.root.Remove(dir) })
	if err == nil || errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return writeError(s.dir, "remove folder "+dir, err)
}

// removeAll deletes a path with all below it, even where modes forbid it.
func (s *slot) removeAll(full string) error {
	err := s.retry(full, func() error { return s.root.RemoveAll(full) })
	if errors.Is(err, fs.ErrPermission) {
		unlock(filepath.Join(s.dir, filepath.FromSlash(full)))
		err = s.retry(full, func() error { return s.root.RemoveAll(full) })
	}
	if err != nil {
		return writeError(s.dir, "remove "+full, err)
	}
	return nil
}

// stampOf is how a file looks now.
func stampOf(fi fs.FileInfo) fileStamp {
	s := fileStamp{size: fi.Size(), mode: fi.Mode(), mtime: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
		s.changed = st.Ctim.Nano()
	}
	return s
}

// setLinkTime sets the time of a symlink itself; the standard library can
// only set that of what it leads to.
func setLinkTime(file string, t time.Time) error {
	ts := []unix.Timespec{unix.NsecToTimespec(t.UnixNano()), unix.NsecToTimespec(t.UnixNano())}
	return unix.UtimesNanoAt(unix.AT_FDCWD, file, ts, unix.AT_SYMLINK_NOFOLLOW)
}

// readDirUnlocked reads a folder even where a build has removed the permission.
func readDirUnlocked(dir string) ([]fs.DirEntry, error) {
	read := func() ([]fs.DirEntry, error) {
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return f.ReadDir(-1)
	}
	// To stat the entries needs the permission to search the folder.
	if fi, err := os.Lstat(dir); err == nil && fi.IsDir() && fi.Mode().Perm()&0o500 != 0o500 {
		os.Chmod(dir, fi.Mode().Perm()|0o700)
	}
	return read()
}

// unlock gives the owner all permissions on every folder of a tree. It follows
// no links and returns no errors: the removal after it does.
func unlock(dir string) {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() {
		return
	}
	os.Chmod(dir, fi.Mode().Perm()|0o700)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, d := range entries {
		if d.IsDir() {
			unlock(filepath.Join(dir, d.Name()))
		}
	}
}

// removeTree deletes dir with all below it, even where modes forbid it.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	unlock(dir)
	return os.RemoveAll(dir)
}

// emptyTree makes dir an existing empty folder. A folder that exists is kept,
// so that its permissions and owner stay.
func emptyTree(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !fi.IsDir() {
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	if err != nil || !fi.IsDir() {
		return os.Mkdir(dir, 0o777)
	}
	if fi.Mode().Perm()&0o700 != 0o700 {
		if err := os.Chmod(dir, fi.Mode().Perm()|0o700); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range entries {
		if err := removeTree(filepath.Join(dir, d.Name())); err != nil {
			return err
		}
	}
	return nil
}

// writeError wraps a failure to change the slot and says what to do about it.
func writeError(dir, what string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("export into %s: %s: %w\nhint: free space there, or choose another folder", dir, what, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("export into %s: %s: %w\nhint: make that folder writable, or choose another one", dir, what, err)
	}
	return fmt.Errorf("export into %s: %s: %w", dir, what, err)
}
