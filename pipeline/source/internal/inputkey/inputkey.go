// Package inputkey tells whether two trees have the same inputs: it makes a fingerprint of the chosen paths of a tree
// ([Keys]). It reads only the folders on the way to those, each once, and can keep what it found in a file for the
// next process. It gets tree objects from its caller and must not read a repository.
package inputkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/cachefile"
)

// Kinds of entries in a tree object, as the upper bits of their modes tell them.
const (
	folder = 0o040000
	link   = 0o120000
	pin    = 0o160000 // a submodule's commit (gitlink)
)

// through is the line of a link at or on the way to a chosen path. Other lines begin with a quote.
const through = "link\n"

// ErrMalformed is the error of a tree object that cannot be parsed.
var ErrMalformed = errors.New("malformed")

// Entries calls do for every entry of a tree object with ids of idLen bytes (20 or 32): its canonical mode, its
// name and its id, which are parts of data. The format is "MODE NAME\0ID", repeated.
func Entries(data []byte, idLen int, do func(mode uint32, name, id []byte)) error {
	for n := 0; len(data) > 0; n++ {
		space := bytes.IndexByte(data, ' ')
		if space < 1 {
			return fmt.Errorf("%w: truncated after %d entries", ErrMalformed, n)
		}
		end := space + 1 + bytes.IndexByte(data[space+1:], 0)
		if end <= space || len(data) < end+1+idLen {
			return fmt.Errorf("%w: truncated after %d entries", ErrMalformed, n)
		}
		mode := uint32(0)
		for _, c := range data[:space] {
			if c < '0' || c > '7' || mode>>29 != 0 {
				return fmt.Errorf("%w: mode %q", ErrMalformed, data[:space])
			}
			mode = mode<<3 | uint32(c-'0')
		}
		do(canonical(mode), data[space+1:end], data[end+1:end+1+idLen])
		data = data[end+1+idLen:]
	}
	return nil
}

// canonical maps the modes of old histories (100664 and the like) to the five that git writes today.
func canonical(mode uint32) uint32 {
	switch kind := mode & 0o170000; {
	case kind == folder, kind == pin, kind == link:
		return kind
	case mode&0o100 != 0:
		return 0o100755
	}
	return 0o100644
}

// node is one folder or file on the way to the chosen paths. Together the nodes are a tree of path components.
type node struct {
	name   string
	path   string            // from the root
	wanted bool              // this path itself is chosen, with everything below it
	kids   []*node           // sorted by name
	lines  map[string]string // what lines returned for the folders found here, by id in bytes
}

// add adds a path, as its components below n.
func (n *node) add(names []string) {
	if len(names) == 0 {
		n.wanted = true
		return
	}
	at, found := slices.BinarySearchFunc(n.kids, names[0], func(k *node, name string) int { return strings.Compare(k.name, name) })
	if !found {
		n.kids = slices.Insert(n.kids, at, &node{name: names[0], path: path.Join(n.path, names[0]), lines: map[string]string{}})
	}
	n.kids[at].add(names[1:])
}

// Keys are the fingerprints of trees at some paths. It serves one goroutine.
type Keys struct {
	read  func(tree string) ([]byte, error)
	paths []string
	root  *node             // nil: the whole tree
	known map[string]string // keys by tree id
	of    map[string]string // keys by lines: equal keys share one string
	added int               // how many of known no file has
}

// New computes the keys of trees, which read returns by id in hex, at clean paths from the root. No paths are the
// whole tree.
func New(paths []string, read func(tree string) ([]byte, error)) *Keys {
	k := &Keys{read: read, paths: paths, known: map[string]string{}, of: map[string]string{}}
	for _, p := range paths {
		if k.root == nil {
			k.root = &node{}
		}
		k.root.add(strings.Split(p, "/"))
	}
	return k
}

