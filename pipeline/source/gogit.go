package source

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

const (
	objectCache = 48 << 20 // bytes a handle
	streamAbove = 1 << 20  // larger objects are streamed and not cached
)

// gogit is the back end on the go-git library. Storages are opened directly:
// go-git's own Open refuses configurations that do not matter for reading,
// and it opens an alternate anew for every object.
type gogit struct {
	layout
	refStore *filesystem.Storage
	stores   []*filesystem.ObjectStorage // own objects first, then alternates
	packTime time.Time                   // of objects/pack when the stores were opened
}

func openGoGit(l layout) (*gogit, error) {
	g := &gogit{layout: l}
	fsys := dotgit.NewRepositoryFilesystem(osfs.New(l.gitDir, osfs.WithBoundOS()), osfs.New(l.commonDir, osfs.WithBoundOS()))
	g.refStore = filesystem.NewStorage(fsys, cache.NewObjectLRU(cache.MiByte))
	return g, g.reopen()
}

// reopen lists the packs anew. go-git never notices that a gc has replaced them.
func (g *gogit) reopen() error {
	if err := g.closeStores(); err != nil {
		return err
	}
	g.packTime = packTime(g.commonDir)
	dirs, err := objectDirs(filepath.Join(g.commonDir, "objects"))
	if err != nil {
		return err
	}
	shared := cache.NewObjectLRU(objectCache)
	for _, dir := range dirs {
		fsys := osfs.New(filepath.Dir(dir), osfs.WithBoundOS())
		g.stores = append(g.stores, filesystem.NewObjectStorageWithOptions(dotgit.New(fsys), shared,
			filesystem.Options{KeepDescriptors: true, LargeObjectThreshold: streamAbove}))
	}
	return nil
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

// packTime changes when packs are added or removed.
func packTime(commonDir string) time.Time {
	fi, err := os.Stat(filepath.Join(commonDir, "objects", "pack"))
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}

// open opens an object, once more where it is missing and the packs are not those that were listed.
func (g *gogit) open(id string) (string, int64, io.ReadCloser, error) {
	kind, size, r, err := g.openOnce(id)
	// A gc or fetch may have replaced the packs since they were listed.
	if isMissing(err) && !packTime(g.commonDir).Equal(g.packTime) {
		if err := g.reopen(); err != nil {
			return "", 0, nil, err
		}
		return g.openOnce(id)
	}
	return kind, size, r, err
}

// openOnce looks an object up in the repository, then in its alternates.
func (g *gogit) openOnce(id string) (string, int64, io.ReadCloser, error) {
	if len(id) != 40 {
		return "", 0, nil, &MissingError{id}
	}
	hash := plumbing.NewHash(id)
	for i, store := range g.stores {
		if i+1 < len(g.stores) || i > 0 {
			if store.HasEncodedObject(hash) != nil {
				continue
			}
		}
		obj, err := store.EncodedObject(plumbing.AnyObject, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		}
		var r io.ReadCloser
		if err == nil {
			r, err = obj.Reader()
		}
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			return "", 0, nil, fmt.Errorf("read object %s: %w", id, err)
		}
		if err != nil {
			return "", 0, nil, unreadable("object %s cannot be read: %v", id, err)
		}
		kind, size := obj.Type().String(), obj.Size()
		return kind, size, checkContent(id, kind, size, r), nil
	}
	return "", 0, nil, &MissingError{id}
}

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

// abbreviated returns the ids that begin with prefix.
func (g *gogit) abbreviated(prefix string) ([]string, error) {
	raw, err := hex.DecodeString(prefix[:len(prefix)&^1])
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	var ids []string
	for _, store := range g.stores {
		hashes, err := store.HashesWithPrefix(raw)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", prefix, err)
		}
		for _, h := range hashes {
			if id := h.String(); strings.HasPrefix(id, prefix) && !found[id] {
				found[id] = true
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
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

func (g *gogit) closeStores() error {
	var errs []error
	for _, s := range g.stores {
		errs = append(errs, s.Close())
	}
	g.stores = nil
	return errors.Join(errs...)
}

func (g *gogit) close() error {
	return errors.Join(g.closeStores(), g.refStore.Close())
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
	ids, err := g.abbreviated(prefix)
	if err != nil {
		return "", err
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
	if base == "" {
		return nil
	}
	type scored struct {
		name string
		dist int
	}
	var near []scored
	seen := map[string]bool{}
	for _, name := range names {
		d := editDistance(strings.ToLower(base), strings.ToLower(name))
		if len(base) >= 3 && strings.Contains(strings.ToLower(name), strings.ToLower(base)) {
			d = min(d, 1)
		}
		if d <= max(1, len(base)/3) && !seen[name] {
			seen[name] = true
			near = append(near, scored{name, d})
		}
	}
	slices.SortFunc(near, func(a, b scored) int {
		if a.dist != b.dist {
			return a.dist - b.dist
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, s := range near[:min(3, len(near))] {
		out = append(out, s.name)
	}
	return out
}

// editDistance is Levenshtein's, on bytes.
func editDistance(a, b string) int {
	if len(a) > 200 || len(b) > 200 {
		return 200
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
