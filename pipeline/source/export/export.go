// Package export lays commits out in folders that can be built.
//
// An [Export] owns a private folder, the slot, and [Export.Switch] moves it from commit to commit. Only what differs is
// written, because make rebuilds what has a new time; what a build or anybody else has changed in the meantime is found by
// looking at the slot before each switch, and restored. A switch has three parts: a plan says what is to become of which
// path and reads objects only, a scan says what the slot really holds, and then the slot is changed.
//
// A commit that cannot be written as git would write it, or that takes more of the disk than any commit of the repository
// should, is refused before anything of it is written; that is the commit's fault and no error of the machine. The package
// must not know ranges or why a commit is wanted, and the user's own files are only ever read.
package export

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/folder"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gitdir"
	"github.com/kbisect/kbisect/pipeline/source/internal/attributes"
	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
	"github.com/kbisect/kbisect/pipeline/source/internal/made"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// Export is a folder, the slot, that holds the files of one commit at a time.
// It belongs to one goroutine. Nothing else may change the slot during a
// call: end the build first.
type Export struct {
	// Paths are what the build reads, as in RangeOptions. A file outside them
	// that cannot be written faithfully gives a warning instead of an error, and
	// so does one whose content is missing where there are no Paths.
	Paths []string

	// Linked makes the slot a linked work tree of the repository, under this
	// name; "" gives it a git directory of its own.
	Linked string

	// Keep are paths that are not of the commit and that no Switch removes.
	Keep []string

	git      map[string]*gitdir.Dir // by the prefix of its module
	dir      string
	slot     *slot
	main     *handle
	subs     map[string]*handle // submodules' repositories by their folder
	mods     map[string]*module // whose trees the slot holds, by prefix
	held     *holdings
	watch    *folder.Watch      // of the files; nil where it cannot be trusted
	watched  map[int32]*tracked // by the numbers of the watch
	deaf     bool               // too much happens here for a watch
	scans    int
	closed   bool
	dirty    bool      // the slot holds something unknown
	stamp    time.Time // of the last switch
	warnings []string
	missing  map[string]string // why a file is left out, by path
	known    *trees.Held       // of the commits that exports of the Repo have held
}

// tracked is a path that the slot holds for the commit.
type tracked struct {
	leaf
	full    string
	seen    fileStamp // as it was when written
	touched bool      // by something else since then: it may have another name, and is never written into
	met     int       // the last scan that listed it
	at      int       // in the files of its folder
	watch   int32     // its number in the watch; 0 where it is not watched
	quiet   bool      // it is watched, and nothing has happened to it since it was seen
}

// holdings are the paths that the slot holds for the commit.
type holdings struct {
	tracked map[string]*tracked
	order   []*tracked        // sorted by path
	places  map[string]*place // the folders with tracked paths in or below them; that of the root is ""
	sum     trees.Size        // of all
	pins    int               // submodules
}

// place is a folder with tracked paths in it or below.
type place struct {
	full  string
	files []*tracked // in no order
	kids  map[string]*place
	seen  fileStamp // as the folder looked when it held these and nothing else; zero where that is not known
}

func newHoldings() *holdings {
	return &holdings{tracked: map[string]*tracked{}, places: map[string]*place{"": {kids: map[string]*place{}}}}
}

// place is that of a folder, made if needed.
func (h *holdings) place(full string) *place {
	p := h.places[full]
	if p == nil {
		p = &place{full: full, kids: map[string]*place{}}
		h.places[full] = p
		h.place(above(full)).kids[full] = p
	}
	return p
}

// where is where a path stands in the order.
func (h *holdings) where(full string) int {
	if n := len(h.order); n == 0 || h.order[n-1].full < full { // as while an empty slot is filled
		return n
	}
	at, _ := slices.BinarySearchFunc(h.order, full, func(t *tracked, full string) int { return strings.Compare(t.full, full) })
	return at
}

// count adds what a path holds, or takes it away.
func (h *holdings) count(t *tracked, sign int) {
	h.sum.Entries += sign
	h.sum.Paths += sign * len(t.full)
	h.sum.Bytes += int64(sign) * t.seen.size
	if t.Mode == objects.ModeGitlink {
		h.pins += sign
	}
}

func (h *holdings) track(full string, l leaf, seen fileStamp) {
	t := h.tracked[full]
	if t == nil {
		p := h.place(above(full))
		t = &tracked{full: full, at: len(p.files)}
		h.tracked[full], p.files = t, append(p.files, t)
		h.order = slices.Insert(h.order, h.where(full), t)
	} else {
		h.count(t, -1)
	}
	if t.seen.inode != seen.inode {
		t.watch = 0
	}
	t.leaf, t.seen, t.touched, t.quiet = l, seen, false, false
	h.count(t, 1)
}

