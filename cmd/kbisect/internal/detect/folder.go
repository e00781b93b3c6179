package detect

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A folder reads the files of a project, with bounds: a wrong directory must not
// read a whole disk. Names are relative to it, with slashes.
type folder struct {
	dir   string
	files []string // plain files at the top, sorted; none with a leading dot
	dirs  []string // folders at the top, the same
}

// Bounds on what below visits.
const (
	searchDepth = 3
	maxEntries  = 4000
)

// openFolder lists the top of dir.
func openFolder(dir string) (*folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	d := &folder{dir: dir}
	for _, e := range entries {
		switch {
		case !utf8.ValidString(e.Name()) || strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			d.dirs = append(d.dirs, e.Name())
		case d.isPlain(e.Name()):
			d.files = append(d.files, e.Name())
		}
	}
	return d, nil
}

// isPlain reports whether name is a plain file, or a link to one. Opening a pipe
// would wait forever.
func (d *folder) isPlain(name string) bool {
	info, err := os.Stat(filepath.Join(d.dir, name))
	return err == nil && info.Mode().IsRegular()
}

// has reports whether a file at the top has this name.
func (d *folder) has(name string) bool { return slices.Contains(d.files, name) }

// first returns the first of names that is there.
func (d *folder) first(names ...string) string {
	for _, n := range names {
		if d.has(n) {
			return n
		}
	}
	return ""
}

// read returns the beginning of a file at the top.
func (d *folder) read(name string) []byte {
	f, err := os.Open(filepath.Join(d.dir, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return data
}

// below visits the files of the project down to a depth, as paths from its top.
func (d *folder) below(depth int, visit func(file string)) {
	seen := 0
	_ = filepath.WalkDir(d.dir, func(name string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(d.dir, name)
		if seen++; err != nil || relErr != nil || seen > maxEntries {
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel = filepath.ToSlash(rel)
		switch {
		case !e.IsDir():
			visit(rel)
		case rel != "." && (strings.HasPrefix(e.Name(), ".") || strings.Count(rel, "/") >= depth):
			return fs.SkipDir
		}
		return nil
	})
}
