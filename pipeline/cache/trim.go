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

// A trimmer holds the state of one Trim.
type trimmer struct {
	cache   *Cache
	entries []use
	uses    map[string]int   // manifests that need an object, by digest
	sizes   map[string]int64 // of the objects on disk, by digest
	result  TrimResult
}

// A use is an entry and when it was last used.
type use struct {
	path    string
	at      time.Time
	objects []string // digests, each once
}

// scan reads all manifests and lists all objects. Damaged manifests are dropped first.
func (t *trimmer) scan() error {
	err := files(filepath.Join(t.cache.dir, "objects"), func(path string, fi fs.FileInfo) {
		t.sizes[filepath.Base(path)] = fi.Size()
	})
	if err != nil {
		return err
	}
	err = files(filepath.Join(t.cache.dir, "entries"), func(path string, fi fs.FileInfo) {
		u := use{path: path, at: fi.ModTime()}
		if data, err := os.ReadFile(path); err == nil {
			u.objects = objectsOf(data, filepath.Base(path))
		}
		if u.objects == nil {
			u.at = time.Time{}
			t.cache.damaged.Add(1)
		}
		for _, sum := range u.objects {
			t.uses[sum]++
		}
		t.entries = append(t.entries, u)
	})
	slices.SortFunc(t.entries, func(a, b use) int { return a.at.Compare(b.at) })
	return err
}

// objectsOf returns the digests in a manifest, nil if it is damaged.
func objectsOf(data []byte, key string) []string {
	m, err := decode(data, key)
	if err != nil {
		return nil
	}
	sums := []string{}
	for _, it := range m.Items {
		if it.Type == typeFile {
			sums = append(sums, it.SHA256)
		}
	}
	slices.Sort(sums)
	return slices.Compact(sums)
}

// drop removes entries, the least recently used first.
func (t *trimmer) drop(maxBytes int64, maxAge time.Duration) error {
	var total int64
	for sum, size := range t.sizes {
		if t.uses[sum] > 0 {
			total += size
		}
	}
	oldest := time.Now().Add(-maxAge)
	for _, u := range t.entries {
		tooOld := maxAge > 0 && u.at.Before(oldest)
		tooMuch := maxBytes > 0 && total > maxBytes
		if !tooOld && !tooMuch && u.objects != nil {
			continue
		}
		if err := os.Remove(u.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		t.result.Entries++
		for _, sum := range u.objects {
			if t.uses[sum]--; t.uses[sum] == 0 {
				total -= t.sizes[sum]
			}
		}
	}
	return nil
}

// sweep removes objects that no entry needs and what interrupted writers left. The
// lock is exclusive, so no build is about to need them.
func (t *trimmer) sweep() error {
	for sum, size := range t.sizes {
		if t.uses[sum] > 0 {
			continue
		}
		path := filepath.Join(t.cache.dir, "objects", sum[:min(2, len(sum))], sum)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		t.result.Bytes += size
	}
	var failed error
	err := files(filepath.Join(t.cache.dir, "tmp"), func(path string, _ fs.FileInfo) {
		failed = errors.Join(failed, os.Remove(path))
	})
	return errors.Join(err, failed)
}