// untrack returns the folders, the lowest first, below which the slot holds nothing more.
func (h *holdings) untrack(full string) (emptied []string) {
	t, p := h.tracked[full], h.places[above(full)]
	last := p.files[len(p.files)-1]
	p.files[t.at], last.at = last, t.at
	p.files = p.files[:len(p.files)-1]
	at := h.where(full)
	h.order = slices.Delete(h.order, at, at+1)
	delete(h.tracked, full)
	h.count(t, -1)
	p.seen = fileStamp{}
	for p.full != "" && len(p.files)+len(p.kids) == 0 {
		delete(h.places, p.full)
		emptied = append(emptied, p.full)
		up := h.places[above(p.full)]
		delete(up.kids, p.full)
		up.seen = fileStamp{} // the folder may stay in it, for what a build has put there
		p = up
	}
	return emptied
}

// above is the folder that holds a path, "" for the root.
func above(full string) string { return full[:max(0, strings.LastIndexByte(full, '/'))] }

// SwitchStats says what one switch did.
type SwitchStats struct {
	Written int  // files and links written, restored ones included
	Removed int  // files and links deleted because the commit lacks them
	Kept    int  // files and links left untouched
	Links   int  // of Written: symlinks; make does not look at their own times
	Full    bool // the slot was filled from nothing
}

// New prepares dir as an empty slot, which stays when the Repo is closed. An existing folder is emptied, but only if it is a
// slot already (its state lies beside it in dir + ".state") or holds nothing.
func New(ctx context.Context, r *source.Repo, dir string) (*Export, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("export into %s: %w", dir, err)
	}
	from, list, held := source.Inside(r)
	if err := refuseSlot(from.Layout, abs); err != nil {
		return nil, err
	}
	s, stamp, err := openSlot(ctx, abs)
	if err != nil {
		return nil, err
	}
	if from.Objects, err = from.Objects.Another(); err != nil {
		return nil, errors.Join(fmt.Errorf("export into %s: %w", abs, err), s.close())
	}
	e := &Export{dir: abs, slot: s, stamp: stamp, main: newHandle(from, list), known: held, subs: map[string]*handle{}}
	e.forget()
	return e, nil
}

func newHandle(r objects.Repo, list *commits.List) *handle {
	return &handle{Repo: r, list: list, surveyed: map[string]survey{}}
}

// refuseSlot keeps a slot from covering the user's files.
func refuseSlot(l objects.Layout, dir string) error {
	real := dir
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		real = filepath.Join(parent, filepath.Base(dir))
	}
	for _, own := range []string{l.WorkDir, l.GitDir, l.CommonDir} {
		if own == "" {
			continue
		}
		rel, err := filepath.Rel(real, own)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return fmt.Errorf("export into %s: it holds the repository itself\nhint: choose another folder", dir)
		}
	}
	return nil
}

// Holds reports whether the commit in the slot has a file at a path, or files
// below it.
func (e *Export) Holds(full string) (file, below bool) {
	return e.held.tracked[full] != nil, e.held.places[full] != nil
}

// Dir is the absolute path of the slot.
func (e *Export) Dir() string { return e.dir }

// Warnings lists what the last successful Switch could not write faithfully
// outside Paths.
func (e *Export) Warnings() []string { return append(slices.Clone(e.warnings), e.Missing()...) }

// Missing says which files of the commit are left out of the slot because the
// repository lacks their content.
func (e *Export) Missing() (out []string) {
	for _, full := range slices.Sorted(maps.Keys(e.missing)) {
		out = append(out, e.missing[full])
	}
	return out
}

// MissingPaths are the paths of these files, relative to the root.
func (e *Export) MissingPaths() []string { return slices.Sorted(maps.Keys(e.missing)) }

// forget drops what is known about the content of the slot.
func (e *Export) forget() {
	e.mods, e.missing, e.git = map[string]*module{}, map[string]string{}, map[string]*gitdir.Dir{}
	e.held = newHoldings()
	e.unwatch()
}

// unwatch ends the watch, so that the next scan looks at every file.
func (e *Export) unwatch() {
	e.watch.Close()
	e.watch, e.watched = nil, map[int32]*tracked{}
	for _, t := range e.held.order {
		t.watch, t.quiet = 0, false
	}
}

