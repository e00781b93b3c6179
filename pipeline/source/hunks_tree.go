package source

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// treeEdit says what is to become of one name in a tree.
type treeEdit struct {
	gone bool   // the old leaf goes
	leaf *entry // the new one, or nil
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
	objs  objects
	made  *madeObjects
	idLen int // of ids in hex digits
}

// compose returns the id of a tree in which files have new states.
func (c *composer) compose(tree string, states []*fileState) (string, error) {
	root := &treeEdit{}
	for _, s := range states {
		s.edit(root, c)
	}
	id, err := c.tree(tree, "", root)
	if err == nil && id == "" {
		id = c.add("tree", "")
	}
	return id, err
}

// tree returns the id of a tree after edits, "" for one that is empty.
func (c *composer) tree(id, dir string, t *treeEdit) (string, error) {
	entries, err := sortedTree(c.objs, id)
	if err != nil {
		return "", err
	}
	byName := map[string]entry{}
	for _, e := range entries {
		byName[e.name] = e
	}
	for name, kid := range t.kids {
		e, err := c.entry(byName[name], join(dir, name), kid)
		if err != nil {
			return "", err
		}
		delete(byName, name)
		if e.id != "" {
			e.name = name
			byName[name] = e
		}
	}
	if len(byName) == 0 {
		return "", nil
	}
	return c.add("tree", encodeTree(byName)), nil
}

func join(dir, name string) string { return strings.TrimPrefix(dir+"/"+name, "/") }

// entry returns what stands under one name after edits; no id means nothing.
func (c *composer) entry(was entry, file string, t *treeEdit) (entry, error) {
	below, sub := "", ""
	if was.isTree() {
		below = was.id
	}
	if len(t.kids) > 0 {
		var err error
		if sub, err = c.tree(below, file, t); err != nil {
			return entry{}, err
		}
	} else {
		sub = below
	}
	stays := was.id != "" && !was.isTree() && !t.gone && t.leaf == nil
	switch {
	case sub != "" && (stays || t.leaf != nil):
		return entry{}, fmt.Errorf("%s cannot be both a file and a folder", file)
	case sub != "":
		return entry{mode: modeTree, id: sub}, nil
	case t.leaf != nil:
		return *t.leaf, nil
	case stays:
		return was, nil
	}
	return entry{}, nil
}

// encodeTree writes a tree object, folders sorted as if they ended in a slash.
func encodeTree(byName map[string]entry) string {
	entries := make([]entry, 0, len(byName))
	for _, e := range byName {
		entries = append(entries, e)
	}
	key := func(e entry) string {
		if e.isTree() {
			return e.name + "/"
		}
		return e.name
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(key(a), key(b)) })
	var b []byte
	for _, e := range entries {
		b = fmt.Appendf(b, "%o %s\x00", e.mode, e.name)
		b, _ = hex.AppendDecode(b, []byte(e.id)) // parsed from bytes before
	}
	return string(b)
}

// commit makes a commit object for a composed tree.
func (c *composer) commit(tree, from, to string) string {
	text := "tree " + tree + "\n"
	if from != "" {
		text += "parent " + from + "\n"
	}
	text += "author kbisect <> 0 +0000\ncommitter kbisect <> 0 +0000\n\nsome hunks of " + to + "\n"
	id := c.add("commit", text)
	c.made.setSides(id, from, to)
	return id
}

func (c *composer) add(kind, data string) string {
	return c.addLazy(kind, data, func() string { return data })
}

// addLazy keeps an object of which the content can be made again.
func (c *composer) addLazy(kind, data string, again func() string) string {
	id := objectID(kind, data, c.idLen)
	c.made.add(id, madeObject{kind: kind, size: int64(len(data)), data: again})
	return id
}

// objectID is the name under which Git would store an object.
func objectID(kind, data string, idLen int) string {
	text := fmt.Appendf(nil, "%s %d\x00%s", kind, len(data), data)
	if idLen == 64 {
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}
