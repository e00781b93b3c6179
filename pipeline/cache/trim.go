package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

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

// abandoned is how long nobody has written to a file that never got its name.
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
