package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
	"github.com/xrash/smetrics"

	"github.com/kbisect/kbisect/pipeline/source/internal/packs"
)

// gogit is the back end without git: packs and loose objects are read by package packs, which serves all exports at once,
// references and what is too large for memory by the go-git library. Its storages are opened directly: go-git's own Open
// refuses configurations that do not matter for reading.
type gogit struct {
	layout
	refStore *filesystem.Storage
	dirs     []string // own objects first, then alternates
	packs    *packs.Store
	users    *atomic.Int32 // of the packs
}

func openGoGit(l layout) (*gogit, error) {
	dirs, err := objectDirs(filepath.Join(l.commonDir, "objects"))
	if err != nil {
		return nil, err
	}
	store, err := packs.New(dirs)
	if err != nil {
		return nil, err
	}
	fsys := dotgit.NewRepositoryFilesystem(osfs.New(l.gitDir, osfs.WithBoundOS()), osfs.New(l.commonDir, osfs.WithBoundOS()))
	g := &gogit{layout: l, refStore: filesystem.NewStorage(fsys, cache.NewObjectLRU(cache.MiByte)), dirs: dirs, packs: store, users: &atomic.Int32{}}
	g.users.Add(1)
	return g, nil
}

// another implements objects: the same one, which is closed with its last user.
func (g *gogit) another() (objects, error) {
	g.users.Add(1)
	return g, nil
}

// objectDirs returns dir and, recursively, the folders its alternates name.
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

