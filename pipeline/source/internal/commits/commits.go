// Package commits knows what walks of a history need of its commits: of those that were read, and of others from the
// commit-graph of git ([Graph]). It knows no repository: whoever reads a commit has it checked ([List.Check]).
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
	InRange  []int // of one in a list: the places of its parents in it
}

// List holds the nodes that are known. Its methods may be called from several goroutines.
type List struct {
	mu     sync.Mutex
	nodes  map[string]*Node
	trusts bool
	graph  *Graph // nil where it is not read
	wrong  bool   // a node is not what its commit is
}

// NewList is a list that trusts what others have written, until it turns out to be wrong, or only commits.
func NewList(trusts bool) *List { return &List{trusts: trusts, nodes: map[string]*Node{}} }

// Trusts reports whether what others have written may be read.
func (l *List) Trusts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trusts
}

// Get is the node of a commit that was read, nil where there is none.
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

// Graph is the commit-graph below a folder of objects with ids of so many bytes, nil where there is none. One that was read is kept.
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

// Check compares a commit that was read with what is said of it. Where that differs every commit is refused until
// [List.Distrust], as it may be of no range. Nil has no nodes.
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

// Refuse is for what was said of a commit and is wrong, where the caller has found it.
func (l *List) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = true
}

// Wrong reports that some commit is not what was said of it.
func (l *List) Wrong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrong
}

// Distrust forgets all that was not read from commits if some of it was wrong, for good.
func (l *List) Distrust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrong {
		l.nodes, l.graph, l.trusts, l.wrong = map[string]*Node{}, nil, false, false
	}
}