// hear notes which files something has happened to.
func (e *Export) hear() {
	whole := e.watch.Hear(func(id int32, gone bool) {
		t := e.watched[id]
		if t != nil && t.watch == id {
			if t.quiet = false; gone {
				t.watch = 0
			}
		}
		if gone {
			delete(e.watched, id)
		}
	})
	if !whole { // as they would be again
		e.unwatch()
		e.deaf = true
	}
}

// Switch makes the slot hold a commit, given by its full id or as returned by
// Compose of the same Repo. Paths that are equal in the commit before are
// not touched; all that is written gets one time, later than that of anything
// in the slot. Files of the commit that a build has changed are restored. With
// clean everything else is deleted, and the modes of folders are restored, so
// that the slot equals a fresh checkout; without it build output stays.
//
// It fails with an *UnsupportedError before anything is changed where the
// commit cannot be written faithfully. After any other failure the next
// Switch fills the slot from nothing.
func (e *Export) Switch(ctx context.Context, commit string, clean bool) (SwitchStats, error) {
	var stats SwitchStats
	if err := ctx.Err(); err != nil {
		return stats, err
	}
	if e.closed {
		return stats, fmt.Errorf("export into %s: already closed", e.dir)
	}
	p, err := newPlan(ctx, e)
	if err != nil {
		return stats, err
	}
	if e.dirty || !e.slot.intact() {
		if err := e.reset(ctx); err != nil {
			return stats, err
		}
		clear(p.mods)
	}
	stats.Full = len(e.mods) == 0
	if pf, ok := e.main.Objects.(objects.Prefetcher); ok {
		if err := pf.Prefetch(ctx, commit); err != nil {
			return stats, err
		}
	}
	if err := p.to(commit); err != nil {
		return stats, err
	}
	seen, err := scan(ctx, e, clean)
	if err != nil {
		return stats, err
	}
	p.restore(seen.changed)
	if err := e.checkNames(p); err != nil {
		return stats, err
	}
	e.dirty = true
	if len(p.puts)+len(p.dels) > 0 || clean && len(seen.untracked) > 0 { // else nothing gets a time, as where the commit stays
		e.stamp = e.slot.nextStamp(e.stamp, seen.newest)
		if err := e.slot.saveState(slotState{Stamp: e.stamp.UnixNano()}); err != nil {
			return stats, err
		}
	}
	if err := e.apply(ctx, p, seen, clean, &stats); err != nil {
		return stats, err
	}
	e.mods, e.warnings, e.dirty = p.mods, p.warnings, false
	if err := e.writeGit(ctx, commit, stats.Full || stats.Written+stats.Removed > 0); err != nil {
		return stats, writeError(e.dir, "write its git directory", err)
	}
	return stats, e.slot.settle(ctx, e.stamp)
}

// writeGit gives the slot, and every submodule in it, the git directory of a fresh
// checkout: HEAD is the commit, and the index lists its files as unchanged.
func (e *Export) writeGit(ctx context.Context, commit string, changed bool) error {
	stale := changed
	for prefix, m := range e.mods {
		if d := e.git[prefix]; d == nil || !d.Of(m.repo.git) {
			if m.repo.git == nil {
				var err error
				if m.repo.git, err = m.repo.readGit(ctx); err != nil {
					return err
				}
			}
			linked := e.Linked
			if prefix != "" {
				linked = ""
			}
			e.git[prefix] = m.repo.git.Dir(filepath.Join(e.dir, filepath.FromSlash(prefix)), linked)
		}
		stale = stale || e.git[prefix].Touched()
	}
	entries := map[string][]gitdir.Entry{}
	if stale {
		entries[""] = make([]gitdir.Entry, 0, len(e.held.order))
		for _, t := range e.held.order {
			rel := strings.TrimPrefix(strings.TrimPrefix(t.full, t.prefix), "/")
			entries[t.prefix] = append(entries[t.prefix], gitdir.Entry{Path: rel, Mode: t.Mode, ID: t.ID, Size: t.seen.size, Mtime: t.seen.mtime, Changed: t.seen.changed, Inode: t.seen.inode})
		}
	}
	for prefix, m := range e.mods {
		head := m.commit
		if o, ok := m.repo.Objects.(made.Overlay); ok {
			head = o.Base(commit)
		}
		var index []byte
		if stale {
			index = gitdir.Index(entries[prefix])
		}
		if err := e.git[prefix].Write(ctx, head, index); err != nil {
			return err
		}
	}
	return nil
}

