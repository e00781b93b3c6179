package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

// pathNode is one folder or file on the way to the chosen paths.
type pathNode struct {
	wanted bool // this path itself is chosen, with all below it
	kids   map[string]*pathNode
	order  []string // names of kids, sorted
}

// parsePaths cleans the chosen paths; the result is empty when they cover
// the whole tree.
func parsePaths(paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		clean := path.Clean(p)
		if p == "" || path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || strings.Contains(p, "\x00") {
			return nil, fmt.Errorf("path %q is not inside the repository\nhint: give paths relative to its root", p)
		}
		if clean == "." {
			return nil, nil
		}
		out = append(out, clean)
	}
	return out, nil
}

// covers reports whether file lies at or below one of the paths, or whether
// one of the paths lies below it. No paths cover everything.
func covers(paths []string, file string) bool {
	for _, p := range paths {
		if p == file || strings.HasPrefix(file, p+"/") || strings.HasPrefix(p, file+"/") {
			return true
		}
	}
	return len(paths) == 0
}

// keyer computes input fingerprints of trees.
type keyer struct {
	objs objects
	root *pathNode // nil: the whole tree
	memo map[keyMemo]string
}

type keyMemo struct {
	tree string
	node *pathNode
}

func newKeyer(o objects, paths []string) *keyer {
	k := &keyer{objs: o, memo: map[keyMemo]string{}}
	for _, p := range paths {
		if k.root == nil {
			k.root = &pathNode{}
		}
		k.root.add(strings.Split(p, "/"))
	}
	return k
}

func (n *pathNode) add(names []string) {
	if len(names) == 0 {
		n.wanted = true
		return
	}
	kid := n.kids[names[0]]
	if kid == nil {
		kid = &pathNode{}
		if n.kids == nil {
			n.kids = map[string]*pathNode{}
		}
		n.kids[names[0]] = kid
		n.order = append(n.order, names[0])
		slices.Sort(n.order)
	}
	kid.add(names[1:])
}

// key is the tree's id without paths, else a hash over the entries at the
// paths. An absent path contributes nothing.
func (k *keyer) key(tree string) (string, error) {
	if k.root == nil {
		return tree, nil
	}
	lines, err := k.lines(tree, "", k.root)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(lines))
	return hex.EncodeToString(sum[:]), nil
}

// lines lists the chosen entries below one tree. Results are remembered:
// neighbouring commits share most subtrees.
func (k *keyer) lines(tree, dir string, n *pathNode) (string, error) {
	memo := keyMemo{tree, n}
	if s, ok := k.memo[memo]; ok {
		return s, nil
	}
	entries, err := readTree(k.objs, tree)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range n.order {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
		if i < 0 {
			continue
		}
		e, kid, full := entries[i], n.kids[name], path.Join(dir, name)
		switch {
		case kid.wanted, e.mode == modeGitlink: // a pin stands for all in the submodule
			fmt.Fprintf(&b, "%q %o %s\n", full, e.mode, e.id)
		case e.isTree():
			sub, err := k.lines(e.id, full, kid)
			if err != nil {
				return "", err
			}
			b.WriteString(sub)
		}
	}
	k.memo[memo] = b.String()
	return b.String(), nil
}

// empty is the key of a tree that holds nothing; idLen is the length of an id
// in hex digits.
func (k *keyer) empty(idLen int) string {
	sum := sha256.Sum256(nil)
	switch {
	case k.root != nil:
		return hex.EncodeToString(sum[:])
	case idLen == 64:
		sum = sha256.Sum256([]byte("tree 0\x00"))
		return hex.EncodeToString(sum[:])
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}
