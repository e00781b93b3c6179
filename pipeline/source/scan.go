package source

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// fileStamp is how a file looked when it was written. Any difference later
// means that something else has changed it.
type fileStamp struct {
	size    int64
	mode    fs.FileMode
	mtime   int64 // ns since 1970
	changed int64 // the inode's own change time, ns, where known
	inode   uint64
}

// scanned is what a slot held when it was looked through.
type scanned struct {
	newest    time.Time // of any file time met
	changed   []string  // tracked paths that are not as they were written
	untracked []string  // files, and folders without tracked files; topmost only
}

// scan looks through the slot. With clean it does not look into untracked
// folders, which will be deleted.
func (e *Export) scan(clean bool) (scanned, error) {
	w := &scanner{e: e, clean: clean, met: make(map[string]bool, len(e.tracked))}
	if err := w.dir("", true); err != nil {
		return w.out, err
	}
	for full, t := range e.tracked {
		if !w.met[full] && t.mode != modeGitlink {
			w.out.changed = append(w.out.changed, full)
		} else if !w.met[full] {
			w.out.changed = append(w.out.changed, full) // the submodule's folder is gone
		}
	}
	return w.out, nil
}

type scanner struct {
	e     *Export
	clean bool
	met   map[string]bool // tracked paths found unchanged
	out   scanned
}

func (w *scanner) dir(dir string, tracked bool) error {
	entries, err := readDirUnlocked(filepath.Join(w.e.dir, filepath.FromSlash(dir)))
	if err != nil {
		return writeError(w.e.dir, "look through "+dir, err)
	}
	for _, d := range entries {
		fi, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return writeError(w.e.dir, "look at "+d.Name(), err)
		}
		if fi.ModTime().After(w.out.newest) {
			w.out.newest = fi.ModTime()
		}
		if err := w.entry(path.Join(dir, d.Name()), fi, tracked); err != nil {
			return err
		}
	}
	return nil
}

// entry judges one name; tracked says that its folder holds tracked files.
func (w *scanner) entry(full string, fi fs.FileInfo, tracked bool) error {
	if !tracked {
		if fi.IsDir() {
			return w.dir(full, false)
		}
		return nil
	}
	t := w.e.tracked[full]
	if fi.IsDir() && (w.e.dirs[full] > 0 || t != nil && t.mode == modeGitlink) {
		w.met[full] = t != nil
		return w.dir(full, true)
	}
	if t != nil && !fi.IsDir() && t.mode != modeGitlink {
		same, err := w.e.unchanged(full, t, fi)
		w.met[full] = same
		return err
	}
	w.out.untracked = append(w.out.untracked, full)
	if fi.IsDir() && !w.clean {
		return w.dir(full, false)
	}
	return nil
}

// unchanged compares a file with what was written. Where only the inode's
// change time differs (a hard link made by a compiler cache, say) the content
// decides.
func (e *Export) unchanged(full string, t *tracked, fi fs.FileInfo) (bool, error) {
	now := stampOf(fi)
	if now == t.seen {
		return true, nil
	}
	alike := now
	alike.changed = t.seen.changed
	if alike != t.seen {
		return false, nil
	}
	same, err := e.sameContent(full, t)
	if same {
		t.seen = now
	}
	return same, err
}

// readDirUnlocked reads a folder even where a build has taken the right to.
func readDirUnlocked(dir string) ([]fs.DirEntry, error) {
	read := func() ([]fs.DirEntry, error) {
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return f.ReadDir(-1)
	}
	// Looking at the entries needs the right to search the folder, too.
	if fi, err := os.Lstat(dir); err == nil && fi.IsDir() && fi.Mode().Perm()&0o500 != 0o500 {
		os.Chmod(dir, fi.Mode().Perm()|0o700)
	}
	return read()
}

// unlock gives us all rights on every folder of a tree. It follows no links
// and reports nothing: what matters is whether the removal then succeeds.
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
// so that its rights and owner stay.
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
