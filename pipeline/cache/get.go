package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// errDamaged marks an entry that cannot be restored as it was stored.
var errDamaged = errors.New("damaged entry")

// Get restores the outputs of the build under key below intoDir, and reports whether
// there is such a build. What the outputs name in intoDir is replaced: stale files in
// an output directory go away. All restored files carry one modification time, not
// before the present nor before that of any file in intoDir, so that make takes them
// for newer than the sources. No other call may work in intoDir meanwhile.
//
// A damaged entry is a miss; intoDir is then left as it was. An error means that
// intoDir cannot be written or the cache cannot be read.
func (c *Cache) Get(key, intoDir string) (Entry, bool, error) {
	if err := checkKey(key); err != nil {
		return Entry{}, false, err
	}
	unlock, err := c.lock(unix.LOCK_SH)
	if err != nil {
		return Entry{}, false, err
	}
	defer unlock()
	m, err := c.load(key)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, false, nil
	}
	if err == nil {
		err = c.restore(m, intoDir)
	}
	if errors.Is(err, errManifest) || errors.Is(err, errDamaged) {
		c.damaged.Add(1)
		os.Remove(c.entryPath(key))
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, fmt.Errorf("restore the build %.12s: %w", key, err)
	}
	now := time.Now()
	os.Chtimes(c.entryPath(key), now, now) // the last use; in a cache that is read-only it stays
	return m.entry(), true, nil
}

// load reads the manifest of key. A missing one gives fs.ErrNotExist, a damaged one errManifest.
func (c *Cache) load(key string) (*manifest, error) {
	data, err := os.ReadFile(c.entryPath(key))
	if err != nil {
		return nil, err
	}
	return decode(data, key)
}

// stagePrefix begins the name of the directory in which a build is assembled before it is moved into place.
const stagePrefix = ".kbisect-restore-"

// restore copies and verifies everything beside its place and moves it there when it is whole.
func (c *Cache) restore(m *manifest, intoDir string) error {
	root, err := os.OpenRoot(intoDir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := sweepStages(root); err != nil {
		return err
	}
	newest, err := latest(root)
	if err != nil {
		return err
	}
	stage, err := os.MkdirTemp(intoDir, stagePrefix)
	if err != nil {
		return err
	}
	defer removeTree(root, filepath.Base(stage))
	r := &restorer{cache: c, root: root, stage: filepath.Base(stage), stamp: time.Now()}
	if r.stamp.Before(newest) {
		r.stamp = newest
	}
	if err := r.assemble(m.Items); err != nil {
		return err
	}
	if err := r.clear(m.Outputs); err != nil {
		return err
	}
	return r.move(m.Items)
}

// sweepStages removes what restorers that were killed left in root.
func sweepStages(root *os.Root) error {
	old, err := fs.Glob(root.FS(), stagePrefix+"*")
	for _, name := range old {
		err = errors.Join(err, removeTree(root, name))
	}
	return err
}

// latest returns the latest modification time of a file below root.
func latest(root *os.Root) (t time.Time, err error) {
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		fi, err := d.Info()
		if err == nil && fi.ModTime().After(t) {
			t = fi.ModTime()
		}
		return ignoreGone(err)
	})
	return t, err
}

// ignoreGone drops errors of files that vanish, or may not be read, during a walk:
// what cannot be read cannot be a source of the build.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// A restorer puts one build in place.
type restorer struct {
	cache *Cache
	root  *os.Root
	stage string // the staging directory, below root
	stamp time.Time
}

// assemble makes the files in the staging directory, under numbers for names.
func (r *restorer) assemble(items []item) error {
	for i, it := range items {
		if it.Type != typeFile {
			continue
		}
		if err := r.copyObject(it, r.staged(i)); err != nil {
			return fmt.Errorf("%s: %w", it.Path, err)
		}
	}
	return nil
}

// staged returns the path of item i in the staging directory: a number, which needs
// no directories there.
func (r *restorer) staged(i int) string { return filepath.Join(r.stage, fmt.Sprint(i)) }

