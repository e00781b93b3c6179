package synthetic

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// Edit is what becomes of one path of a tree.
type Edit struct {
	Path string
	New  *objects.Entry // nil: what stood there goes
	// Content, if not nil, gives what New holds instead of the blob of its ID. It is called
	// whenever the file is read, so that the content need not be kept.
	Content func() string
}

// Compose makes the commit that has a tree of commit from after edits, and from as its parent. The
// edits lead towards commit to.
func Compose(o objects.Reader, into *Objects, tree, from, to string, edits []Edit) (string, error) {
	c := &composer{objs: o, made: into, idLen: len(to)}
	id, err := c.root(tree, edits)
	if err != nil {
		return "", err
	}
	return c.commit(id, from, to), nil
}

// treeEdit says what is to become of one name in a tree. A file may go and a folder come under one
// name, or the other way round, so it has room for both.
type treeEdit struct {
	gone bool           // the old leaf goes
	leaf *objects.Entry // the new one, or nil
	kids map[string]*treeEdit
}

// at returns the edit of a path below t.
func (t *treeEdit) at(file string) *treeEdit {
	for name := range strings.SplitSeq(file, "/") {
		kid := t.kids[name]
		if kid == nil {
			kid = &treeEdit{}
			if t.kids == nil {
				t.kids = map[string]*treeEdit{}
			}
			t.kids[name] = kid
		}
		t = kid
	}
	return t
}

// composer makes objects that are kept in memory.
type composer struct {
	objs  objects.Reader
	made  *Objects
	idLen int      // of ids in hex digits
	added []string // ids of what was made
}

// root returns the id of a tree after edits.
func (c *composer) root(tree string, edits []Edit) (string, error) {
	root := &treeEdit{}
	for _, e := range edits {
		at := root.at(e.Path)
		if e.New == nil {
			at.gone = true
			continue
		}
		leaf := *e.New
		if e.Content != nil {
			leaf.ID = c.addLazy("blob", e.Content(), e.Content)
		}
		at.leaf = &leaf
	}
	id, err := c.tree(tree, "", root)
	if err == nil && id == "" {
		id = c.add("tree", "")
	}
	return id, err
}

// tree returns the id of a tree after edits, "" for one that is empty.
func (c *composer) tree(id, dir string, t *treeEdit) (string, error) {
	entries, err := trees.Sorted(c.objs, id)
	if err != nil {
		return "", err
	}
	byName := map[string]objects.Entry{}
	for _, e := range entries {
		byName[e.Name] = e
	}
	for name, kid := range t.kids {
		e, err := c.entry(byName[name], join(dir, name), kid)
		if err != nil {
			return "", err
		}
		delete(byName, name)
		if e.ID != "" {
			e.Name = name
			byName[name] = e
		}
	}
	if len(byName) == 0 {
		return "", nil
	}
	return c.add("tree", encodeTree(byName)), nil
}

// entry returns what stands under one name after edits; no id means nothing.
func (c *composer) entry(was objects.Entry, file string, t *treeEdit) (objects.Entry, error) {
	below, sub := "", ""
	if was.IsTree() {
		below = was.ID
	}
	if len(t.kids) > 0 {
		var err error
		if sub, err = c.tree(below, file, t); err != nil {
			return objects.Entry{}, err
		}
	} else {
		sub = below
	}
	stays := was.ID != "" && !was.IsTree() && !t.gone && t.leaf == nil
	switch {
	case sub != "" && (stays || t.leaf != nil):
		return objects.Entry{}, fmt.Errorf("%s would be both a file and a folder", file)
	case sub != "":
		return objects.Entry{Mode: objects.ModeTree, ID: sub}, nil
	case t.leaf != nil:
		return *t.leaf, nil
	case stays:
		return was, nil
	}
	return objects.Entry{}, nil
}

// commit makes a commit object for a composed tree. It has no name and no date, so that equal trees
// between equal commits have one id, and what was measured of one serves the other.
func (c *composer) commit(tree, from, to string) string {
	text := "tree " + tree + "\n"
	if from != "" {
		text += "parent " + from + "\n"
	}
	text += "author kbisect <> 0 +0000\ncommitter kbisect <> 0 +0000\n\nsome hunks of " + to + "\n"
	id := c.add("commit", text)
	c.made.Commit(id, []string{from, to}, c.added)
	return id
}

func (c *composer) add(kind, data string) string {
	return c.addLazy(kind, data, func() string { return data })
}

// addLazy keeps an object by a function that makes its content: many sets of hunks are tried, and
// the contents of all their files need not fit into memory.
func (c *composer) addLazy(kind, data string, again func() string) string {
	id := nameOf(kind, data, c.idLen)
	c.made.Add(id, Object{Kind: kind, Size: int64(len(data)), Data: again})
	c.added = append(c.added, id)
	return id
}

func join(dir, name string) string { return strings.TrimPrefix(dir+"/"+name, "/") }

// encodeTree writes a tree object, folders sorted as if they ended in a slash.
func encodeTree(byName map[string]objects.Entry) string {
	entries := make([]objects.Entry, 0, len(byName))
	for _, e := range byName {
		entries = append(entries, e)
	}
	key := func(e objects.Entry) string {
		if e.IsTree() {
			return e.Name + "/"
		}
		return e.Name
	}
	slices.SortFunc(entries, func(a, b objects.Entry) int { return cmp.Compare(key(a), key(b)) })
	var b []byte
	for _, e := range entries {
		b = fmt.Appendf(b, "%o %s\x00", e.Mode, e.Name)
		b, _ = hex.AppendDecode(b, []byte(e.ID)) // parsed from bytes before
	}
	return string(b)
}
