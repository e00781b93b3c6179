package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Export is a folder, the slot, that holds the files of one commit at a time.
// It belongs to one goroutine. Nothing else may change the slot during a
// call: end the build first.
type Export struct {
	// Paths are what the build reads, as in RangeOptions. A file outside them
	// that cannot be written faithfully gives a warning instead of an error, and
	// so does one whose content is missing where there are no Paths.
	Paths []string

	dir      string
	slot     *slot
	main     *handle
	subs     map[string]*handle // submodules' repositories by their folder
	mods     map[string]*module // what the slot holds, by prefix
	tracked  map[string]*tracked
	dirs     map[string]int // number of tracked paths below each folder
	closed   bool
	dirty    bool      // the slot holds something unknown
	stamp    time.Time // of the last hop
	warnings []string
	missing  map[string]string // what is left out since the repository lacks it, by path, in words
}

// tracked is a path that the slot holds for the commit.
type tracked struct {
	leaf
	seen fileStamp // as it was when written
}

// SwitchStats says what one hop did.
type SwitchStats struct {
	Written int  // files and links written, restored ones included
	Removed int  // files and links deleted because the commit lacks them
	Kept    int  // files and links left untouched
	Links   int  // of Written: symlinks; make does not look at their own times
	Full    bool // the slot was filled from nothing
	// Untracked counts files and whole folders that are not the commit's; they
	// were deleted with clean, else left alone.
	Untracked int
}

// Export prepares dir as an empty slot with its own handle on the objects. An
// existing folder is emptied, but only if it is a slot already (its state
// lies beside it in dir + ".state") or holds nothing.
func (r *Repo) Export(dir string) (*Export, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("export into %s: %w", dir, err)
	}
	if err := r.refuseOwnFolders(abs); err != nil {
		return nil, err
	}
	s, stamp, err := openSlot(abs)
	if err != nil {
		return nil, err
	}
	objs, _, err := openObjects(r.layout, r.feat)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("export into %s: %w", abs, err), s.close())
	}
	e := &Export{dir: abs, slot: s, stamp: stamp, main: newHandle(r.layout, overlay{objs, r.made}), subs: map[string]*handle{}}
	e.forget()
	return e, nil
}

func newHandle(l layout, o objects) *handle {
	return &handle{layout: l, objs: o, attrFiles: map[string][]attrFile{}}
}

// refuseOwnFolders keeps a slot from covering the user's files.
func (r *Repo) refuseOwnFolders(dir string) error {
	real := dir
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		real = filepath.Join(parent, filepath.Base(dir))
	}
	for _, own := range []string{r.workDir, r.gitDir, r.commonDir} {
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

// Dir is the absolute path of the slot.
func (e *Export) Dir() string { return e.dir }

// Warnings tells what the last successful Switch could not do faithfully
// outside Paths.
func (e *Export) Warnings() []string { return append(slices.Clone(e.warnings), e.Missing()...) }

// Missing tells which files of the commit are left out of the slot, since the
// repository lacks their content.
func (e *Export) Missing() (out []string) {
	for _, full := range slices.Sorted(maps.Keys(e.missing)) {
		out = append(out, e.missing[full])
	}
	return out
}

// MissingPaths are the paths of these files, relative to the top.
func (e *Export) MissingPaths() []string { return slices.Sorted(maps.Keys(e.missing)) }

// forget drops what is known of the slot's content.
func (e *Export) forget() {
	e.mods, e.tracked, e.dirs, e.missing = map[string]*module{}, map[string]*tracked{}, map[string]int{}, map[string]string{}
}

// Switch makes the slot hold a commit, given by its full id or as returned by
// [Diff.Apply] of the same Repo. Paths that are equal in the commit before are
// not touched; all that is written gets one time, later than that of anything
// in the slot. Files of the commit that a build has changed are restored. With
// clean everything else is deleted, so that the slot equals a fresh checkout;
// without it build output stays.
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
	p, err := e.newPlan(e.mods, func(u *UnsupportedError) error { return u })
	if err != nil {
		return stats, err
	}
	if e.dirty || !e.slot.intact() {
		if err := e.reset(); err != nil {
			return stats, err
		}
		clear(p.mods)
	}
	stats.Full = len(e.mods) == 0
	if pf, ok := e.main.objs.(prefetcher); ok {
		if err := pf.prefetch(ctx, commit); err != nil {
			return stats, err
		}
	}
	if err := p.to(commit); err != nil {
		return stats, err
	}
	seen, err := e.scan(clean)
	if err != nil {
		return stats, err
	}
	e.restoreInto(p, seen.changed)
	if err := e.checkNames(p); err != nil {
		return stats, err
	}
	stats.Untracked = len(seen.untracked)
	e.dirty = true
	e.stamp = e.slot.nextStamp(e.stamp, seen.newest)
	if err := e.slot.saveState(slotState{Tree: p.mods[""].tree, Dirty: true, Stamp: e.stamp.UnixNano()}); err != nil {
		return stats, err
	}
	if err := e.apply(ctx, p, seen, clean, &stats); err != nil {
		return stats, err
	}
	if err := e.slot.saveState(slotState{Tree: p.mods[""].tree, Stamp: e.stamp.UnixNano()}); err != nil {
		return stats, err
	}
	e.mods, e.warnings, e.dirty = p.mods, p.warnings, false
	return stats, e.slot.settle(ctx, e.stamp)
}

// reset empties the slot, whatever has become of it.
func (e *Export) reset() error {
	e.forget()
	return e.slot.renew()
}

// restoreInto plans to write the tracked files that the build has changed.
func (e *Export) restoreInto(p *plan, changed []string) {
	for _, full := range changed {
		if _, planned := p.puts[full]; !planned && !p.dels[full] {
			p.puts[full] = e.tracked[full].leaf
		}
	}
}

