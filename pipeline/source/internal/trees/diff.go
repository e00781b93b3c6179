// Package trees compares the trees of commits.
//
// A [Walk] reports each file at which two trees differ as a [Change]. It is bounded by a [Size],
// because a few objects can name more files than a disk holds, and refuses names that cannot become
// files. The package must not know commits or the folders that trees are written into.
package trees

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// Change is one path at which two trees differ; nil means absent. It is about files, links and
// submodule pins, never about folders.
type Change struct {
	Path     string // relative to the root
	Folder   string // the deepest folder above it that both trees have; "." is the root
	Old, New *objects.Entry
}

// Walk bounds what is read of trees: thirty objects can name more files than any disk holds, and
// longer paths than memory does.
type Walk struct {
	Ctx       context.Context
	Most, met Size
}

// enter counts what is about to be read: the names of one folder, in the larger of its states.
func (w *Walk) enter(dir string, states ...[]objects.Entry) error {
	var here Size
	for _, entries := range states {
		paths := 0
		for _, e := range entries {
			paths += len(dir) + 1 + len(e.Name)
		}
		here = atLeast(here, Size{Entries: len(entries), Paths: paths})
	}
	w.met.Entries += here.Entries
	w.met.Paths += here.Paths
	return cmp.Or(w.met.Within(w.Most), w.Ctx.Err())
}

// Diff reports every leaf at which the trees before and after differ, reading only subtrees with
// different ids; "" is the empty tree. go-git's merkletrie would need an adapter as long as this
// function, and would accept trees that Git must not check out.
func (w *Walk) Diff(o objects.Reader, dir, before, after string, emit func(Change) error) error {
	return w.diff(o, dir, ".", before, after, emit)
}

// diff is Diff where folder is the deepest folder above dir that both trees have.
func (w *Walk) diff(o objects.Reader, dir, folder, before, after string, emit func(Change) error) error {
	if before == after {
		return nil
	}
	if before != "" && after != "" {
		folder = cmp.Or(dir, ".")
	}
	old, err := Sorted(o, before)
	if err != nil {
		return err
	}
	cur, err := Sorted(o, after)
	if err != nil {
		return err
	}
	if err := w.enter(dir, old, cur); err != nil {
		return err
	}
	for len(old) > 0 || len(cur) > 0 {
		var a, b *objects.Entry
		if len(cur) == 0 || len(old) > 0 && old[0].Name <= cur[0].Name {
			a = &old[0]
		}
		if len(old) == 0 || len(cur) > 0 && cur[0].Name <= old[0].Name {
			b = &cur[0]
		}
		if a != nil {
			old = old[1:]
		}
		if b != nil {
			cur = cur[1:]
		}
		if err := w.diffEntry(o, dir, folder, a, b, emit); err != nil {
			return err
		}
	}
	return nil
}

// diffEntry compares two entries of one name.
func (w *Walk) diffEntry(o objects.Reader, dir, folder string, a, b *objects.Entry, emit func(Change) error) error {
	if a != nil && b != nil && a.Mode == b.Mode && a.ID == b.ID {
		return nil
	}
	ch := Change{Folder: folder}
	var oldTree, newTree string
	if a != nil {
		ch.Path = path.Join(dir, a.Name)
		if a.IsTree() {
			oldTree = a.ID
		} else {
			ch.Old = a
		}
	}
	if b != nil {
		if err := CheckName(dir, b.Name); err != nil {
			return err
		}
		ch.Path = path.Join(dir, b.Name)
		if b.IsTree() {
			newTree = b.ID
		} else {
			ch.New = b
		}
	}
	if ch.Old != nil || ch.New != nil {
		if err := emit(ch); err != nil {
			return err
		}
	}
	return w.diff(o, ch.Path, folder, oldTree, newTree, emit)
}

// Sorted returns the entries in plain byte order of their names (Git's own order sorts folders as
// if they ended in a slash).
func Sorted(o objects.Reader, id string) ([]objects.Entry, error) {
	if id == "" {
		return nil, nil
	}
	entries, err := objects.ReadTree(o, id)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b objects.Entry) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].Name == entries[i-1].Name {
			return nil, &objects.UnsupportedError{Path: entries[i].Name, Attribute: "path",
				Reason: "tree " + objects.Short(id) + " has this name twice"}
		}
	}
	return entries, nil
}

// CheckName refuses a tree entry that cannot become a file: what could leave the folder, pass for a
// repository, or is longer than Linux takes.
func CheckName(dir, name string) error {
	const longestName, longestPath = 255, 4095
	reason := ""
	switch {
	case name == "", name == ".", name == "..", strings.ContainsAny(name, "/\x00"), strings.EqualFold(name, ".git"):
		reason = "unsafe name in the tree"
	case len(name) > longestName:
		reason = fmt.Sprintf("a name of %d bytes; the file system takes %d", len(name), longestName)
	case len(dir)+1+len(name) > longestPath:
		reason = fmt.Sprintf("a path of %d bytes; the system takes %d", len(dir)+1+len(name), longestPath)
	default:
		return nil
	}
	full := path.Join(dir, name)
	return &objects.UnsupportedError{Path: full[:min(len(full), longestName)], Attribute: "path", Reason: reason}
}
