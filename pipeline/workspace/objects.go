package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Objects is what builds have compiled, kept for later ones of the same job, see package compilers. Several goroutines
// may use it.
type Objects struct {
	Since time.Time // before which nothing was compiled

	dir   string
	apart atomic.Bool
	kept  atomic.Bool // see Kept
	base  atomic.Pointer[string]
}

// ObjectsOf are those for the builds of a workspace; nil if each compiles everything. In a sandbox it does: nothing that
// one candidate writes reaches another.
func ObjectsOf(w *Workspace) *Objects {
	if o := w.root.Objects; w.root.Sandbox == nil && !o.apart.Load() {
		return o
	}
	return nil
}

// Dir is the folder, which exists unless it cannot be made.
func (o *Objects) Dir() string {
	_ = os.MkdirAll(o.dir, 0o777) // without it everything is compiled
	return o.dir
}

// Kept reports whether any were kept: a build that follows another one of the same commit is then probably a copy.
func (o *Objects) Kept() bool {
	if !o.kept.Load() {
		entries, _ := os.ReadDir(o.dir)
		o.kept.Store(slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			return strings.HasSuffix(e.Name(), ".o") && !strings.HasPrefix(e.Name(), "new.")
		}))
	}
	return o.kept.Load() && !o.apart.Load()
}

// Base is the commit with which others are compared: the first that was asked for.
func (o *Objects) Base(commit string) string {
	o.base.CompareAndSwap(nil, &commit)
	return *o.base.Load()
}

// Drop makes every build compile everything from now on, and reports whether none was told so before.
func (o *Objects) Drop() bool { return !o.apart.Swap(true) }

// mostObjects bounds what is kept, in bytes.
const mostObjects = 1 << 30

// trim removes everything if it is more than so many bytes. Builds that go on meanwhile compile what is gone.
func (o *Objects) trim(most int64) {
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return // none were kept
	}
	var bytes int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
	}
	if bytes <= most {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "new.") { // being written
			os.Remove(filepath.Join(o.dir, e.Name()))
		}
	}
}
