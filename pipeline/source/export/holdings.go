package export

import (
	"context"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/folder"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// holdings are the paths that the slot holds for the commit. They are kept in three ways, because a
// plan asks for one path, a git index wants all of them in order, and a scan goes from folder to
// folder. Folders that hold nothing of the commit have no place: they are a build's.
type holdings struct {
	tracked map[string]*tracked
	order   []*tracked        // sorted by path
	places  map[string]*place // the folders with tracked paths in or below them; that of the root is ""
	sum     trees.Size        // of all
	pins    int               // submodules
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

// place is a folder with tracked paths in it or below.
type place struct {
	full  string
	files []*tracked // in no order
	kids  map[string]*place
	seen  fileStamp // as the folder looked when it held these and nothing else; zero where that is not known
}

// fileStamp is how a file looked when it was written. Any difference later means that something
// else has changed it.
type fileStamp struct {
	size    int64
	mode    uint32
	mtime   int64 // ns since 1970
	changed int64 // the inode's own change time, ns, where known
	inode   uint64
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
	at, _ := slices.BinarySearchFunc(h.order, full, func(t *tracked, full string) int {
		return strings.Compare(t.full, full)
	})
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

// track notes that the slot holds a path as it looks now. A file that was written anew is another
// inode, which the old watch hears nothing of.
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

// untrack forgets a path and returns the folders, the lowest first, below which the slot holds
// nothing more. What the folder looked like no longer tells what is in it.
func (h *holdings) untrack(full string) (emptied []string) {
	t, p := h.tracked[full], h.places[above(full)]
	last := p.files[len(p.files)-1] // takes the place of the one that goes
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

// Removed are files and folders of the commit that are no longer in the slot; of a folder only its own
// path. It reads the names in folders that have changed since a Switch read them.
func Removed(ctx context.Context, e *Export) []string {
	switch {
	case e.dirty || len(e.mods) == 0:
		return nil
	case !e.slot.intact():
		return []string{e.dir}
	}
	e.slot.tree.Rewind()
	removed := removedBelow(ctx, e, e.held.places[""])
	for _, d := range e.git {
		if path := d.Removed(); path != "" {
			removed = append(removed, path)
		}
	}
	for _, full := range e.Keep {
		if _, err := e.slot.tree.Stat(full); isGone(err) {
			removed = append(removed, full)
		}
	}
	return removed
}

// removedBelow are those in a folder and below it. A folder that looks as it did has lost none of its
// own files, but a folder below it may have: removing something changes the time of the folder that
// held it alone.
func removedBelow(ctx context.Context, e *Export, p *place) (removed []string) {
	st, err := folder.Look(e.slot.tree, p.full)
	if err == nil && stampOf(&st) != p.seen {
		var names map[string]bool
		names, err = folder.Names(ctx, e.slot.tree, p.full)
		for _, t := range p.files {
			if err == nil && !names[path.Base(t.full)] {
				removed = append(removed, t.full)
			}
		}
	}
	if isGone(err) {
		return append(removed, p.full)
	}
	for _, kid := range p.kids {
		removed = append(removed, removedBelow(ctx, e, kid)...)
	}
	return removed
}

// isGone reports that a path leads nowhere, or through something that is no longer a folder. One that
// cannot be read may still be there.
func isGone(err error) bool { return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP }
