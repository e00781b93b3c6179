package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kbisect/kbisect/pipeline/folder"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// changer brings a slot from what it holds to what a plan says.
type changer struct {
	ctx   context.Context
	e     *Export
	p     *plan
	limit int64        // bytes that may be written in all
	room  atomic.Int64 // of these still to be written
	stats SwitchStats
}

// run removes what is not to stay before it writes anything, so that a folder can take the place of
// a file, and the other way round. Untracked are paths that a clean switch removes.
func (c *changer) run(untracked []string) error {
	e, p := c.e, c.p
	for _, full := range untracked {
		if err := e.slot.tree.RemoveAll(c.ctx, full); err != nil {
			return writeError(e.dir, "remove "+full, err)
		}
	}
	for prefix := range e.mods {
		if prefix != "" && p.mods[prefix] == nil {
			if err := e.slot.tree.RemoveAll(c.ctx, path.Join(prefix, ".git")); err != nil {
				return writeError(e.dir, "remove the git directory of "+prefix, err)
			}
			delete(e.git, prefix)
		}
	}
	if err := c.remove(); err != nil {
		return err
	}
	room, files := e.slot.free()
	if c.limit = room / 2; e.known.Get().Bytes > 0 { // else it is the first, as a rule the good end
		c.limit = max(trees.Spread*e.known.Get().Bytes, min(c.limit, p.walk.Most.Bytes))
	}
	if c.room.Store(c.limit); int64(len(p.puts)-len(e.held.tracked)) > files {
		return &objects.UnsupportedError{Commit: p.mods[""].commit, Attribute: "size",
			Reason: fmt.Sprintf("it has %d files, and the disk takes %d", len(p.puts), files)}
	}
	if err := c.put(); err != nil {
		return err
	}
	e.known.Add(e.held.sum)
	c.stats.Kept = e.held.sum.Entries - e.held.pins - c.stats.Written
	return nil
}

// remove removes what the wanted commit lacks, the deepest paths first, and then the folders that
// this empties. Those with build output stay.
func (c *changer) remove() error {
	held, tree := c.e.held, c.e.slot.tree
	var emptied []string
	for _, full := range slices.Backward(slices.Sorted(maps.Keys(c.p.dels))) {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		delete(c.e.missing, full)
		t := held.tracked[full]
		if t == nil {
			continue
		}
		if t.Mode == objects.ModeGitlink {
			emptied = append(emptied, full)
		} else {
			if err := tree.Remove(full); err != nil {
				return writeError(c.e.dir, "remove "+full, err)
			}
			c.stats.Removed++
		}
		emptied = append(emptied, held.untrack(full)...)
	}
	slices.Sort(emptied)
	for _, at := range slices.Backward(emptied) {
		if err := tree.RemoveEmpty(at); err != nil {
			return writeError(c.e.dir, "remove folder "+at, err)
		}
	}
	return nil
}

// writers is how many goroutines fill a slot, and chunk how many paths each takes at a time.
const (
	writers = 4
	chunk   = 32
)

// written is how the writing of one path ended.
type written struct {
	seen fileStamp
	err  error
}

// put writes what is planned. Folders come first, one after the other: then no file stands in the
// way of another, and several writers can share the rest. What the slot holds is noted at the end,
// by one goroutine.
func (c *changer) put() error {
	paths := slices.Sorted(maps.Keys(c.p.puts))
	todo, err := c.folders(paths)
	if err != nil {
		return err
	}
	wrote, whole := c.writeAll(paths, todo)
	for i, full := range paths {
		l, err := c.p.puts[full], wrote[i].err
		delete(c.e.missing, full)
		if c.leavesOut(full, err) {
			err = c.leaveOut(full, err)
		} else if err == nil && whole {
			c.e.held.track(full, l, wrote[i].seen)
			if l.Mode != objects.ModeGitlink {
				c.stats.Written++
			}
		}
		if err != nil {
			return c.blame(full, err)
		}
	}
	return nil
}

// folders makes those that the sorted paths lie in, and those of submodules, and returns the
// indices of the others: files and links to be written.
func (c *changer) folders(paths []string) (todo []int, err error) {
	last := ""
	for i, full := range paths {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		dir := above(full)
		if c.p.puts[full].Mode == objects.ModeGitlink {
			dir = full
		} else {
			todo = append(todo, i)
		}
		if dir != last && dir != "" {
			if err := c.e.slot.tree.Mkdir(dir); err != nil {
				return nil, c.blame(full, writeError(c.e.dir, "create folder "+dir, err))
			}
		}
		last = dir
	}
	return todo, nil
}

