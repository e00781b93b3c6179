package source

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// FileChange is one file that differs between a commit and its first parent.
type FileChange struct {
	Path    string // relative to the root; the new name of a renamed file
	OldPath string // only for renamed files
	// Kind is "added", "deleted", "modified", "renamed" (same content under
	// another name) or "mode" (same content, other kind of file).
	Kind string
}

// ChangedFiles compares a commit with its first parent, a root with the empty
// tree, sorted by path. Only unchanged files count as renamed.
func (r *Repo) ChangedFiles(id string) ([]FileChange, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.commit(id)
	if err != nil {
		return nil, err
	}
	before := ""
	if len(c.Parents) > 0 {
		p, err := r.commit(c.Parents[0])
		if err != nil {
			return nil, err
		}
		before = p.Tree
	}
	var changes []leafChange
	err = diffTrees(r.objs, "", before, c.Tree, func(ch leafChange) error {
		changes = append(changes, ch)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("changes of commit %s: %w", short(id), err)
	}
	return fileChanges(changes), nil
}

// leafChange is one path at which two trees differ; nil means absent. Leaves
// are files, symlinks and submodule pins, never folders.
type leafChange struct {
	path     string
	old, new *entry
}

func fileChanges(changes []leafChange) []FileChange {
	var out []FileChange
	gone := map[string][]string{} // blob id and mode to deleted paths
	for _, ch := range changes {
		if ch.new == nil {
			key := ch.old.id + fmt.Sprint(ch.old.mode)
			gone[key] = append(gone[key], ch.path)
		}
	}
	moved := map[string]bool{}
	for _, ch := range changes {
		switch {
		case ch.new == nil:
		case ch.old != nil && ch.old.id == ch.new.id:
			out = append(out, FileChange{Path: ch.path, Kind: "mode"})
		case ch.old != nil:
			out = append(out, FileChange{Path: ch.path, Kind: "modified"})
		default:
			fc := FileChange{Path: ch.path, Kind: "added"}
			key := ch.new.id + fmt.Sprint(ch.new.mode)
			if from := gone[key]; len(from) > 0 {
				fc.Kind, fc.OldPath = "renamed", from[0]
				gone[key], moved[from[0]] = from[1:], true
			}
			out = append(out, fc)
		}
	}
	for _, ch := range changes {
		if ch.new == nil && !moved[ch.path] {
			out = append(out, FileChange{Path: ch.path, Kind: "deleted"})
		}
	}
	slices.SortFunc(out, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// diffTrees reports every leaf at which the trees before and after differ,
// reading only subtrees with different ids; "" is the empty tree.
func diffTrees(o objects, dir, before, after string, emit func(leafChange) error) error {
	if before == after {
		return nil
	}
	old, err := sortedTree(o, before)
	if err != nil {
		return err
	}
	cur, err := sortedTree(o, after)
	if err != nil {
		return err
	}
	for len(old) > 0 || len(cur) > 0 {
		var a, b *entry
		if len(cur) == 0 || len(old) > 0 && old[0].name <= cur[0].name {
			a = &old[0]
		}
		if len(old) == 0 || len(cur) > 0 && cur[0].name <= old[0].name {
			b = &cur[0]
		}
		if a != nil {
			old = old[1:]
		}
		if b != nil {
			cur = cur[1:]
		}
		if err := diffEntry(o, dir, a, b, emit); err != nil {
			return err
		}
	}
	return nil
}

// diffEntry compares two entries of one name.
func diffEntry(o objects, dir string, a, b *entry, emit func(leafChange) error) error {
	if a != nil && b != nil && a.mode == b.mode && a.id == b.id {
		return nil
	}
	ch := leafChange{}
	var oldTree, newTree string
	if a != nil {
		ch.path = path.Join(dir, a.name)
		if a.isTree() {
			oldTree = a.id
		} else {
			ch.old = a
		}
	}
	if b != nil {
		if !safeName(b.name) {
			return &UnsupportedError{Path: dir + "/" + b.name, Attribute: "path", Reason: "unsafe name in the tree"}
		}
		ch.path = path.Join(dir, b.name)
		if b.isTree() {
			newTree = b.id
		} else {
			ch.new = b
		}
	}
	if ch.old != nil || ch.new != nil {
		if err := emit(ch); err != nil {
			return err
		}
	}
	return diffTrees(o, ch.path, oldTree, newTree, emit)
}

// sortedTree returns the entries in plain byte order of their names (Git's
// own order sorts folders as if they ended in a slash).
func sortedTree(o objects, id string) ([]entry, error) {
	if id == "" {
		return nil, nil
	}
	entries, err := readTree(o, id)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].name == entries[i-1].name {
			return nil, &UnsupportedError{Path: entries[i].name, Attribute: "path", Reason: "tree " + short(id) + " holds the name twice"}
		}
	}
	return entries, nil
}

// safeName reports whether a tree entry may become a file: what could leave
// the folder, or pass for a repository, may not.
func safeName(name string) bool {
	switch {
	case name == "", name == ".", name == "..":
		return false
	case strings.ContainsAny(name, "/\x00"):
		return false
	case strings.EqualFold(name, ".git"):
		return false
	}
	return true
}