// readGit reads what git directories of exports take from the repository.
func (h *handle) readGit(ctx context.Context) (*gitdir.Repo, error) {
	refs, err := h.Command(ctx, "for-each-ref", gitdir.RefFormat).Output()
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("read the references of %s: %w", h.CommonDir, err)
	}
	return gitdir.Read(h.CommonDir, h.Features.Extensions, string(refs)), nil
}

// Digest is equal for two moments in which an export of the same commit holds the same: tags, attributes and the
// configuration of filters are. Branches and remotes do not count.
func Digest(ctx context.Context, r *source.Repo) (string, error) {
	from, _, _ := source.Inside(r)
	dir, err := newHandle(from, nil).readGit(ctx)
	if err != nil {
		return "", fmt.Errorf("read the settings of %s: %w", from.CommonDir, err)
	}
	sum, counts := sha256.New(), true
	config, _ := os.ReadFile(filepath.Join(from.CommonDir, "config")) // it was read when the repository was opened
	for line := range bytes.Lines(config) {
		if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("[")) {
			counts = !bytes.HasPrefix(line, []byte("[branch ")) && !bytes.HasPrefix(line, []byte("[remote "))
		}
		if counts {
			fmt.Fprintf(sum, "%s\n", line)
		}
	}
	fmt.Fprintln(sum, dir.Digest())
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// reset empties the slot, whatever happened to it.
func (e *Export) reset(ctx context.Context) error {
	e.forget()
	return e.slot.renew(ctx)
}

// restore plans to write the tracked files that the build has changed.
func (p *plan) restore(changed []*tracked) {
	for _, t := range changed {
		t.touched = true
		if _, planned := p.puts[t.full]; !planned && !p.dels[t.full] {
			p.puts[t.full] = t.leaf
		}
	}
}

// checkNames rejects paths that are one file where the file system ignores case.
func (e *Export) checkNames(p *plan) error {
	if !e.slot.foldsCase {
		return nil
	}
	var wanted []string
	for full := range e.held.tracked {
		if !p.dels[full] {
			wanted = append(wanted, full)
		}
	}
	wanted = append(wanted, slices.Collect(maps.Keys(p.puts))...)
	slices.Sort(wanted)
	if a, b := clash(wanted); a != "" {
		return &objects.UnsupportedError{Commit: p.mods[""].commit, Path: b, Attribute: "path",
			Reason: fmt.Sprintf("differs from %q only in case, and the file system at %s ignores case", a, e.dir),
			Hint:   "choose a folder on another file system"}
	}
	return nil
}

// apply changes the slot: deletions come first, deepest paths before others.
func (e *Export) apply(ctx context.Context, p *plan, seen scanned, clean bool, stats *SwitchStats) error {
	if clean {
		for _, full := range seen.untracked {
			if err := e.slot.tree.RemoveAll(ctx, full); err != nil {
				return writeError(e.dir, "remove "+full, err)
			}
		}
	}
	for prefix := range e.mods {
		if prefix != "" && p.mods[prefix] == nil {
			if err := e.slot.tree.RemoveAll(ctx, path.Join(prefix, ".git")); err != nil {
				return writeError(e.dir, "remove the git directory of "+prefix, err)
			}
			delete(e.git, prefix)
		}
	}
	if err := e.applyDeletes(ctx, p, stats); err != nil {
		return err
	}
	room, files := e.slot.free()
	if p.limit = room / 2; e.known.Get().Bytes > 0 { // else it is the first, as a rule the good end
		p.limit = max(trees.Spread*e.known.Get().Bytes, min(p.limit, p.walk.Most.Bytes))
	}
	if p.room.Store(p.limit); int64(len(p.puts)-len(e.held.tracked)) > files {
		return &objects.UnsupportedError{Commit: p.mods[""].commit, Attribute: "size", Reason: fmt.Sprintf("it has %d files, and the disk takes %d", len(p.puts), files)}
	}
	if err := e.applyPuts(ctx, p, stats); err != nil {
		return err
	}
	e.known.Add(e.held.sum)
	stats.Kept = e.held.sum.Entries - e.held.pins - stats.Written
	return nil
}

// writers is how many goroutines fill a slot, and chunk how many paths each takes at a time.
const (
	writers = 4
	chunk   = 32
)

