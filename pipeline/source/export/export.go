// Package export lays commits out in folders that can be built.
//
// An [Export] owns a private folder, the slot, and [Export.Switch] moves it from commit to commit.
// Only what differs is written, because make rebuilds what has a new time; what a build or anybody
// else has changed in the meantime is found by looking at the slot before each switch, and
// restored. A switch has three parts: a plan says what is to become of which path and reads objects
// only, a scan says what the slot really holds, and then the slot is changed.
//
// A commit that cannot be written as git would write it is refused before anything of it is
// written, and one that takes more of the disk than any commit should, as soon as that shows. Both
// are the commit's fault and no error of the machine. The package must not know ranges or why a
// commit is wanted, and the user's own files are only ever read.
package export

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/pipeline/folder"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gitdir"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// Export is a folder, the slot, that holds the files of one commit at a time. It belongs to one
// goroutine. Nothing else may change the slot during a call: end the build first.
type Export struct {
	// Paths are what the build reads, as in RangeOptions. A file outside them that cannot be
	// written faithfully gives a warning instead of an error, and so does one whose content is
	// missing where there are no Paths.
	Paths []string

	// Linked makes the slot a linked work tree of the repository, under this name; "" gives it a
	// git directory of its own.
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

// SwitchStats says what one switch did.
type SwitchStats struct {
	Written int  // files and links written, restored ones included
	Removed int  // files and links deleted because the commit lacks them
	Kept    int  // files and links left untouched
	Full    bool // the slot was filled from nothing
}

// New prepares dir as an empty slot, which stays when the Repo is closed. An existing folder is
// emptied, but only if it is a slot already (its state lies beside it in dir + ".state") or holds
// nothing.
func New(ctx context.Context, r *source.Repo, dir string) (*Export, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("export into %s: %w", dir, err)
	}
	from, list, held := source.Inside(r)
	// The folder is emptied below, so whatever must not be emptied is looked for first.
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

// refuseSlot keeps a slot from covering the user's files.
func refuseSlot(l objects.Layout, dir string) error {
	real := dir // which need not exist yet: only what is above it can be resolved
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

// Holds reports whether the commit in the slot has a file at a path, or files below it.
func (e *Export) Holds(full string) (file, below bool) {
	return e.held.tracked[full] != nil, e.held.places[full] != nil
}

// Dir is the absolute path of the slot.
func (e *Export) Dir() string { return e.dir }

// Warnings lists what the last successful Switch could not write faithfully outside Paths, and what
// it left out.
func (e *Export) Warnings() []string {
	missing, _ := e.Missing()
	return append(slices.Clone(e.warnings), missing...)
}

// Missing says which files of the commit are left out of the slot because the repository lacks
// their content: a sentence and a path, relative to the root, for each.
func (e *Export) Missing() (words, paths []string) {
	paths = slices.Sorted(maps.Keys(e.missing))
	for _, full := range paths {
		words = append(words, e.missing[full])
	}
	return words, paths
}

// Switch makes the slot hold a commit, given by its full id or as returned by Compose of the same
// Repo. Paths that are equal in the commit before are not touched; all that is written gets one
// time, later than that of anything in the slot. Files of the commit that a build has changed are
// restored. With clean everything else is deleted, and the modes of folders are restored, so that
// the slot equals a fresh checkout; without it build output stays.
//
// It fails with an *UnsupportedError before anything is changed where the commit cannot be written
// faithfully. After any other failure the next Switch fills the slot from nothing.
func (e *Export) Switch(ctx context.Context, commit string, clean bool) (SwitchStats, error) {
	c := &changer{ctx: ctx, e: e}
	if err := ctx.Err(); err != nil {
		return c.stats, err
	}
	if e.closed {
		return c.stats, fmt.Errorf("export into %s: already closed", e.dir)
	}
	p, err := newPlan(ctx, e)
	if err != nil {
		return c.stats, err
	}
	// A folder that was moved away or replaced is no longer the one whose content is known.
	if e.dirty || !e.slot.intact() {
		if err := e.reset(ctx); err != nil {
			return c.stats, err
		}
		clear(p.mods)
	}
	c.p, c.stats.Full = p, len(e.mods) == 0
	// A partial clone would otherwise fetch the objects one by one as they are read.
	if err := e.main.Objects.Prefetch(ctx, commit); err != nil {
		return c.stats, err
	}
	// The plan changes nothing: where the commit is refused, the slot keeps the one before.
	if err := p.to(commit); err != nil {
		return c.stats, err
	}
	seen, err := scan(ctx, e, clean)
	if err != nil {
		return c.stats, err
	}
	p.restore(seen.changed)
	e.dirty = true
	// The time is kept on disk before any file has it, so that no later session gives out an
	// earlier one.
	if len(p.puts)+len(p.dels)+len(seen.untracked) > 0 { // else nothing gets a time, as where the commit stays
		e.stamp = e.slot.nextStamp(e.stamp, seen.newest)
		if err := e.slot.saveState(slotState{Stamp: e.stamp.UnixNano()}); err != nil {
			return c.stats, err
		}
	}
	if err := c.run(seen.untracked); err != nil {
		return c.stats, err
	}
	e.mods, e.warnings, e.dirty = p.mods, p.warnings, false
	if err := e.writeGit(ctx, commit, c.stats.Full || c.stats.Written+c.stats.Removed > 0); err != nil {
		return c.stats, writeError(e.dir, "write its git directory", err)
	}
	return c.stats, e.slot.settle(ctx, e.stamp)
}

// forget drops what is known about the content of the slot.
func (e *Export) forget() {
	e.mods, e.missing, e.git = map[string]*module{}, map[string]string{}, map[string]*gitdir.Dir{}
	e.held = newHoldings()
	e.unwatch()
}

// reset empties the slot, whatever happened to it. The time of the last switch stays: what is
// written next is newer than what a build made before.
func (e *Export) reset(ctx context.Context) error {
	e.forget()
	return e.slot.renew(ctx)
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
