package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/kbisect/kbisect/pipeline/source/internal/packs"
)

// gogit is the back end without git: packs and loose objects are read by package packs, which
// serves all exports at once, references and what is too large for memory by the go-git library.
// Its storages are opened directly: go-git's own Open refuses configurations that do not matter for
// reading.
type gogit struct {
	Layout
	refStore *filesystem.Storage
	dirs     []string // own objects first, then alternates
	packs    *packs.Store
	users    *atomic.Int32 // of the packs
}

// Another implements Reader: the same one, which is closed with its last user.
func (g *gogit) Another() (Reader, error) {
	g.users.Add(1)
	return g, nil
}

// Open implements Reader.
func (g *gogit) Open(id string) (string, int64, io.ReadCloser, error) {
	o, err := g.packs.Open(id)
	if errors.Is(err, packs.ErrTooLarge) {
		o, err = g.large(plumbing.NewHash(id))
	}
	switch {
	case errors.Is(err, packs.ErrNotFound):
		return "", 0, nil, &MissingError{id}
	case errors.Is(err, packs.ErrDamaged):
		return "", 0, nil, Unreadable("object %s cannot be read: %v", id, err)
	case err != nil:
		return "", 0, nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return o.Kind, o.Size, checkContent(id, o.Kind, o.Size, o.Content, o.Whole), nil
}

// large opens an object that is packed as the difference to another and may not fit into memory.
func (g *gogit) large(id plumbing.Hash) (packs.Object, error) {
	for _, dir := range g.dirs {
		store := filesystem.NewObjectStorageWithOptions(dotgit.New(osfs.New(filepath.Dir(dir), osfs.WithBoundOS())),
			cache.NewObjectLRU(cache.MiByte), filesystem.Options{KeepDescriptors: true, LargeObjectThreshold: packs.Most})
		obj, err := store.EncodedObject(plumbing.AnyObject, id)
		if err == nil {
			var r io.ReadCloser
			if r, err = obj.Reader(); err == nil {
				return packs.Object{Kind: obj.Type().String(), Size: obj.Size(), Content: storedReader{r, store}}, nil
			}
		}
		store.Close()
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			return packs.Object{}, err
		}
		if !errors.Is(err, plumbing.ErrObjectNotFound) {
			return packs.Object{}, fmt.Errorf("%w: %w", packs.ErrDamaged, err)
		}
	}
	return packs.Object{}, packs.ErrNotFound
}

// Resolve knows full ids and the names of references, in git's order: the name itself, tags,
// branches, remotes. Anything else gives "": git is asked then.
func (g *gogit) Resolve(_ context.Context, rev string) (string, error) {
	switch {
	case IsID(rev):
		return rev, nil
	case rev == "@":
		rev = "HEAD"
	case rev == "" || strings.ContainsAny(rev, "@^~:?*[\\ ") || strings.Contains(rev, ".."):
		return "", nil
	}
	formats := []string{"%s", "refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s", "refs/remotes/%s/HEAD"}
	for _, format := range formats {
		// In the top folder only names such as HEAD and FETCH_HEAD are references.
		if format == "%s" && !strings.HasPrefix(rev, "refs/") && rev != strings.ToUpper(rev) {
			continue
		}
		if id, err := g.ref(fmt.Sprintf(format, rev)); err == nil && id != "" && strings.Trim(id, "0") != "" {
			return id, nil
		}
	}
	return "", nil
}

// ref returns the id a full reference name leads to, or "".
func (g *gogit) ref(name string) (string, error) {
	ref, err := storer.ResolveReference(g.refStore, plumbing.ReferenceName(name))
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read reference %s: %w", name, err)
	}
	return ref.Hash().String(), nil
}

// Refs are the short names of branches, tags and remote branches, as people type them.
func (g *gogit) Refs() ([]string, error) {
	iter, err := g.refStore.IterReferences()
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	var names []string
	err = iter.ForEach(func(r *plumbing.Reference) error {
		if n := r.Name(); n.IsBranch() || n.IsTag() || n.IsRemote() {
			names = append(names, n.Short())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	return names, nil
}

// Prefetch does nothing: a partial clone is left to git.
func (g *gogit) Prefetch(context.Context, string) error { return nil }

func (g *gogit) Name() string { return "go-git" }

// Parallel is true: package packs serves any number of goroutines.
func (g *gogit) Parallel() bool { return true }

// Close closes the files with the last of those who share them.
func (g *gogit) Close() error {
	if g.users.Add(-1) > 0 {
		return nil
	}
	return errors.Join(g.packs.Close(), g.refStore.Close())
}

// openGoGit opens packs and references. The cache of go-git is small, because it reads only what
// package packs leaves to it.
func openGoGit(l Layout) (*gogit, error) {
	dirs, err := objectDirs(filepath.Join(l.CommonDir, "objects"))
	if err != nil {
		return nil, err
	}
	store, err := packs.New(dirs)
	if err != nil {
		return nil, err
	}
	own, common := osfs.New(l.GitDir, osfs.WithBoundOS()), osfs.New(l.CommonDir, osfs.WithBoundOS())
	refs := filesystem.NewStorage(dotgit.NewRepositoryFilesystem(own, common), cache.NewObjectLRU(cache.MiByte))
	g := &gogit{Layout: l, refStore: refs, dirs: dirs, packs: store, users: &atomic.Int32{}}
	g.users.Add(1)
	return g, nil
}

// objectDirs returns dir and, recursively, the folders its alternates name. Alternates that name
// each other end the walk, as do more of them than anybody has.
func objectDirs(dir string) ([]string, error) {
	dirs, seen := []string{dir}, map[string]bool{dir: true}
	for i := 0; i < len(dirs) && len(dirs) < 64; i++ {
		data, err := os.ReadFile(filepath.Join(dirs[i], "info", "alternates"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read alternates: %w", err)
		}
		for line := range strings.SplitSeq(string(data), "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(dirs[i], line)
			}
			line = filepath.Clean(line)
			if filepath.Base(line) != "objects" || line[0] == '"' {
				return nil, fmt.Errorf("alternate %s cannot be read without git", line)
			}
			if !seen[line] {
				seen[line] = true
				dirs = append(dirs, line)
			}
		}
	}
	return dirs, nil
}

// storedReader closes the storage that it reads from.
type storedReader struct {
	io.ReadCloser
	store *filesystem.ObjectStorage
}

// Close implements io.Closer.
func (r storedReader) Close() error { return errors.Join(r.ReadCloser.Close(), r.store.Close()) }