// writeAll writes some of the paths, by several goroutines where objects can be read in parallel.
// After an error the rest is not written, and whole is false.
func (c *changer) writeAll(paths []string, todo []int) (wrote []written, whole bool) {
	wrote = make([]written, len(paths))
	var next atomic.Int64
	var failed atomic.Bool
	write := func(tree *folder.Folder) {
		for {
			if tree == c.e.slot.tree {
				c.e.hear() // of what is written here, before it is too much for the queue
			}
			from := int(next.Add(chunk)) - chunk
			for _, i := range todo[min(from, len(todo)):min(from+chunk, len(todo))] {
				if wrote[i].err = c.ctx.Err(); wrote[i].err == nil && !failed.Load() {
					wrote[i].seen, wrote[i].err = c.write(tree, paths[i], c.p.puts[paths[i]])
				}
				if err := wrote[i].err; err != nil && !c.leavesOut(paths[i], err) {
					failed.Store(true)
				}
			}
			if from >= len(todo) {
				return
			}
		}
	}
	var others sync.WaitGroup
	for range c.writers(len(todo)) - 1 {
		tree, err := folder.Another(c.e.slot.tree)
		if err != nil {
			break // fewer writers do
		}
		others.Go(func() {
			defer tree.Close()
			write(tree)
		})
	}
	write(c.e.slot.tree)
	others.Wait()
	return wrote, !failed.Load()
}

// writers is how many goroutines are to write a number of files. Where objects are read one at a
// time, it is one.
func (c *changer) writers(files int) int {
	for _, m := range c.p.mods {
		if !m.repo.Objects.Parallel() {
			return 1
		}
	}
	return max(1, min(runtime.GOMAXPROCS(0), writers, files/chunk))
}

// leavesOut reports that the slot goes without a file, because the repository lacks its content and
// it is not known that the build reads it.
func (c *changer) leavesOut(full string, err error) bool {
	return objects.IsMissing(err) && c.p.optional(full)
}

// leaveOut goes on without such a file.
func (c *changer) leaveOut(full string, err error) error {
	var lost *objects.MissingError
	errors.As(err, &lost)
	c.e.missing[full] = fmt.Sprintf("%s: object %s is missing; the file is left out", full, lost.ID)
	if c.e.held.tracked[full] == nil {
		return nil
	}
	c.e.held.untrack(full)
	return c.e.slot.tree.Remove(full)
}

// write puts a file or link into the slot, stamps it, and tells how it looks from now on. Several
// goroutines may write, each through a folder of its own.
func (c *changer) write(tree *folder.Folder, full string, l leaf) (fileStamp, error) {
	m := c.p.mods[l.prefix]
	if l.Mode != objects.ModeLink {
		return c.writeFile(tree, m, full, l)
	}
	target, err := objects.Read(m.repo.Objects, l.ID, "blob")
	if err != nil {
		return fileStamp{}, err
	}
	if len(target) == 0 || bytes.IndexByte(target, 0) >= 0 { // any other may lead anywhere, as with git
		return fileStamp{}, &objects.UnsupportedError{Commit: m.commit, Path: full, Attribute: "symlink",
			Reason: "its target is not a path"}
	}
	return c.e.slot.symlink(c.ctx, tree, string(target), full, c.e.stamp)
}

// writeFile writes a file. Only the executable bit of its mode is of the commit, the rest is the
// umask of the user. A file that is as it was written is written into, which is faster than to make
// it anew; one that may have another name is not.
func (c *changer) writeFile(tree *folder.Folder, m *module, full string, l leaf) (fileStamp, error) {
	content, err := m.content(l)
	if err != nil {
		return fileStamp{}, err
	}
	defer content.Close()
	file := folder.File{Perm: 0o666, Time: c.e.stamp, Content: &limitedReader{content, c}}
	if l.Mode == objects.ModeExec {
		file.Perm = 0o777
	}
	if old := c.e.held.tracked[full]; old != nil && old.Mode == l.Mode {
		file.Own, file.Size = !old.touched, old.seen.size
	}
	return c.e.slot.write(c.ctx, tree, full, file)
}

// limitedReader reads no more than the disk has room for: a commit of a few bytes can unpack to
// more than it holds.
type limitedReader struct {
	io.Reader
	c *changer
}

// Read implements io.Reader.
func (l *limitedReader) Read(buf []byte) (int, error) {
	if err := l.c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := l.Reader.Read(buf)
	if l.c.room.Add(-int64(n)) < 0 {
		return 0, &objects.UnsupportedError{Attribute: "size",
			Reason: fmt.Sprintf("the files up to this one take more than %d bytes", l.c.limit),
			Hint:   trees.MoreThanOthers + ", and half of the free disk"}
	}
	return n, err
}

// blame tells what is wrong with the commit, names and amounts that no machine takes, from what is
// wrong with the machine.
func (c *changer) blame(full string, err error) error {
	commit := c.p.mods[""].commit
	var u *objects.UnsupportedError
	switch {
	case errors.As(err, &u):
		u.Commit, u.Path = commit, full
		return u
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EILSEQ):
		return &objects.UnsupportedError{Commit: commit, Path: full, Attribute: "path", Reason: err.Error()}
	}
	return fmt.Errorf("commit %s: %s: %w", objects.Short(commit), full, err)
}