// Of is the key of a tree: without paths its id, else a SHA-256 over the entries at the paths. Equal keys mean
// equal inputs. A path that does not exist contributes nothing. Where one leads through a link, the key is the tree's id:
// what the link leads to may be anywhere.
func (k *Keys) Of(tree string) (string, error) {
	if k.root == nil {
		return tree, nil
	}
	if key, ok := k.known[tree]; ok {
		return key, nil
	}
	lines, err := k.lines(tree, k.root)
	if err != nil {
		return "", err
	}
	key, ok := k.of[lines]
	if strings.Contains("\n"+lines, "\n"+through) {
		key = tree
	} else if !ok {
		sum := sha256.Sum256([]byte(lines))
		key = hex.EncodeToString(sum[:])
		k.of[lines] = key
	}
	k.known[tree] = key
	k.added++
	return key, nil
}

// lines lists the chosen entries below one tree, a line for each: path, mode and id. What folders gave is
// remembered, because neighbouring commits share most of them.
func (k *Keys) lines(tree string, n *node) (string, error) {
	data, err := k.read(tree)
	if err != nil {
		return "", err
	}
	type entry struct {
		mode uint32
		id   []byte
	}
	found := make([]entry, len(n.kids))
	if err := Entries(data, len(tree)/2, func(mode uint32, name, id []byte) {
		for i, kid := range n.kids {
			if kid.name == string(name) && found[i].id == nil {
				found[i] = entry{mode, id}
			}
		}
	}); err != nil {
		return "", fmt.Errorf("tree %s: %w", tree, err)
	}
	var b []byte
	// In the order of the paths and not of the entries, so that equal inputs give equal lines.
	for i, kid := range n.kids {
		switch e := found[i]; {
		case e.id == nil:
		case e.mode == link:
			b = append(b, through...)
		case kid.wanted, e.mode == pin: // a pin stands for everything in the submodule
			b = fmt.Appendf(b, "%q %o %x\n", kid.path, e.mode, e.id)
		case e.mode == folder:
			sub, ok := kid.lines[string(e.id)]
			if !ok {
				if sub, err = k.lines(hex.EncodeToString(e.id), kid); err != nil {
					return "", err
				}
				kid.lines[string(e.id)] = sub
			}
			b = append(b, sub...)
		}
	}
	return string(b), nil
}

// Empty is the key of an empty tree; idLen is the length of an id in hex digits.
func (k *Keys) Empty(idLen int) string {
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

// A file has the keys for one set of paths: on each line a key and the trees that have it, separated by spaces.
const (
	few  = 500 // new keys that are worth writing a file
	most = 8   // files in the folder
)

// Load reads what another process has kept in a folder. A missing or damaged file is ignored.
func (k *Keys) Load(dir string) {
	if k.root == nil {
		return
	}
	for line := range strings.Lines(cachefile.Read(k.file(dir))) {
		key, trees, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		for tree := range strings.SplitSeq(trees, " ") {
			k.known[tree] = key
		}
	}
}

// Keep writes the keys to that folder if enough of them are new, and removes other files if there are too many.
// Nothing depends on whether it succeeds.
func (k *Keys) Keep(dir string) {
	if k.added < few {
		return
	}
	k.added = 0
	trees := map[string][]string{}
	for tree, key := range k.known {
		trees[key] = append(trees[key], tree)
	}
	var b bytes.Buffer
	for key, all := range trees {
		fmt.Fprintf(&b, "%s %s\n", key, strings.Join(all, " "))
	}
	cachefile.Write(k.file(dir), b.Bytes())
	files, _ := filepath.Glob(filepath.Join(dir, "keys-*"))
	others := slices.DeleteFunc(files, func(f string) bool { return f == k.file(dir) })
	for _, file := range others[:max(0, len(others)+1-most)] {
		os.Remove(file)
	}
}

// Drop removes the file of these paths.
func (k *Keys) Drop(dir string) error { return os.RemoveAll(k.file(dir)) }

// file is the path of the file for these paths.
func (k *Keys) file(dir string) string {
	sum := sha256.Sum256([]byte(through + strings.Join(k.paths, "\n"))) // older files have keys that stop at links
	return filepath.Join(dir, "keys-"+hex.EncodeToString(sum[:8]))
}