// copyObject copies the content of it to the path to, and verifies it on the way.
func (r *restorer) copyObject(it item, to string) error {
	object := r.cache.objectPath(it.SHA256)
	src, err := os.Open(object)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: an object is missing", errDamaged)
	}
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := r.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	size, err := io.Copy(dst, io.TeeReader(objectReader{src}, h))
	if err := errors.Join(err, dst.Chmod(it.Mode), dst.Close()); err != nil {
		return err
	}
	if size != it.Size || hex.EncodeToString(h.Sum(nil)) != it.SHA256 {
		os.Remove(object)
		return fmt.Errorf("%w: an object does not match its digest", errDamaged)
	}
	return r.root.Chtimes(to, r.stamp, r.stamp)
}

// An objectReader calls an object that cannot be read damaged, so that failures to write stand apart.
type objectReader struct{ r io.Reader }

func (o objectReader) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return n, err
}

// clear removes what the outputs name now. The whole directory as an output is only written over.
func (r *restorer) clear(outputs []string) error {
	for _, out := range outputs {
		if out == "." {
			continue
		}
		names, err := expand(r.root, out)
		if err != nil && !errors.Is(err, errEscape) {
			return err
		}
		for _, name := range names {
			if err := r.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes name, unless a link on the way leads elsewhere: then the link is replaced later.
func (r *restorer) remove(name string) error {
	for i, c := range name {
		if c != filepath.Separator {
			continue
		}
		fi, err := r.root.Lstat(name[:i])
		if err != nil || !fi.IsDir() {
			return nil
		}
	}
	return removeTree(r.root, name)
}

// move gives the items their places: directories and files first, then links, and last
// the modes of directories, which may forbid writing.
func (r *restorer) move(items []item) error {
	for i, it := range items {
		if it.Type == typeLink {
			continue
		}
		if err := r.place(i, it); err != nil {
			return fmt.Errorf("%s: %w", it.Path, err)
		}
	}
	for _, it := range items {
		if it.Type != typeLink {
			continue
		}
		if err := r.placeLink(it); err != nil {
			return fmt.Errorf("%s: %w", it.Path, err)
		}
	}
	for i := len(items) - 1; i >= 0; i-- { // sorted: children come after their directory
		if it := items[i]; it.Type == typeDir {
			err := errors.Join(r.root.Chtimes(it.Path, r.stamp, r.stamp), r.root.Chmod(it.Path, it.Mode))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// place moves one file, or makes one directory, in place of what is there.
func (r *restorer) place(i int, it item) error {
	if it.Type == typeDir {
		return r.makeDir(it.Path)
	}
	if err := r.makeDir(filepath.Dir(it.Path)); err != nil {
		return err
	}
	if fi, err := r.root.Lstat(it.Path); err == nil && fi.IsDir() {
		if err := removeTree(r.root, it.Path); err != nil {
			return err
		}
	}
	return r.root.Rename(r.staged(i), it.Path)
}

// placeLink makes one link in place of what is there. Links come after all files, so
// that no file is written through one.
func (r *restorer) placeLink(it item) error {
	if err := r.makeDir(filepath.Dir(it.Path)); err != nil {
		return err
	}
	if err := removeTree(r.root, it.Path); err != nil {
		return err
	}
	return r.root.Symlink(it.Target, it.Path)
}

// makeDir makes path and its parents real, writable directories, in place of files and links.
func (r *restorer) makeDir(path string) error {
	if path == "." {
		return nil
	}
	for i, c := range path + string(filepath.Separator) {
		if c != filepath.Separator {
			continue
		}
		if err := r.makeOne(path[:i]); err != nil {
			return err
		}
	}
	return nil
}

// makeOne makes path a real directory that we may write to; its parents are.
func (r *restorer) makeOne(path string) error {
	fi, err := r.root.Lstat(path)
	if err == nil && fi.IsDir() {
		if fi.Mode().Perm()&0o700 == 0o700 {
			return nil
		}
		return r.root.Chmod(path, fi.Mode().Perm()|0o700)
	}
	if err == nil {
		if err := r.root.Remove(path); err != nil {
			return err
		}
	}
	return r.root.Mkdir(path, 0o777)
}

// removeTree removes path and all below it, also where directories forbid writing.
func removeTree(root *os.Root, path string) error {
	err := root.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	fs.WalkDir(root.FS(), filepath.ToSlash(path), func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && !strings.HasPrefix(p, "..") {
			root.Chmod(p, 0o700)
		}
		return nil
	})
	return root.RemoveAll(path)
}
