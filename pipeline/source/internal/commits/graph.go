package commits

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Graph is the commit-graph that git has written, one file or a chain of them (gitformat-commit-graph(5)). It
// numbers commits from 0 on, first file first. Anybody who can write the file decides what it says: see
// [List.Check]. Several goroutines may read it.
type Graph struct {
	layers []layer // the files of the chain; each has the commits after those of the one before
	idLen  int     // bytes
	dates  bool    // all layers have corrected dates (generation numbers of version 2)
}

// layer is one file. The slices are its chunks, by their names in the format: OIDF, OIDL, CDAT, EDGE, GDA2, GDO2.
type layer struct {
	first, n                                        int // number of its first commit, and how many there are
	fanout, ids, commits, edges, offsets, overflows []byte
}

// Len is the number of commits.
func (g *Graph) Len() int {
	if len(g.layers) == 0 {
		return 0
	}
	last := g.layers[len(g.layers)-1]
	return last.first + last.n
}

// errDamaged makes the caller do without the graph.
var errDamaged = errors.New("the commit-graph is damaged")

// OpenGraph reads the commit-graph below a folder of objects into memory. It is an error if the graph is missing,
// damaged, or of another format than ids of idLen bytes; git, too, does without such a graph.
func OpenGraph(objects string, idLen int) (*Graph, error) {
	g := &Graph{idLen: idLen, dates: true}
	info := filepath.Join(objects, "info")
	data, err := os.ReadFile(filepath.Join(info, "commit-graph"))
	if err == nil {
		return g, g.add(data, nil)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	chain, err := os.ReadFile(filepath.Join(info, "commit-graphs", "commit-graph-chain"))
	if err != nil {
		return nil, err
	}
	var below []byte // ids of the files before
	for name := range strings.FieldsSeq(string(chain)) {
		id, err := hex.DecodeString(name)
		if err != nil || len(id) != idLen {
			return nil, errDamaged
		}
		if data, err = os.ReadFile(filepath.Join(info, "commit-graphs", "graph-"+name+".graph")); err != nil {
			return nil, err
		}
		if err := g.add(data, below); err != nil {
			return nil, err
		}
		below = append(below, id...)
	}
	return g, nil
}

// add adds a file of a chain, after those whose ids are in below. It checks everything that later reads rely on, so
// that these need no bounds of their own except for what leads from one chunk into another.
func (g *Graph) add(data, below []byte) error {
	const table, entry = 8, 12 // bytes before the table of chunks, and of each of its entries
	format, end := byte(1), len(data)-g.idLen
	if g.idLen == sha256.Size {
		format = 2
	}
	if end < table || string(data[:4]) != "CGPH" || data[4] != 1 || data[5] != format || int(data[7])*g.idLen != len(below) || !sound(data[:end], data[end:]) {
		return errDamaged
	}
	chunks := map[string][]byte{}
	for i := range int(data[6]) {
		at := table + i*entry
		if at+2*entry > end {
			return errDamaged
		}
		from, to := binary.BigEndian.Uint64(data[at+4:]), binary.BigEndian.Uint64(data[at+entry+4:])
		if from > to || to > uint64(end) {
			return errDamaged
		}
		chunks[string(data[at:at+4])] = data[from:to]
	}
	l := layer{first: g.Len(), fanout: chunks["OIDF"], ids: chunks["OIDL"], commits: chunks["CDAT"], edges: chunks["EDGE"], offsets: chunks["GDA2"], overflows: chunks["GDO2"]}
	l.n = len(l.ids) / g.idLen
	g.dates = g.dates && len(l.offsets) == 4*l.n
	if len(l.fanout) != 4*256 || len(l.ids) != l.n*g.idLen || len(l.commits) != l.n*(g.idLen+16) || !bytes.Equal(chunks["BASE"], below) {
		return errDamaged
	}
	for i, before := 0, uint32(0); i < 256; i++ {
		now := binary.BigEndian.Uint32(l.fanout[4*i:])
		if now < before || now > uint32(l.n) {
			return errDamaged
		}
		before = now
	}
	g.layers = append(g.layers, l)
	return nil
}

// sound reports whether sum is the checksum of data, by the hash that has its length.
func sound(data, sum []byte) bool {
	if len(sum) == sha256.Size {
		s := sha256.Sum256(data)
		return bytes.Equal(s[:], sum)
	}
	s := sha1.Sum(data)
	return bytes.Equal(s[:], sum)
}

// Find is the number of a commit, by its full id in hex. The fanout bounds a binary search to the ids with the same
// first byte.
func (g *Graph) Find(id string) (number int, ok bool) {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != g.idLen {
		return 0, false
	}
	for _, l := range g.layers {
		low, high := 0, int(binary.BigEndian.Uint32(l.fanout[4*int(raw[0]):]))
		if raw[0] > 0 {
			low = int(binary.BigEndian.Uint32(l.fanout[4*int(raw[0])-4:]))
		}
		for low < high {
			mid := (low + high) / 2
			switch order := bytes.Compare(raw, l.ids[mid*g.idLen:(mid+1)*g.idLen]); {
			case order == 0:
				return l.first + mid, true
			case order < 0:
				high = mid
			default:
				low = mid + 1
			}
		}
	}
	return 0, false
}

// at is the layer of a commit, and its place in that.
func (g *Graph) at(number int) (layer, int) {
	k := len(g.layers) - 1
	for g.layers[k].first > number {
		k--
	}
	return g.layers[k], number - g.layers[k].first
}

// ID is the id of a commit, in bytes. The slice is the graph's own and must not be changed.
func (g *Graph) ID(number int) []byte {
	l, i := g.at(number)
	return l.ids[i*g.idLen : (i+1)*g.idLen]
}

// Tree is the id of a commit's tree, likewise.
func (g *Graph) Tree(number int) []byte {
	l, i := g.at(number)
	at := i * (g.idLen + 16)
	return l.commits[at : at+g.idLen]
}

// Generation is larger for a commit than for any of its ancestors: the corrected commit date if all layers have
// those, else the topological level. In CDAT the level has the upper 30 bits and the date the lower 34.
func (g *Graph) Generation(number int) (uint64, error) {
	l, i := g.at(number)
	both := binary.BigEndian.Uint64(l.commits[(i+1)*(g.idLen+16)-8:])
	level, date := both>>34, both&(1<<34-1)
	switch {
	case level == 0: // written by a git from before levels
		return 0, errDamaged
	case !g.dates:
		return level, nil
	}
	off := binary.BigEndian.Uint32(l.offsets[4*i:])
	if off>>31 == 0 {
		return date + uint64(off), nil
	}
	at := 8 * int(off&(1<<31-1))
	if at+8 > len(l.overflows) {
		return 0, errDamaged
	}
	return date + binary.BigEndian.Uint64(l.overflows[at:]), nil
}

// Parents appends the numbers of the parents of a commit. The third and further parents of a merge are in EDGE, of
// which the last entry has the highest bit set.
func (g *Graph) Parents(to []int32, number int) ([]int32, error) {
	const none, more = 0x70000000, 1 << 31
	l, i := g.at(number)
	at, before := (i+1)*(g.idLen+16)-16, len(to)
	first, second := binary.BigEndian.Uint32(l.commits[at:]), binary.BigEndian.Uint32(l.commits[at+4:])
	if first != none {
		to = append(to, int32(first))
	}
	if second&more != 0 {
		for at, last := 4*int(second&^more), false; !last; at += 4 {
			if at+4 > len(l.edges) {
				return to, errDamaged
			}
			p := binary.BigEndian.Uint32(l.edges[at:])
			last = p&more != 0
			to = append(to, int32(p&^more))
		}
	} else if second != none {
		to = append(to, int32(second))
	}
	for _, p := range to[before:] {
		if p < 0 || int(p) >= g.Len() {
			return to, errDamaged
		}
	}
	return to, nil
}

// Node is what the graph says of a commit; nil if it does not have it. The date is left out.
func (g *Graph) Node(id string) *Node {
	i, ok := g.Find(id)
	if !ok {
		return nil
	}
	parents, err := g.Parents(nil, i)
	if err != nil {
		return nil
	}
	n := &Node{ID: id, Tree: hex.EncodeToString(g.Tree(i))}
	for _, p := range parents {
		n.Parents = append(n.Parents, hex.EncodeToString(g.ID(int(p))))
	}
	return n
}