// applyPuts writes what is planned. Folders come first, one after the other: then no file stands in the way of another, and
// several writers can share the rest.
func (e *Export) applyPuts(ctx context.Context, p *plan, stats *SwitchStats) error {
	puts := slices.Sorted(maps.Keys(p.puts))
	wrote := make([]struct {
		seen fileStamp
		err  error
	}, len(puts))
	var todo []int // files and links
	last := ""
	for i, full := range puts {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir := above(full)
		if p.puts[full].Mode == objects.ModeGitlink {
			dir = full
		} else {
			todo = append(todo, i)
		}
		if dir != last && dir != "" {
			if err := e.slot.tree.Mkdir(dir); err != nil {
				return p.blame(full, writeError(e.dir, "create folder "+dir, err))
			}
		}
		last = dir
	}
	var next atomic.Int64
	var failed atomic.Bool
	write := func(tree *folder.Folder) {
		for {
			if tree == e.slot.tree {
				e.hear() // of what is written here, before it is too much for the queue
			}
			from := int(next.Add(chunk)) - chunk
			for _, i := range todo[min(from, len(todo)):min(from+chunk, len(todo))] {
				if wrote[i].err = ctx.Err(); wrote[i].err == nil && !failed.Load() {
					wrote[i].seen, wrote[i].err = e.write(ctx, tree, p, puts[i], p.puts[puts[i]])
				}
				if err := wrote[i].err; err != nil && !p.leavesOut(puts[i], err) {
					failed.Store(true)
				}
			}
			if from >= len(todo) {
				return
			}
		}
	}
	var others sync.WaitGroup
	for range p.writers(len(todo)) - 1 {
		tree, err := folder.Another(e.slot.tree)
		if err != nil {
			break // there are others
		}
		others.Go(func() {
			defer tree.Close()
			write(tree)
		})
	}
	write(e.slot.tree)
	others.Wait()
	for i, full := range puts {
		l, err := p.puts[full], wrote[i].err
		delete(e.missing, full)
		if p.leavesOut(full, err) {
			err = e.leaveOut(full, err)
		} else if err == nil && !failed.Load() {
			e.held.track(full, l, wrote[i].seen)
			if l.Mode != objects.ModeGitlink {
				stats.Written++
			}
			if l.Mode == objects.ModeLink {
				stats.Links++
			}
		}
		if err != nil {
			return p.blame(full, err)
		}
	}
	return nil
}

// leaveOut goes on without a file whose content the repository lacks.
func (e *Export) leaveOut(full string, err error) error {
	var lost *objects.MissingError
	errors.As(err, &lost)
	e.missing[full] = fmt.Sprintf("%s: object %s is missing; the file is left out", full, lost.ID)
	if e.held.tracked[full] == nil {
		return nil
	}
	e.held.untrack(full)
	return e.slot.tree.Remove(full)
}

// applyDeletes removes what the wanted commit lacks, and the folders that this
// empties. Those with build output stay.
func (e *Export) applyDeletes(ctx context.Context, p *plan, stats *SwitchStats) error {
	gone := slices.Sorted(maps.Keys(p.dels))
	slices.Reverse(gone)
	var emptied []string
	for _, full := range gone {
		if err := ctx.Err(); err != nil {
			return err
		}
		delete(e.missing, full)
		t := e.held.tracked[full]
		if t == nil {
			continue
		}
		if t.Mode == objects.ModeGitlink {
			emptied = append(emptied, full)
		} else {
			if err := e.slot.tree.Remove(full); err != nil {
				return writeError(e.dir, "remove "+full, err)
			}
			stats.Removed++
		}
		emptied = append(emptied, e.held.untrack(full)...)
	}
	slices.Sort(emptied)
	slices.Reverse(emptied)
	for _, at := range emptied {
		if err := e.slot.tree.RemoveEmpty(at); err != nil {
			return writeError(e.dir, "remove folder "+at, err)
		}
	}
	return nil
}

// openSubmodule finds the repository that has a pinned commit; nil means that
// none has.
func (p *plan) openSubmodule(m *module, rel, full, commit string) (*module, error) {
	name, err := m.submoduleName(rel)
	if err != nil {
		return nil, err
	}
	for _, l := range m.submoduleDirs(rel, name) {
		h := p.e.subs[l.GitDir]
		if h == nil {
			from, _, err := objects.Open(l)
			if err != nil {
				continue
			}
			h = newHandle(from, nil)
			p.e.subs[l.GitDir] = h
		}
		if kind, err := objects.Kind(h.Objects, commit); err == nil && kind == "commit" {
			return newModule(p.walk, h, full, commit)
		}
	}
	return nil, nil
}

// Close releases the handles and keeps the folder.
func (e *Export) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	e.watch.Close()
	errs := []error{e.main.Objects.Close(), e.slot.close()}
	for _, h := range e.subs {
		errs = append(errs, h.Objects.Close())
	}
	if d := e.git[""]; d != nil {
		errs = append(errs, d.Unlink())
	}
	clear(e.subs)
	return errors.Join(errs...)
}

