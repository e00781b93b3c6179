package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/pipeline/folder"
)

// A Cache is a build cache in a directory. Its methods may be called from several
// goroutines, and other processes may use the same directory.
type Cache struct {
	dir     string
	damaged atomic.Int64 // entries found damaged and removed
}

// Stats describes the cache as a whole.
type Stats struct {
	Dir     string
	Entries int
	Bytes   int64     // contents on disk, each counted once
	Oldest  time.Time // the least recent use of an entry; zero without entries
}

// Open opens the cache in dir and makes what is missing of it.
func Open(dir string) (*Cache, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the build cache in %s: %w", dir, err)
	}
	c := &Cache{dir: abs}
	for _, sub := range []string{"entries", "objects", "tmp"} {
		if err := os.MkdirAll(filepath.Join(abs, sub), 0o777); err != nil {
			return nil, fmt.Errorf("open the build cache: %w%s", err, hintFor(err))
		}
	}
	return c, nil
}

// A TrimResult says what Trim removed.
type TrimResult struct {
	Entries int
	Bytes   int64 // contents on disk
}

// Stats counts what the cache holds.
func (c *Cache) Stats() (Stats, error) {
	st := Stats{Dir: c.dir}
	err := files(filepath.Join(c.dir, "entries"), func(path string, fi fs.FileInfo) {
		st.Entries++
		if st.Oldest.IsZero() || fi.ModTime().Before(st.Oldest) {
			st.Oldest = fi.ModTime()
		}
	})
	if err == nil {
		err = files(filepath.Join(c.dir, "objects"), func(_ string, fi fs.FileInfo) { st.Bytes += fi.Size() })
	}
	if err != nil {
		return st, fmt.Errorf("read the build cache: %w%s", err, hintFor(err))
	}
	return st, nil
}

// Trim removes entries that were not used for maxAge, then the least recently used ones until
// the contents take at most maxBytes, and whatever no entry needs. Zero sets no limit.
// It waits for builds that are being stored or restored.
func (c *Cache) Trim(maxBytes int64, maxAge time.Duration) (TrimResult, error) {
	unlock, err := c.lock(unix.LOCK_EX)
	if err != nil {
		return TrimResult{}, err
	}
	defer unlock()
	t := &trimmer{cache: c, uses: map[string]int{}, sizes: map[string]int64{}}
	if err = t.scan(); err == nil {
		err = t.drop(maxBytes, maxAge)
	}
	if err == nil {
		err = t.sweep()
	}
	if err != nil {
		return t.result, fmt.Errorf("trim the build cache: %w%s", err, hintFor(err))
	}
	return t.result, nil
}

// hintFor returns the line that says what to do about an operating system error, or "".
func hintFor(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "\nhint: free some disk space (kbisect cache trim), or set XDG_CACHE_HOME to a directory with room"
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return "\nhint: set XDG_CACHE_HOME to a directory that you can write to"
	case errors.Is(err, os.ErrNotExist):
		return "\nhint: something removes the folder at this moment; try again after that"
	}
	return ""
}

// isDigest reports whether s is lower-case hexadecimal.
func isDigest(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// checkKey refuses keys that could name a file outside of the cache.
func checkKey(key string) error {
	if len(key) < 16 || len(key) > 128 || !isDigest(key) {
		return fmt.Errorf("build cache: invalid key %q: not a lower-case hexadecimal digest of 16 to 128 digits", key)
	}
	return nil
}

// entryPath returns the file of the manifest for a key. Two digits of it name a
// directory, so that none holds too many files.
func (c *Cache) entryPath(key string) string {
	return filepath.Join(c.dir, "entries", key[:2], key)
}

// objectPath returns the file that holds the content with a SHA-256.
func (c *Cache) objectPath(sum string) string {
	return filepath.Join(c.dir, "objects", sum[:2], sum)
}

// lock takes the cache's lock (unix.LOCK_SH or LOCK_EX) and returns the function that gives it back.
func (c *Cache) lock(how int) (unlock func(), err error) {
	path := filepath.Join(c.dir, "lock")
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("lock the build cache: %w%s", err, hintFor(err))
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the build cache %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// writeFile writes a complete file under its final name, on disk when it returns.
func (c *Cache) writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if err := renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(filepath.Join(c.dir, "tmp")), renameio.IgnoreUmask()); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir puts a renamed file's new name on disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Root is the user's folder for kbisect: kbisect in XDG_CACHE_HOME or in ~/.cache. Without a home that can hold it, it is a
// private folder among the temporary ones, and warning says so.
func Root() (dir, warning string, err error) {
	if base := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(base) { // one that is relative is to be ignored
		return filepath.Join(base, "kbisect"), "", nil
	}
	why := "HOME is not set"
	if home, err := os.UserHomeDir(); err == nil {
		if dir = filepath.Join(home, ".cache", "kbisect"); writable(dir) {
			return dir, "", nil
		}
		why = fmt.Sprintf("HOME is %s, where no cache can be made", home)
	}
	dir = filepath.Join(os.TempDir(), fmt.Sprintf("kbisect-%d", os.Geteuid()))
	if err := folder.MakePrivate(dir); err != nil { // what others can write to could give us their builds
		return "", "", hint.Add(fmt.Errorf("no home: %w", err), "set XDG_CACHE_HOME or HOME")
	}
	return dir, fmt.Sprintf("%s: builds are kept in %s", why, dir), nil
}

// writable reports whether a folder, which need not exist yet, can be made and written. One that is relative would lie in
// whatever folder the user stands in.
func writable(dir string) bool {
	for at := dir; filepath.IsAbs(at); at = filepath.Dir(at) {
		st, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return err == nil && st.IsDir() && unix.Access(at, unix.W_OK|unix.X_OK) == nil
	}
	return false
}
