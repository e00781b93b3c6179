// Package commits knows what walks of a history need of its commits. A [List] has those that were read; others come
// from git's commit-graph ([Graph]), which is fast and may be wrong. The package must not read repositories:
// whoever reads a commit has it compared with what was said of it ([List.Check]).
package commits

import (
	"fmt"
	"slices"
	"sync"
)

// Node is what walks need of a commit.
type Node struct {
	ID, Tree string // full ids in hex
	Parents  []string
	Date     int64 // the committer's, seconds since 1970
	InRange  []int // for a commit in a list: the places, from 0, of those parents that are in it
}

// List holds the nodes that are known. Its methods may be called from several goroutines.
type List struct {
	mu     sync.Mutex
	nodes  map[string]*Node
	trusts bool   // the commit-graph and other kept facts may be used
	graph  *Graph // nil until it is read, or if there is none
	wrong  bool   // a node is not what its commit is
}

// NewList is an empty list. With trusts it uses what others have written, until some of it turns out to be wrong;
// without, only commits count.
func NewList(trusts bool) *List { return &List{trusts: trusts, nodes: map[string]*Node{}} }

// Trusts reports whether what others have written may be used.
func (l *List) Trusts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trusts
}

// Get is the node of a commit that was read, or nil.
func (l *List) Get(id string) *Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[id]
}

// Add adds a node.
func (l *List) Add(n *Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes[n.ID] = n
}

// Graph is the commit-graph below a folder of objects with ids of idLen bytes; nil if there is none or it is not
// trusted. It is read once.
func (l *List) Graph(objects string, idLen int) *Graph {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.graph == nil && l.trusts {
		if g, err := OpenGraph(objects, idLen); err == nil {
			l.graph = g
		}
	}
	return l.graph
}

// Listed is what the list or the graph, if that has been read, says of a commit; nil if neither does.
func (l *List) Listed(id string) *Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listed(id)
}

// listed is Listed for a caller that holds mu.
func (l *List) listed(id string) *Node {
	n := l.nodes[id]
	if n == nil && l.graph != nil {
		n = l.graph.Node(id)
	}
	return n
}

// Check compares a commit that was read with what was said of it. If they differ, the range may be wrong, and every
// commit is refused with an error until [List.Distrust]. A nil List says nothing.
func (l *List) Check(id, tree string, parents []string) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.listed(id); !l.wrong && (!l.trusts || n == nil || n.Tree == tree && slices.Equal(n.Parents, parents)) {
		return nil
	}
	l.wrong = true
	return fmt.Errorf("commit %s is not what the commit-graph says\nhint: git commit-graph verify", id)
}

// Refuse is for a caller that has found by itself that something said of a commit is wrong.
func (l *List) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = true
}

// Wrong reports that something said of a commit was wrong.
func (l *List) Wrong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrong
}

// Distrust forgets, if anything was wrong, everything that was not read from commits, and does not trust it again.
func (l *List) Distrust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrong {
		l.nodes, l.graph, l.trusts, l.wrong = map[string]*Node{}, nil, false, false
	}
}