// write puts a file or link into the slot, stamps it, and tells how it looks from now on. Several goroutines may write, each
// through a folder of its own.
func (e *Export) write(ctx context.Context, tree *folder.Folder, p *plan, full string, l leaf) (fileStamp, error) {
	if l.Mode == objects.ModeLink {
		return e.writeLink(ctx, tree, p, full, l)
	}
	return e.writeFile(ctx, tree, p, full, l)
}

// writeLink creates a symlink; its target may lead anywhere, as with git.
func (e *Export) writeLink(ctx context.Context, tree *folder.Folder, p *plan, full string, l leaf) (fileStamp, error) {
	m := p.mods[l.prefix]
	target, err := objects.Read(m.repo.Objects, l.ID, "blob")
	if err != nil {
		return fileStamp{}, err
	}
	if len(target) == 0 || bytes.IndexByte(target, 0) >= 0 {
		return fileStamp{}, &objects.UnsupportedError{Commit: m.commit, Path: full, Attribute: "symlink", Reason: "its target is not a path"}
	}
	return e.slot.symlink(ctx, tree, string(target), full, e.stamp)
}

// writeFile writes a file. Only the executable bit of its mode is of the commit,
// the rest is the umask of the user.
func (e *Export) writeFile(ctx context.Context, tree *folder.Folder, p *plan, full string, l leaf) (fileStamp, error) {
	content, err := p.mods[l.prefix].content(l)
	if err != nil {
		return fileStamp{}, err
	}
	defer content.Close()
	file := folder.File{Perm: 0o666, Time: e.stamp, Content: p.limited(content)}
	if l.Mode == objects.ModeExec {
		file.Perm = 0o777
	}
	if old := e.held.tracked[full]; old != nil && old.Mode == l.Mode {
		file.Own, file.Size = !old.touched, old.seen.size
	}
	return e.slot.write(ctx, tree, full, file)
}

// content opens what a file is to hold: the blob, with converted line endings,
// or the Git LFS content that it points to.
func (m *module) content(l leaf) (io.ReadCloser, error) {
	if l.treat.LFS {
		ptr, ok, err := readLFSPointer(m.repo.Objects, l.ID)
		if err != nil {
			return nil, err
		}
		if file := ""; ok {
			if file = m.repo.lfsFile(ptr); file != "" {
				return os.Open(file)
			}
		}
	}
	if l.treat.Ends != attributes.AsIs {
		blob, err := objects.Read(m.repo.Objects, l.ID, "blob")
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(l.treat.Ends.Convert(blob))), nil
	}
	kind, _, r, err := m.repo.Objects.Open(l.ID)
	if err != nil {
		return nil, err
	}
	if kind != "blob" {
		r.Close()
		return nil, fmt.Errorf("object %s is a %s, not a blob", l.ID, kind)
	}
	return r, nil
}

// holds reports whether a file or link in the slot is as the commit has it.
func (m *module) holds(s *slot, full string, l leaf) (bool, error) {
	if l.Mode == objects.ModeLink {
		want, err := objects.Read(m.repo.Objects, l.ID, "blob")
		if err != nil {
			return false, fmt.Errorf("%s: %w", full, err)
		}
		got, err := s.tree.Readlink(full)
		return err == nil && got == string(want), nil
	}
	want, err := m.content(l)
	if err != nil {
		return false, fmt.Errorf("%s: %w", full, err)
	}
	defer want.Close()
	got, err := s.tree.Read(full)
	if err != nil {
		return false, nil // unreadable now: rewritten
	}
	defer got.Close()
	return equalReaders(got, want)
}

// equalReaders compares two contents. An error of a means that they differ, one
// of b is returned: a is in the slot, b comes from the repository.
func equalReaders(a, b io.Reader) (bool, error) {
	bufA, bufB := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, errA := io.ReadFull(a, bufA)
		m, errB := io.ReadFull(b, bufB)
		endA, endB := isEnd(errA), isEnd(errB)
		if errA != nil && !endA {
			return false, nil
		}
		if errB != nil && !endB {
			return false, errB
		}
		if n != m || !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		if endA || endB {
			return endA == endB, nil
		}
	}
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// fileStamp is how a file looked when it was written. Any difference later
// means that something else has changed it.
type fileStamp struct {
	size    int64
	mode    uint32
	mtime   int64 // ns since 1970
	changed int64 // the inode's own change time, ns, where known
	inode   uint64
}