// open implements objects.
func (g *gogit) open(id string) (string, int64, io.ReadCloser, error) {
	o, err := g.packs.Open(id)
	if errors.Is(err, packs.ErrTooLarge) {
		o, err = g.large(plumbing.NewHash(id))
	}
	switch {
	case errors.Is(err, packs.ErrNotFound):
		return "", 0, nil, &MissingError{id}
	case errors.Is(err, packs.ErrDamaged):
		return "", 0, nil, unreadable("object %s cannot be read: %v", id, err)
	case err != nil:
		return "", 0, nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return o.Kind, o.Size, checkContent(id, o.Kind, o.Size, o.Content, o.Whole), nil
}

// large opens an object that is packed as the difference to another and may not fit into memory.
func (g *gogit) large(id plumbing.Hash) (packs.Object, error) {
	for _, dir := range g.dirs {
		store := filesystem.NewObjectStorageWithOptions(dotgit.New(osfs.New(filepath.Dir(dir), osfs.WithBoundOS())), cache.NewObjectLRU(cache.MiByte),
			filesystem.Options{KeepDescriptors: true, LargeObjectThreshold: packs.Most})
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

// storedReader closes the storage that it reads from.
type storedReader struct {
	io.ReadCloser
	store *filesystem.ObjectStorage
}

// Close implements io.Closer.
func (r storedReader) Close() error { return errors.Join(r.ReadCloser.Close(), r.store.Close()) }

func (g *gogit) resolve(ctx context.Context, rev string) (string, error) {
	return resolveRev(ctx, g, rev)
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

// refs are the short names of branches, tags and remote branches, as people type them.
func (g *gogit) refs() ([]string, error) {
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

func (g *gogit) name() string { return "go-git" }

func (g *gogit) parallel() bool { return true }

func (g *gogit) close() error {
	if g.users.Add(-1) > 0 {
		return nil
	}
	return errors.Join(g.packs.Close(), g.refStore.Close())
}

// resolveRev understands names, ids and abbreviations with ^, ^N, ~N and
// ^{...} behind them. Anything else gives "": git is asked when it is there.
func resolveRev(ctx context.Context, g *gogit, rev string) (string, error) {
	base, ops := splitRev(rev)
	if base == "" || strings.Contains(base, "@{") || strings.ContainsAny(base, ":?*[\\ ") || strings.Contains(base, "..") {
		return "", nil
	}
	id, err := resolveBase(g, base)
	if err != nil || id == "" {
		return "", err
	}
	for _, op := range ops {
		if id, err = applyOp(ctx, g, id, op); err != nil || id == "" {
			return "", err
		}
	}
	return id, nil
}

// splitRev cuts "v1^2~3" into "v1" and {"^2", "~3"}.
func splitRev(rev string) (base string, ops []string) {
	end := strings.IndexAny(rev, "^~")
	if end < 0 {
		return rev, nil
	}
	base, rest := rev[:end], rev[end:]
	for rest != "" {
		next := strings.IndexAny(rest[1:], "^~") + 1
		if next == 0 {
			next = len(rest)
		}
		ops = append(ops, rest[:next])
		rest = rest[next:]
	}
	return base, ops
}

// resolveBase finds a name in git's order: the name itself, tags, branches,
// remotes, then abbreviated ids.
func resolveBase(g *gogit, base string) (string, error) {
	if base == "@" {
		base = "HEAD"
	}
	if isFullID(base) {
		return base, nil
	}
	for _, format := range []string{"%s", "refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s", "refs/remotes/%s/HEAD"} {
		name := fmt.Sprintf(format, base)
		// In the top folder only names such as HEAD and FETCH_HEAD are references.
		if format == "%s" && !strings.HasPrefix(base, "refs/") && base != strings.ToUpper(base) {
			continue
		}
		if id, err := g.ref(name); err == nil && id != "" && strings.Trim(id, "0") != "" {
			return id, nil
		}
	}
	if len(base) < 4 || len(base) > 40 || !isHex(strings.ToLower(base)) {
		return "", nil
	}
	return resolveAbbreviation(g, strings.ToLower(base))
}

// resolveAbbreviation prefers commits and tags, as git does where a commit is
// wanted.
func resolveAbbreviation(g *gogit, prefix string) (string, error) {
	ids, err := g.packs.Prefixed(prefix)
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", prefix, err)
	}
	var commits []string
	for _, id := range ids {
		if kind, err := kindOf(g, id); err == nil && (kind == "commit" || kind == "tag") {
			commits = append(commits, id)
		}
	}
	if len(commits) > 1 {
		slices.Sort(commits)
		return "", fmt.Errorf("abbreviation %s is ambiguous: %s\nhint: use more digits", prefix, strings.Join(commits, ", "))
	}
	if len(commits) == 1 {
		return commits[0], nil
	}
	return "", nil
}

// applyOp follows one "^N", "~N" or "^{commit}"; "" means that there is no such
// commit, or that git has to be asked.
func applyOp(ctx context.Context, o objects, id, op string) (string, error) {
	arg := op[1:]
	if strings.HasPrefix(arg, "{") {
		switch arg {
		case "{}", "{commit}":
			return peel(o, id)
		}
		return "", nil
	}
	id, err := peel(o, id)
	if err != nil {
		return "", err
	}
	n := 1
	if arg != "" {
		if n, err = strconv.Atoi(arg); err != nil || n < 0 {
			return "", nil
		}
	}
	if op[0] == '~' {
		return climb(ctx, o, id, n)
	}
	if n == 0 {
		return id, nil
	}
	return parentOf(o, id, n)
}

// climb goes n first parents back; "" where the history is not that long.
func climb(ctx context.Context, o objects, id string, n int) (string, error) {
	for range n {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		next, err := parentOf(o, id, 1)
		if err != nil || next == "" {
			return "", err
		}
		id = next
	}
	return id, nil
}

func parentOf(o objects, id string, n int) (string, error) {
	c, err := readCommit(o, id)
	if err != nil || n > len(c.Parents) {
		return "", err
	}
	return c.Parents[n-1], nil
}

// nearNames picks up to three names that a mistyped one may have meant.
func nearNames(rev string, names []string) []string {
	base, _ := splitRev(rev)
	if base == "" || len(base) > 200 {
		return nil
	}
	type scored struct {
		name string
		dist int
	}
	var near []scored
	seen := map[string]bool{}
	for _, name := range names {
		d := smetrics.WagnerFischer(strings.ToLower(base), strings.ToLower(name), 1, 1, 1)
		if len(base) >= 3 && strings.Contains(strings.ToLower(name), strings.ToLower(base)) {
			d = min(d, 1)
		}
		if d <= max(1, len(base)/3) && !seen[name] {
			seen[name] = true
			near = append(near, scored{name, d})
		}
	}
	slices.SortFunc(near, func(a, b scored) int { return cmp.Or(a.dist-b.dist, strings.Compare(a.name, b.name)) })
	var out []string
	for _, s := range near[:min(3, len(near))] {
		out = append(out, s.name)
	}
	return out
}
