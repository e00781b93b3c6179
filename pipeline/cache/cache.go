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
	Entries int
	Bytes   int64 // contents on disk, each counted once
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
func (c *Cache) Stats() (st Stats, err error) {
	err = errors.Join(
		files(filepath.Join(c.dir, "entries"), func(string, fs.FileInfo) { st.Entries++ }),
		files(filepath.Join(c.dir, "objects"), func(_ string, fi fs.FileInfo) { st.Bytes += fi.Size() }))
	if err != nil {
		return st, fmt.Errorf("read the build cache: %w%s", err, hintFor(err))
	}
	return st, nil
}

// Trim removes what was not used for maxAge, then the least recently used until the contents take at most maxBytes, and
// what interrupted writers left. Zero sets no limit.
func (c *Cache) Trim(maxBytes int64, maxAge time.Duration) (TrimResult, error) {
	r, err := c.trim(maxBytes, maxAge)
	if err != nil {
		err = fmt.Errorf("trim the build cache: %w%s", err, hintFor(err))
	}
	return r, err
}

// abandoned is how old a file without its final name must be to count as left by a writer that was killed.
const abandoned = time.Hour

// trim needs to read no entry: each is used no later than the objects that it names, and so goes before them.
func (c *Cache) trim(maxBytes int64, maxAge time.Duration) (r TrimResult, err error) {
	type use struct {
		path  string
		at    time.Time // when it was last used
		size  int64
		entry bool // which does not count as content
	}
	var all []use
	total, now := int64(0), time.Now()
	err = errors.Join(
		files(filepath.Join(c.dir, "entries"), func(path string, fi fs.FileInfo) {
			all = append(all, use{path, fi.ModTime(), 0, true})
		}),
		files(filepath.Join(c.dir, "objects"), func(path string, fi fs.FileInfo) {
			all = append(all, use{path, fi.ModTime(), fi.Size(), false})
			total += fi.Size()
		}),
		files(filepath.Join(c.dir, "tmp"), func(path string, fi fs.FileInfo) {
			if now.Sub(fi.ModTime()) > abandoned {
				os.Remove(path)
			}
		}))
	slices.SortStableFunc(all, func(a, b use) int { return a.at.Compare(b.at) })
	for _, u := range all {
		tooOld, tooMuch := maxAge > 0 && now.Sub(u.at) > maxAge, maxBytes > 0 && total > maxBytes
		if err != nil || !tooOld && !tooMuch {
			break
		}
		if err = os.Remove(u.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		r.Bytes, total = r.Bytes+u.size, total-u.size
		if u.entry {
			r.Entries++
		}
	}
	return r, err
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

// store makes a complete file of its content and then gives it the name that path has for its digest. Nothing is
// synced: after a power failure a torn file does not match its digest, and that is a miss.
func (c *Cache) store(content io.Reader, path func(sum string) string) (sum string, size int64, err error) {
	f, err := os.CreateTemp(filepath.Join(c.dir, "tmp"), "o-*")
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, h), content)
	if err := errors.Join(err, f.Chmod(0o444), f.Close()); err != nil {
		return "", 0, err
	}
	sum = hex.EncodeToString(h.Sum(nil))
	if err := os.MkdirAll(filepath.Dir(path(sum)), 0o777); err != nil {
		return "", 0, err
	}
	err = os.Rename(f.Name(), path(sum))
	used(time.Now(), path(sum))
	return sum, size, err
}

// used notes that a file was used at a time; in a cache that is read-only it stays as it is.
func used(at time.Time, path string) { os.Chtimes(path, at, at) }

// Root is the user's folder for kbisect: kbisect in XDG_CACHE_HOME or in ~/.cache. Without a home that can hold it,
// it is a private folder among the temporary ones, and warning says so.
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

// writable reports whether a folder, which need not exist yet, can be made and written. One that is relative would
// lie in whatever folder the user stands in.
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