// checkNames refuses two names for one file where case does not count.
func (e *Export) checkNames(p *plan) error {
	if !e.slot.foldsCase {
		return nil
	}
	var wanted []string
	for full := range e.tracked {
		if !p.dels[full] {
			wanted = append(wanted, full)
		}
	}
	wanted = append(wanted, slices.Collect(maps.Keys(p.puts))...)
	slices.Sort(wanted)
	if a, b := clash(wanted); a != "" {
		return &UnsupportedError{Commit: p.mods[""].commit, Path: b, Attribute: "path",
			Reason: fmt.Sprintf("differs from %q only in case, and the file system at %s ignores case", a, e.dir),
			Hint:   "choose a folder on another file system"}
	}
	return nil
}

// apply changes the slot: what must go first goes first, deepest first.
func (e *Export) apply(ctx context.Context, p *plan, seen scanned, clean bool, stats *SwitchStats) error {
	if clean {
		for _, full := range seen.untracked {
			if err := e.slot.removeAll(full); err != nil {
				return err
			}
		}
	}
	if err := e.applyDeletes(ctx, p, stats); err != nil {
		return err
	}
	e.slot.trusted = map[string]bool{}
	for _, full := range slices.Sorted(maps.Keys(p.puts)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		delete(e.missing, full)
		err := e.write(p, full, p.puts[full], stats)
		if isMissing(err) && p.spares(full) {
			err = e.leaveOut(full, err)
		}
		if err != nil {
			return fmt.Errorf("commit %s: %w", short(p.mods[""].commit), err)
		}
	}
	for _, t := range e.tracked {
		if t.mode != modeGitlink {
			stats.Kept++
		}
	}
	stats.Kept -= stats.Written
	return nil
}

// leaveOut goes on without a file whose content the repository lacks.
func (e *Export) leaveOut(full string, why error) error {
	what, _, _ := strings.Cut(why.Error(), "\n")
	e.missing[full] = what + "; the file is left out"
	if e.tracked[full] == nil {
		return nil
	}
	e.untrack(full)
	return e.slot.removeFile(full)
}

func (e *Export) applyDeletes(ctx context.Context, p *plan, stats *SwitchStats) error {
	gone := slices.Sorted(maps.Keys(p.dels))
	slices.Reverse(gone)
	e.slot.trusted = map[string]bool{}
	for _, full := range gone {
		if err := ctx.Err(); err != nil {
			return err
		}
		delete(e.missing, full)
		t := e.tracked[full]
		if t == nil {
			continue
		}
		if t.mode != modeGitlink {
			if err := e.slot.removeFile(full); err != nil {
				return err
			}
			stats.Removed++
		}
		e.untrack(full)
	}
	return e.removeEmptyDirs(gone)
}

// removeEmptyDirs deletes the folders that the deleted paths have left empty.
// Those that hold build output stay.
func (e *Export) removeEmptyDirs(gone []string) error {
	folders := map[string]bool{}
	for _, full := range gone {
		folders[full] = true // it may have been a submodule
		for at := path.Dir(full); at != "."; at = path.Dir(at) {
			folders[at] = true
		}
	}
	order := slices.Sorted(maps.Keys(folders))
	slices.Reverse(order)
	for _, at := range order {
		if e.dirs[at] == 0 && e.tracked[at] == nil {
			if err := e.slot.removeIfEmptyDir(at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Export) track(full string, l leaf, seen fileStamp) {
	if e.tracked[full] == nil {
		for at := path.Dir(full); at != "."; at = path.Dir(at) {
			e.dirs[at]++
		}
	}
	e.tracked[full] = &tracked{l, seen}
}

func (e *Export) untrack(full string) {
	delete(e.tracked, full)
	for at := path.Dir(full); at != "."; at = path.Dir(at) {
		if e.dirs[at]--; e.dirs[at] == 0 {
			delete(e.dirs, at)
		}
	}
}

// Check lists what would keep Switch from writing a commit faithfully,
// without writing anything: Git LFS content and submodules that are not here,
// attributes that cannot be honoured, unsafe names.
func (e *Export) Check(commit string) ([]string, error) {
	var problems []string
	p, err := e.newPlan(nil, func(u *UnsupportedError) error {
		u.Commit = commit
		problems = append(problems, u.Error())
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = p.to(commit)
	if u := (*UnsupportedError)(nil); errors.As(err, &u) {
		return append(problems, u.Error()), nil
	}
	return append(problems, p.warnings...), err
}

// openSubmodule finds the repository that has a pinned commit; nil means that
// none has.
func (e *Export) openSubmodule(m *module, rel, full, commit string) (*module, error) {
	name, err := m.submoduleName(rel)
	if err != nil {
		return nil, err
	}
	for _, l := range m.submoduleDirs(rel, name) {
		h := e.subs[l.gitDir]
		if h == nil {
			feat, err := inspect(l)
			if err != nil {
				continue
			}
			objs, _, err := openObjects(l, feat)
			if err != nil {
				continue
			}
			h = newHandle(l, objs)
			e.subs[l.gitDir] = h
		}
		if kind, err := kindOf(h.objs, commit); err == nil && kind == "commit" {
			return newModule(h, full, commit)
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
	errs := []error{e.main.objs.close(), e.slot.close()}
	for _, h := range e.subs {
		errs = append(errs, h.objs.close())
	}
	clear(e.subs)
	return errors.Join(errs...)
}

// Remove closes the export and deletes its folder and state.
func (e *Export) Remove() error {
	err := e.Close()
	if rmErr := removeTree(e.dir); rmErr != nil {
		err = errors.Join(err, writeError(e.dir, "remove it", rmErr))
	}
	return errors.Join(err, os.Remove(stateFile(e.dir)))
}
