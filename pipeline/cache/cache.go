package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

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
	Bytes   int64     // on disk
	Oldest  time.Time // the least recent use of an entry; zero without entries
}

// Open opens the cache in dir and makes what is missing of it.
func Open(dir string) (*Cache, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the build cache in %s: %w", dir, err)
	}
	c := &Cache{dir: abs}
	for _, sub := range []string{"kept", "tmp"} {
		if err := os.MkdirAll(filepath.Join(abs, sub), 0o777); err != nil {
			return nil, fmt.Errorf("open the build cache: %w%s", err, hintFor(err))
		}
	}
	return c, nil
}

// A TrimResult says what Trim removed.
type TrimResult struct {
	Entries int
	Bytes   int64 // on disk
}

// Stats counts what the cache holds.
func (c *Cache) Stats() (Stats, error) {
	st := Stats{Dir: c.dir}
	err := files(filepath.Join(c.dir, "kept"), func(_ string, fi fs.FileInfo) {
		st.Entries++
		st.Bytes += fi.Size()
		if st.Oldest.IsZero() || fi.ModTime().Before(st.Oldest) {
			st.Oldest = fi.ModTime()
		}
	})
	if err != nil {
		return st, fmt.Errorf("read the build cache: %w%s", err, hintFor(err))
	}
	return st, nil
}

// Trim removes entries that were not used for maxAge, then the least recently used ones until
// the rest takes at most maxBytes, and what interrupted writers left. Zero sets no limit.
func (c *Cache) Trim(maxBytes int64, maxAge time.Duration) (TrimResult, error) {
	r, err := c.trim(maxBytes, maxAge)
	if err != nil {
		err = fmt.Errorf("trim the build cache: %w%s", err, hintFor(err))
	}
	return r, err
}

// abandoned is how long nobody has written to a file which is no build yet and never will be one.
const abandoned = time.Hour

func (c *Cache) trim(maxBytes int64, maxAge time.Duration) (r TrimResult, err error) {
	type use struct {
		path string
		at   time.Time // when it was last used
		size int64
	}
	var all []use
	total, now := int64(0), time.Now()
	err = files(filepath.Join(c.dir, "kept"), func(path string, fi fs.FileInfo) {
		all = append(all, use{path, fi.ModTime(), fi.Size()})
		total += fi.Size()
	})
	slices.SortFunc(all, func(a, b use) int { return a.at.Compare(b.at) })
	for _, u := range all {
		tooOld, tooMuch := maxAge > 0 && now.Sub(u.at) > maxAge, maxBytes > 0 && total > maxBytes
		if !tooOld && !tooMuch {
			continue
		}
		if err := os.Remove(u.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
		r.Entries, r.Bytes, total = r.Entries+1, r.Bytes+u.size, total-u.size
	}
	for _, old := range []string{"entries", "objects", "lock"} { // where builds were kept before
		err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, old)))
	}
	return r, errors.Join(err, files(filepath.Join(c.dir, "tmp"), func(path string, fi fs.FileInfo) {
		if now.Sub(fi.ModTime()) > abandoned {
			os.Remove(path)
		}
	}))
}

// files calls f for every file below dir; files that vanish meanwhile are left out.
func files(dir string, f func(path string, fi fs.FileInfo)) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			f(path, fi)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
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

// checkKey refuses keys that could name a file outside of the cache.
func checkKey(key string) error {
	if len(key) < 16 || len(key) > 128 || strings.Trim(key, "0123456789abcdef") != "" {
		return fmt.Errorf("build cache: invalid key %q: not a lower-case hexadecimal digest of 16 to 128 digits", key)
	}
	return nil
}

// path is the file of the build under a key. Two digits of it name a
// directory, so that none holds too many files.
func (c *Cache) path(key string) string {
	return filepath.Join(c.dir, "kept", key[:2], key)
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