// scanned is what a scan found.
type scanned struct {
	newest    time.Time  // of any file time met
	changed   []*tracked // that are not as they were written
	untracked []string   // files, and folders without tracked files; topmost only
}

func (s *scanned) meet(st *unix.Stat_t) {
	if t := time.Unix(st.Mtim.Unix()); t.After(s.newest) {
		s.newest = t
	}
}

// racy is how old the last change of a folder must be for its time to tell it from a later one: kernels before 6.13 step the
// times of files by up to 10 ms.
const racy = 20 * time.Millisecond

// scan compares the slot with what was written. With clean it skips untracked folders, which will be deleted.
//
// A folder whose own time of change, which no program can set, is the old one has the same names in it, and is not read. A
// file that was found as written is watched from before it was looked at, and not looked at again until something happens
// to it: to look at all of them is most of what a switch costs.
func scan(ctx context.Context, e *Export, clean bool) (scanned, error) {
	e.slot.tree.Rewind()
	e.scans++
	if e.watch == nil && !e.deaf && len(e.held.order) > 0 {
		e.watch = folder.NewWatch(e.slot.tree)
	}
	e.hear()
	w := &scanner{ctx: ctx, e: e, clean: clean, settled: time.Now().Add(-racy - 2*e.slot.grain).UnixNano()}
	err := w.dir("", e.held.places[""])
	if err == nil {
		err = w.files()
	}
	return w.out, err
}

// Lost are files and folders of the commit that are in the slot no more; of a folder only its own path. It reads the names in
// folders that have changed since a Switch read them.
func Lost(ctx context.Context, e *Export) []string {
	switch {
	case e.dirty || len(e.mods) == 0:
		return nil
	case !e.slot.intact():
		return []string{e.dir}
	}
	e.slot.tree.Rewind()
	lost := lostBelow(ctx, e, e.held.places[""])
	for _, d := range e.git {
		if path := d.Lost(); path != "" {
			lost = append(lost, path)
		}
	}
	for _, full := range e.Keep {
		if _, err := e.slot.tree.Stat(full); isGone(err) {
			lost = append(lost, full)
		}
	}
	return lost
}

func lostBelow(ctx context.Context, e *Export, p *place) (lost []string) {
	st, err := folder.Look(e.slot.tree, p.full)
	if err == nil && stampOf(&st) != p.seen {
		var names map[string]bool
		names, err = folder.Names(ctx, e.slot.tree, p.full)
		for _, t := range p.files {
			if err == nil && !names[path.Base(t.full)] {
				lost = append(lost, t.full)
			}
		}
	}
	if isGone(err) {
		return append(lost, p.full)
	}
	for _, kid := range p.kids {
		lost = append(lost, lostBelow(ctx, e, kid)...)
	}
	return lost
}

func isGone(err error) bool { return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP }

// scanner walks the slot.
type scanner struct {
	ctx     context.Context
	e       *Export
	clean   bool
	settled int64 // ns; a change before it is told from every later one
	out     scanned
	queue   []*tracked // files in folders that were not read
}

