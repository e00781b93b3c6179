// Package commits knows what walks of a history need of its commits without reading them: from the commit-graph of git
// ([Graph]), and from a file that an earlier process has kept ([List]). It knows no repository: whoever reads a commit has
// it checked ([List.Check]).
package commits

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Node is what walks need of a commit.
type Node struct {
	ID, Tree string // full ids in hex
	Parents  []string
	Date     int64 // the committer's, seconds since 1970
}

// Format is that of a line of a list, for git rev-list.
const Format = "%H %T %ct %P"

// List holds the nodes that are known. Its methods may be called from several goroutines.
type List struct {
	mu     sync.Mutex
	file   string
	few    int
	nodes  map[string]*Node
	graph  *Graph // nil where it is not read
	loaded bool
	wrong  bool // a node is not what its commit is
	added  int  // that the file lacks
}

// NewList is a list that is kept in a file, unless its name is "", as soon as that lacks more than a few nodes.
func NewList(file string, few int) *List {
	return &List{file: file, few: few, nodes: map[string]*Node{}}
}

// Kept reports whether there is a file for the nodes.
func (l *List) Kept() bool { return l.file != "" }

// Get is the node of a commit, nil where none is known.
func (l *List) Get(id string) *Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.loaded && l.file != "" {
		l.load()
	}
	return l.nodes[id]
}

// load reads the file. One that is damaged is replaced.
func (l *List) load() {
	l.loaded = true
	data, err := os.ReadFile(l.file)
	at := max(0, len(data)-4)
	if err == nil && at > 0 && sum(data[:at]) == binary.BigEndian.Uint32(data[at:]) {
		l.take(string(data[:at]))
		l.added = 0
	}
}

// sum guards against accidents; against lies nothing does but Check.
func sum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// Add adds a node.
func (l *List) Add(n *Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes[n.ID] = n
	l.added++
}

// Take adds the nodes of a text, a line of Format each. Other lines are left out.
func (l *List) Take(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take(text)
}

func (l *List) take(text string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		date, err := strconv.ParseInt(f[2], 10, 64)
		ids := slices.Delete(f, 2, 3)
		if err == nil && l.nodes[ids[0]] == nil && !slices.ContainsFunc(ids, invalid) {
			l.nodes[ids[0]] = &Node{ids[0], ids[1], slices.Clone(ids[2:]), date}
			l.added++
		}
	}
}

// invalid reports what is not a full id.
func invalid(id string) bool {
	return len(id) != 40 && len(id) != 64 || strings.Trim(id, "0123456789abcdef") != ""
}

// Keep writes the file where its folder exists and enough nodes are new. That it fails costs time only.
func (l *List) Keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := os.Stat(filepath.Dir(l.file)); l.file == "" || l.wrong || err != nil || l.added < l.few {
		return
	}
	var b bytes.Buffer
	for _, n := range l.nodes {
		fmt.Fprintf(&b, "%s %s %d %s\n", n.ID, n.Tree, n.Date, strings.Join(n.Parents, " "))
	}
	t, err := os.CreateTemp(filepath.Dir(l.file), ".commits-*")
	if err != nil {
		return
	}
	_, err = t.Write(binary.BigEndian.AppendUint32(b.Bytes(), sum(b.Bytes())))
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), l.file)
	}
	if err != nil {
		os.Remove(t.Name())
	}
}

// Graph is the commit-graph below a folder of objects with ids of so many bytes, nil where there is none. One that was read is kept.
func (l *List) Graph(objects string, idLen int) *Graph {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.graph == nil && l.file != "" {
		if g, err := OpenGraph(objects, idLen); err == nil {
			l.graph = g
		}
	}
	return l.graph
}

// Listed is what the graph or, without reading it for that, the list says of a commit; nil where that is nothing.
func (l *List) Listed(id string) *Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listed(id)
}

func (l *List) listed(id string) *Node {
	n := l.nodes[id]
	if n == nil && l.graph != nil {
		n = l.graph.Node(id)
	}
	return n
}

// Check compares a commit that was read with what is said of it. Where that differs the file is removed, and until
// [List.Distrust] every commit is refused, as it may be of no range. Nil has no nodes.
func (l *List) Check(id, tree string, parents []string) error {
	if l == nil || l.file == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.listed(id); !l.wrong && (n == nil || n.Tree == tree && slices.Equal(n.Parents, parents)) {
		return nil
	}
	l.wrong = true
	os.Remove(l.file)
	return fmt.Errorf("commit %s is not what the commit-graph or the kept list of commits says\nhint: git commit-graph verify; the list is removed", id)
}

// Wrong reports that some commit is not what was said of it.
func (l *List) Wrong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrong
}

// Distrust forgets all that was not read from commits if some of it was wrong. Nothing is kept from then on.
func (l *List) Distrust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrong {
		l.nodes, l.graph, l.file, l.wrong = map[string]*Node{}, nil, "", false
	}
}
