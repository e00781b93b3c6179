package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// errEscape is wrapped by the error for an output that lies, or leads, outside the build directory.
var errEscape = errors.New("leads out of the build directory")

// Put stores the outputs of a build below fromDir under key, in place of what was
// there. Each output is a file, a directory (with all it holds) or a pattern of
// [path/filepath.Match], relative to fromDir; links are kept as links, together with
// what they point to. meta is kept with the entry.
//
// A missing output is an error that names it and wraps [fs.ErrNotExist]; one that
// leads out of fromDir is refused.
func (c *Cache) Put(key, fromDir string, outputs []string, meta map[string]string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	root, err := os.OpenRoot(fromDir)
	if err != nil {
		return fmt.Errorf("cache the build %.12s: %w", key, err)
	}
	defer root.Close()
	start := time.Now()
	m, err := c.collect(root, key, outputs, meta)
	if err != nil {
		return fmt.Errorf("cache the build %.12s: %w%s", key, err, hintFor(err))
	}
	data, err := m.encode()
	if err == nil {
		_, _, err = c.store(bytes.NewReader(data), func(string) string { return c.entryPath(key) })
		used(start, c.entryPath(key)) // before its objects were, see trim
	}
	if err != nil {
		return fmt.Errorf("cache the build %.12s: %w%s", key, err, hintFor(err))
	}
	return nil
}

// collect stores the contents of the outputs and returns their manifest.
func (c *Cache) collect(root *os.Root, key string, outputs []string, meta map[string]string) (*manifest, error) {
	k := &collector{cache: c, root: root, seen: map[string]bool{}, room: math.MaxInt64}
	var disk unix.Statfs_t
	if unix.Statfs(c.dir, &disk) == nil {
		k.room = int64(disk.Bavail) * disk.Bsize / 2
	}
	for _, out := range outputs {
		if err := k.output(out); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(k.items, func(a, b item) int { return strings.Compare(a.Path, b.Path) })
	m := &manifest{Key: key, Created: time.Now().UTC(), Meta: meta, Items: k.items}
	for _, out := range outputs {
		m.Outputs = append(m.Outputs, filepath.Clean(out))
	}
	return m, nil
}

// A collector gathers the items of one build.
type collector struct {
	cache *Cache
	root  *os.Root
	seen  map[string]bool // paths that items has or will have
	items []item
	room  int64 // bytes that the rest may take: a sparse file says it holds more than any disk
}

// output adds what one output names.
func (k *collector) output(out string) error {
	if !filepath.IsLocal(out) {
		return fmt.Errorf("output %q %w\nhint: outputs are paths relative to the build directory", out, errEscape)
	}
	names, err := expand(k.root, filepath.Clean(out))
	if err != nil {
		return fmt.Errorf("output %q: %w", out, err)
	}
	if len(names) == 0 {
		return fmt.Errorf("output %q: the build did not make it: %w\nhint: correct outputs in the configuration, or the build command", out, fs.ErrNotExist)
	}
	for _, name := range names {
		if err := k.add(name, 0); err != nil {
			return fmt.Errorf("output %q: %w", out, err)
		}
		if _, err := k.root.Stat(name); err != nil { // within directories such links are kept as they are
			return fmt.Errorf("output %q: a link that leads nowhere: %w", out, err)
		}
	}
	return nil
}

// expand returns the paths that an output names: itself if there is such a file, else what it matches.
func expand(root *os.Root, out string) ([]string, error) {
	_, err := root.Lstat(out)
	if err == nil {
		return []string{out}, nil
	}
	if !strings.ContainsAny(out, `*?[\`) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, escape(out, err)
	}
	return fs.Glob(root.FS(), filepath.ToSlash(out))
}

// escape names the one error of os.Root that has no value of its own.
func escape(path string, err error) error {
	if err != nil && strings.Contains(err.Error(), "escapes from parent") {
		return fmt.Errorf("%s %w", path, errEscape)
	}
	return err
}

// maxLinks bounds the links followed to reach one output, as the kernel does.
const maxLinks = 40

// add adds the file, directory or link at path. Links on the way to it are items of their own.
func (k *collector) add(path string, depth int) error {
	if depth > maxLinks {
		return fmt.Errorf("%s: too many links", path)
	}
	for i, r := range path {
		if r != filepath.Separator {
			continue
		}
		fi, err := k.root.Lstat(path[:i])
		if err != nil {
			return escape(path, err)
		}
		if fi.Mode().Type() != fs.ModeSymlink {
			continue
		}
		target, err := k.link(path[:i])
		if err != nil {
			return err
		}
		return k.add(filepath.Join(target, path[i:]), depth+1)
	}
	return k.leaf(path, depth)
}

// leaf adds what is at path, whose parents are real directories.
func (k *collector) leaf(path string, depth int) error {
	if k.seen[path] {
		return nil
	}
	fi, err := k.root.Lstat(path)
	if err != nil {
		return escape(path, err)
	}
	switch fi.Mode().Type() {
	case 0:
		return k.file(path)
	case fs.ModeDir:
		return k.dir(path, fi, depth)
	case fs.ModeSymlink:
		target, err := k.link(path)
		if err != nil {
			return err
		}
		return k.follow(path, target, depth)
	}
	return fmt.Errorf("%s is neither a file nor a directory nor a link (%v)", path, fi.Mode().Type())
}

// follow adds what the link at path points to; a link to nothing is kept as it is.
func (k *collector) follow(path, target string, depth int) error {
	if _, err := k.root.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return k.add(target, depth+1)
}

// link adds the link at path and returns the path that it leads to.
func (k *collector) link(path string) (string, error) {
	target, err := k.root.Readlink(path)
	if err != nil {
		return "", err
	}
	if !staysInside(path, target) {
		return "", fmt.Errorf("%s is a link to %s, which %w\nhint: make it a relative link or a copy", path, target, errEscape)
	}
	if !k.seen[path] {
		k.seen[path] = true
		k.items = append(k.items, item{Path: path, Type: typeLink, Target: target})
	}
	return filepath.Join(filepath.Dir(path), target), nil
}

// dir adds the directory at path and all that it holds.
func (k *collector) dir(path string, fi fs.FileInfo, depth int) error {
	k.seen[path] = true
	if path != "." {
		k.items = append(k.items, item{Path: path, Type: typeDir, Mode: fi.Mode().Perm()})
	}
	list, err := fs.ReadDir(k.root.FS(), filepath.ToSlash(path))
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := k.leaf(filepath.Join(path, d.Name()), depth); err != nil {
			return err
		}
	}
	return nil
}

// file stores the content of the file at path and adds it.
func (k *collector) file(path string) error {
	k.seen[path] = true
	// Without O_NONBLOCK a pipe put in the file's place would hold us for ever.
	f, err := k.root.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s was replaced while it was read", path)
	}
	if k.room -= fi.Size(); k.room < 0 {
		return fmt.Errorf("it takes more than half of what is free: %w", unix.ENOSPC)
	}
	sum, size, err := k.cache.store(f, k.cache.objectPath)
	if err != nil {
		return fmt.Errorf("store %s: %w", path, err)
	}
	k.items = append(k.items, item{Path: path, Type: typeFile, Mode: fi.Mode().Perm(), Size: size, SHA256: sum})
	return nil
}
