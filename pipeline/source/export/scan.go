package export

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/folder"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// scanned is what a scan found.
type scanned struct {
	newest    time.Time  // of any file time met
	changed   []*tracked // that are not as they were written
	untracked []string   // files, and folders without tracked files, topmost only, that a clean switch removes
}

// meet keeps the newest time: make compares what is written next with every file in the slot,
// whoever made it.
func (s *scanned) meet(st *unix.Stat_t) {
	if t := time.Unix(st.Mtim.Unix()); t.After(s.newest) {
		s.newest = t
	}
}

// racy is how old the last change of a folder must be for its time to tell it from a later one:
// kernels before 6.13 step the times of files by up to 10 ms.
const racy = 20 * time.Millisecond

// scan compares the slot with what was written. With clean it does not look into untracked folders,
// which will be deleted; without it they are searched for the newest file.
//
// A folder whose own time of change, which no program can set, is the old one has the same names in
// it, and is not read. A file that was found as written is watched from before it was looked at,
// and not looked at again until something happens to it: to look at all of them is most of what a
// switch costs.
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
	if !clean {
		w.out.untracked = nil
	}
	return w.out, err
}

// hear notes which files something has happened to. The kernel drops events where too many wait,
// and then nothing is known of any file.
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

// unwatch ends the watch, so that the next scan looks at every file.
func (e *Export) unwatch() {
	e.watch.Close()
	e.watch, e.watched = nil, map[int32]*tracked{}
	for _, t := range e.held.order {
		t.watch, t.quiet = 0, false
	}
}

// scanner walks the slot.
type scanner struct {
	ctx     context.Context
	e       *Export
	clean   bool
	settled int64 // ns; a change before it is told from every later one
	out     scanned
	queue   []*tracked // files in folders that were not read
}

// dir looks at a folder with tracked paths. It goes from the top down: only what is in a folder
// that is as it was can be reached by its path.
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

// list reads a folder that is not known to hold what it did. How it looks is remembered only if it
// holds what it should and nothing else, and has not changed so lately that another change could
// have the same time.
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
		p.seen = fileStamp{}
		if changed == len(w.out.changed) && untracked == len(w.out.untracked) && seen.changed < w.settled {
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

// missed notes what a folder was to hold and does not, with all that was to be in folders which are
// none of these.
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

// files looks at those in folders that were not read, with several goroutines: each look is one
// system call, and projects have thousands of files. A file is watched before it is looked at, so
// that nothing happens to it unheard in between.
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
				if err != nil { // writing it will show why
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

// judge compares how a file looks with how it was written. One of which only the inode's time has
// changed is added to those that are alike: it has another name now, or was written and given its
// old time back, and its content must tell.
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

// compare reads files of which only the inode's change time differs (by a hard link that a compiler
// cache made, say).
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