// dir looks at a folder with tracked paths. It goes from the top down: only what is in a folder that is as it was can be
// reached by its path.
func (w *scanner) dir(dir string, p *place) error {
	mode := w.e.slot.folders
	if dir == "" {
		mode = w.e.slot.top
	}
	st, err := folder.Look(w.e.slot.tree, dir)
	if err == nil && w.clean && st.Mode != mode {
		err = w.e.slot.tree.Chmod(cmp.Or(dir, "."), mode)
		if err == nil {
			st, err = folder.Look(w.e.slot.tree, dir)
		}
	}
	if err != nil {
		return writeError(w.e.dir, "look at folder "+dir, err)
	}
	w.out.meet(&st)
	seen := stampOf(&st)
	if p == nil || p.seen != seen {
		return w.list(dir, p, seen)
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	for _, t := range p.files {
		if t.Mode != objects.ModeGitlink {
			if !t.quiet {
				w.queue = append(w.queue, t)
			}
		} else if w.e.held.places[t.full] == nil {
			if err := w.dir(t.full, nil); err != nil {
				return err
			}
		}
	}
	for full, kid := range p.kids {
		if err := w.dir(full, kid); err != nil {
			return err
		}
	}
	return nil
}

// list reads a folder that is not known to hold what it did.
func (w *scanner) list(dir string, p *place, seen fileStamp) error {
	_, top := w.e.mods[dir]
	var alike []*tracked      // files to be read
	var below, other []string // folders with tracked paths, and without
	changed, untracked := len(w.out.changed), len(w.out.untracked)
	err := w.e.slot.tree.List(w.ctx, dir, func(name string, st *unix.Stat_t) error {
		if name == ".git" && (top || dir == "") {
			return nil // every switch writes it
		}
		w.out.meet(st)
		full, isDir := name, folder.IsDir(st)
		if dir != "" {
			full = dir + "/" + name
		}
		t := w.e.held.tracked[full]
		switch {
		case isDir && (w.e.held.places[full] != nil || t != nil && t.Mode == objects.ModeGitlink):
			if t != nil {
				t.met = w.e.scans
			}
			below = append(below, full)
		case t != nil && !isDir && t.Mode != objects.ModeGitlink:
			t.met = w.e.scans
			alike = w.judge(t, st, &w.out, alike)
		case slices.Contains(w.e.Keep, full):
			untracked = -1 // the folder holds more than is tracked
		default:
			w.out.untracked = append(w.out.untracked, full)
			if isDir && !w.clean {
				other = append(other, full)
			}
		}
		return nil
	})
	if err != nil {
		return writeError(w.e.dir, "read folder "+dir, err)
	}
	if p != nil {
		w.missed(p, below)
		if p.seen = (fileStamp{}); changed == len(w.out.changed) && untracked == len(w.out.untracked) && seen.changed < w.settled {
			p.seen = seen
		}
	}
	if err := w.compare(alike); err != nil {
		return err
	}
	for _, full := range other {
		if w.out.newest, err = w.e.slot.tree.Newest(w.ctx, full, w.out.newest); err != nil {
			return writeError(w.e.dir, "read folder "+full, err)
		}
	}
	for _, full := range below {
		if err := w.dir(full, w.e.held.places[full]); err != nil {
			return err
		}
	}
	return nil
}

// missed notes what a folder was to hold and does not, with all that was to be in folders which are none of these.
func (w *scanner) missed(p *place, folders []string) {
	for _, t := range p.files {
		if t.met != w.e.scans {
			w.out.changed = append(w.out.changed, t)
		}
	}
	for full, kid := range p.kids {
		if folders == nil || !slices.Contains(folders, full) {
			w.missed(kid, nil)
		}
	}
}

// files looks at those in folders that were not read, with several goroutines.
func (w *scanner) files() error {
	parts := make([]struct {
		out   scanned
		alike []*tracked
	}, max(1, min(runtime.GOMAXPROCS(0), writers, len(w.queue)/256)))
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() {
			part := &parts[i]
			for _, t := range w.queue[i*len(w.queue)/len(parts) : (i+1)*len(w.queue)/len(parts)] {
				if t.watch == 0 {
					t.watch = w.e.watch.Add(t.full)
				}
				st, err := folder.Look(w.e.slot.tree, t.full)
				if err != nil { // whoever writes it will tell
					part.out.changed = append(part.out.changed, t)
				} else {
					t.quiet = t.watch != 0 && stampOf(&st) == t.seen
					part.alike = w.judge(t, &st, &part.out, part.alike)
				}
			}
		})
	}
	all.Wait()
	for _, t := range w.queue {
		if t.watch != 0 {
			w.e.watched[t.watch] = t
		}
	}
	for _, part := range parts {
		w.out.changed = append(w.out.changed, part.out.changed...)
		if part.out.newest.After(w.out.newest) {
			w.out.newest = part.out.newest
		}
		if err := w.compare(part.alike); err != nil {
			return err
		}
	}
	return w.ctx.Err()
}

// judge compares how a file looks with how it was written. One to be read is added to those that are alike.
func (w *scanner) judge(t *tracked, st *unix.Stat_t, out *scanned, alike []*tracked) []*tracked {
	out.meet(st)
	now := stampOf(st)
	if now == t.seen {
		return alike
	}
	if now.changed = t.seen.changed; now == t.seen && !w.clean { // in a fresh checkout nothing is linked
		return append(alike, t)
	}
	out.changed = append(out.changed, t)
	return alike
}

// compare reads files of which only the inode's change time differs (by a hard link that a compiler cache made, say).
func (w *scanner) compare(alike []*tracked) error {
	for _, t := range alike {
		same, err := w.e.mods[t.prefix].holds(w.e.slot, t.full, t.leaf)
		if err != nil {
			return err
		}
		if !same {
			w.out.changed = append(w.out.changed, t)
			continue
		}
		st, err := w.e.slot.tree.Stat(t.full)
		if err != nil {
			return writeError(w.e.dir, "read "+t.full, err)
		}
		t.seen, t.touched = stampOf(&st), true
	}
	return nil
}
