package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/folder"
)

// slot does the file work of an Export. Every change goes through a folder.Folder, so that no
// symlink planted by a commit or a build can lead elsewhere.
type slot struct {
	dir     string
	tree    *folder.Folder
	grain   time.Duration // of file times
	top     uint32        // mode of the folder itself
	folders uint32        // mode of new folders in it
}

// slotState is kept beside the slot. It marks the folder as ours and carries the last stamp from
// one session to the next.
type slotState struct {
	Stamp int64 `json:"stamp"` // ns since 1970
}

func stateFile(dir string) string { return dir + ".state" }

// openSlot makes dir an empty slot and returns the stamp of its last switch. The state is written
// before the folder is filled, so that a slot left by a crash is known as ours.
func openSlot(ctx context.Context, dir string) (*slot, time.Time, error) {
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
	if err := s.saveState(state); err != nil {
		return nil, time.Time{}, err
	}
	if err := s.renew(ctx); err != nil {
		return nil, time.Time{}, err
	}
	if err := s.probe(ctx); err != nil {
		s.close()
		return fail("probe the file system", err)
	}
	return s, time.Unix(0, state.Stamp), nil
}

// loadState reads the state beside dir; ok is false where dir is not known as a slot.
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

// saveState replaces the state file as a whole. Unlike renameio it does not sync, which would make
// a switch slower by half. What a power failure can cost is one folder that is no longer known as a
// slot.
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
func (s *slot) intact() bool { return s.tree != nil && s.tree.Intact() }

// renew leaves the slot as an existing empty folder, opened. What is in it is removed through the
// opened folder, never by path.
func (s *slot) renew(ctx context.Context) error {
	s.close()
	fi, err := os.Lstat(s.dir)
	if err != nil || !fi.IsDir() { // one that exists is kept, so that its permissions and owner stay
		err = folder.RemoveAll(ctx, s.dir)
		if err == nil {
			err = os.MkdirAll(s.dir, 0o777)
		}
	}
	if err != nil {
		return writeError(s.dir, "make it", err)
	}
	if s.tree, err = folder.Open(s.dir); err != nil {
		return writeError(s.dir, "open it", err)
	}
	names, err := folder.Names(ctx, s.tree, "")
	for name := range names {
		if err == nil {
			err = s.tree.RemoveAll(ctx, name)
		}
	}
	if err != nil {
		return writeError(s.dir, "empty it", err)
	}
	return nil
}

// close lets go of the folder; renew opens it again.
func (s *slot) close() error {
	if s.tree != nil {
		s.tree.Close()
		s.tree = nil
	}
	return nil
}

// probe learns how the file system keeps times, and which modes it and the umask give to folders. No
// table of file systems would know network mounts and overlays.
func (s *slot) probe(ctx context.Context) error {
	const name = "kbisect-Probe"
	// An odd number of nanoseconds shows what is cut off.
	want := time.Unix(time.Now().Unix()|1, 123456789)
	st, err := s.tree.Write(ctx, name, folder.File{Perm: 0o666, Time: want, Content: strings.NewReader("")})
	if err != nil {
		return err
	}
	defer s.tree.Remove(name)
	s.grain = grainOf(want, time.Unix(st.Mtim.Unix()))
	top, err := s.tree.Stat(".")
	if err == nil {
		err = s.tree.Mkdir(name + ".d")
	}
	if err != nil {
		return err
	}
	made, err := s.tree.Stat(name + ".d")
	if err := errors.Join(err, s.tree.RemoveEmpty(name+".d")); err != nil {
		return err
	}
	s.top, s.folders = top.Mode, made.Mode
	return nil
}

// grainOf returns the step of file times from one time as set and as kept. The coarsest in use is
// the two seconds of FAT.
func grainOf(set, kept time.Time) time.Duration {
	for _, g := range []time.Duration{1, 100, time.Microsecond, time.Millisecond, 10 * time.Millisecond, time.Second} {
		if set.Truncate(g).Equal(kept) {
			return g
		}
	}
	return 2 * time.Second
}

// nextStamp returns a time later than the last stamp and than every time seen in the slot, and not
// before now. make rebuilds only what is older than its sources, and builds within one step of the
// clock would look equally old.
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

// settle waits where file times are coarse, so that the output of a build does not look older than
// its sources.
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

// free is how many bytes and files the file system takes, as far as it says so.
func (s *slot) free() (bytes, files int64) {
	var st unix.Statfs_t
	bytes, files = math.MaxInt64, math.MaxInt64
	if unix.Statfs(s.dir, &st) == nil && st.Blocks > 0 {
		bytes = int64(st.Bavail) * st.Bsize
		if st.Files > 0 {
			files = int64(st.Ffree)
		}
	}
	return bytes, files
}

// symlink makes a link, gives it its time, and returns how it looks from now on.
func (s *slot) symlink(ctx context.Context, tree *folder.Folder, target, full string, at time.Time) (fileStamp, error) {
	if err := tree.Symlink(ctx, target, full); err != nil {
		return fileStamp{}, writeError(s.dir, "link "+full, err)
	}
	if err := tree.SetTime(full, at); err != nil {
		return fileStamp{}, writeError(s.dir, "set the time of "+full, err)
	}
	st, err := tree.Stat(full)
	if err != nil {
		return fileStamp{}, writeError(s.dir, "read "+full, err)
	}
	return stampOf(&st), nil
}

// write makes a file and returns how it looks from now on.
func (s *slot) write(ctx context.Context, tree *folder.Folder, full string, file folder.File) (fileStamp, error) {
	st, err := tree.Write(ctx, full, file)
	if err != nil {
		return fileStamp{}, writeError(s.dir, "write "+full, err)
	}
	return stampOf(&st), nil
}

// stampOf is how a file looks now.
func stampOf(st *unix.Stat_t) fileStamp {
	return fileStamp{size: st.Size, mode: st.Mode, mtime: st.Mtim.Nano(), inode: st.Ino, changed: st.Ctim.Nano()}
}

// writeError wraps a failure to change the slot and says what to do about it.
func writeError(dir, what string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("export into %s: %s: %w\nhint: free space there, or choose another folder", dir, what, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("export into %s: %s: %w\nhint: make that folder writable, or choose another one", dir, what, err)
	}
	return fmt.Errorf("export into %s: %s: %w", dir, what, err)
}
