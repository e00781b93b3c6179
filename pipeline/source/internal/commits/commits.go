// Package commits keeps what walks of a history need of its commits in a file, so that the next process need not read
// them. It knows no repository: whoever reads a commit has it checked ([List.Check]).
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

// Check compares a commit that was read with its node. Where they differ the file is removed. Nil has no nodes.
func (l *List) Check(id, tree string, parents []string) error {
	if l == nil || l.file == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[id]
	if n == nil || n.Tree == tree && slices.Equal(n.Parents, parents) {
		return nil
	}
	l.wrong = true
	os.Remove(l.file)
	return fmt.Errorf("commit %s is not what the list of commits says, which is removed now: %s\nhint: run it again; if that does not help, git commit-graph verify", id, l.file)
}
