package commits

import (
	"container/heap"
	"encoding/hex"
	"errors"
	"math"
	"slices"
)

// Between lists good..bad, the commits that bad leads to and good does not, parents before children and branch by
// branch; with firstParent, only those on the line of first parents of bad. Commits that the graph lacks because
// they are newer are read with read, at most most of them.
//
// It is nil without an error where the graph does not serve: it lacks good, too many commits are newer, or good is
// no ancestor of bad by what the graph says. The caller then walks the commits themselves.
func (g *Graph) Between(good, bad string, firstParent bool, most int, read func(id string) (*Node, error)) ([]*Node, error) {
	from, ok := g.Find(good)
	if !ok {
		return nil, nil
	}
	b := between{graph: g, numbers: map[string]int32{}, marks: make([]mark, g.Len())}
	to, err := b.number(bad, most, read)
	if to < 0 || err != nil {
		return nil, err
	}
	if err := b.paint(int32(from), to); err != nil || b.marks[from] != ofGood|ofBad || b.marks[to] != ofBad {
		return nil, err
	}
	if firstParent {
		list, err := b.nodes(b.line(to))
		return Line(list), err
	}
	return b.nodes(b.inOrder(to))
}

// mark says from which ends a commit can be reached. ofBad alone is the range.
type mark uint8

// The marks. listed says that the walk has come to a commit, which has one place in the answer.
const (
	ofBad mark = 1 << iota
	ofGood
	listed
)

// between is one walk. Commits are numbered as in the graph; those that it lacks have numbers from its length on.
type between struct {
	graph   *Graph
	newer   []*Node          // commits that the graph lacks; number k + graph.Len()
	numbers map[string]int32 // their numbers, by id
	up      [][]int32        // the numbers of their parents, by k
	marks   []mark           // by number
	queue   highestFirst
	room    []int32 // reused for the parents of one commit
}

// queued is a commit whose parents are still to be marked.
type queued struct {
	generation uint64
	number     int32
}

// highestFirst is the queue of a walk, a heap by generation: a commit leaves it before its ancestors, since a
// generation is higher than that of every parent (gitformat-commit-graph(5)).
type highestFirst []queued

// The methods of heap.Interface.

func (q highestFirst) Len() int           { return len(q) }
func (q highestFirst) Less(i, k int) bool { return q[i].generation > q[k].generation }
func (q highestFirst) Swap(i, k int)      { q[i], q[k] = q[k], q[i] }
func (q *highestFirst) Push(x any)        { *q = append(*q, x.(queued)) }
func (q *highestFirst) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// number gives numbers to a commit and to those below it that the graph lacks, and returns that of the commit; -1
// if they are more than most.
func (b *between) number(tip string, most int, read func(id string) (*Node, error)) (int32, error) {
	of := func(id string) int32 {
		if i, ok := b.graph.Find(id); ok {
			return int32(i)
		}
		i, ok := b.numbers[id]
		if !ok {
			i = int32(len(b.marks))
			b.numbers[id], b.marks = i, append(b.marks, 0)
			b.newer = append(b.newer, &Node{ID: id})
		}
		return i
	}
	to := of(tip)
	for k := 0; k < len(b.newer); k++ {
		if k == most {
			return -1, nil
		}
		n, err := read(b.newer[k].ID)
		if err != nil {
			return -1, err
		}
		var up []int32
		for _, p := range n.Parents {
			up = append(up, of(p))
		}
		b.newer[k], b.up = n, append(b.up, up)
	}
	return to, nil
}

// parents are the numbers of a commit's parents. The slice is valid until the next call.
func (b *between) parents(number int32) (up []int32, err error) {
	if k := int(number) - b.graph.Len(); k >= 0 {
		return b.up[k], nil
	}
	b.room, err = b.graph.Parents(b.room[:0], int(number))
	return b.room, err
}

// paint marks what each end leads to. It goes from the highest generation down, so that a commit is looked at after
// everything that leads to it, and so with its final marks. It ends when good leads to all that is left in the
// queue, since nothing below that can be in the range: the walk reads the range and its border, and not the history
// below.
func (b *between) paint(good, bad int32) error {
	const newest = math.MaxUint64
	open := 0 // queued commits to which good does not lead as far as is known
	reach := func(i int32, by mark, below uint64) error {
		was := b.marks[i]
		if was|by == was {
			return nil
		}
		generation := uint64(newest)
		if int(i) < b.graph.Len() {
			var err error
			if generation, err = b.graph.Generation(int(i)); err != nil || generation >= below {
				return errDamaged
			}
		}
		if b.marks[i] = was | by; was == 0 {
			heap.Push(&b.queue, queued{generation, i})
		}
		if was == 0 && by == ofBad {
			open++
		} else if was == ofBad { // it is still queued
			open--
		}
		return nil
	}
	if err := errors.Join(reach(good, ofGood, newest), reach(bad, ofBad, newest)); err != nil {
		return err
	}
	for open > 0 {
		at := heap.Pop(&b.queue).(queued)
		by := b.marks[at.number]
		if by == ofBad {
			open--
		}
		up, err := b.parents(at.number)
		if err != nil {
			return err
		}
		for _, p := range up {
			if err := reach(p, by, at.generation); err != nil {
				return err
			}
		}
	}
	return nil
}

// line goes down first parents as long as they are in the range, and returns them oldest first.
func (b *between) line(at int32) (order []int32) {
	for b.marks[at] == ofBad {
		order = append(order, at)
		up, err := b.parents(at)
		if err != nil || len(up) == 0 {
			break
		}
		at = up[0]
	}
	slices.Reverse(order)
	return order
}

// inOrder lists the range, parents before children: a depth-first walk from tip with a stack of its own, since
// histories are deep.
func (b *between) inOrder(tip int32) (order []int32) {
	type frame struct{ number, next int32 }
	stack := []frame{{tip, 0}}
	b.marks[tip] |= listed
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		up, _ := b.parents(top.number)
		if int(top.next) == len(up) {
			order, stack = append(order, top.number), stack[:len(stack)-1]
			continue
		}
		p := up[top.next]
		// Any other mark says that it can be reached from the good end as well, or is listed already.
		if top.next++; b.marks[p] == ofBad {
			b.marks[p] |= listed
			stack = append(stack, frame{p, 0})
		}
	}
	return order
}

// nodes makes the nodes of commits, in this order. Ids, names and places of all nodes share three allocations.
func (b *between) nodes(order []int32) ([]*Node, error) {
	size, some := 2*b.graph.idLen, make([]Node, len(order))
	var raw []byte
	for _, i := range order {
		if int(i) < b.graph.Len() {
			raw = append(append(raw, b.graph.ID(int(i))...), b.graph.Tree(int(i))...)
		}
	}
	text := hex.EncodeToString(raw)
	places, out := make([]int32, len(b.marks)), make([]*Node, len(order))
	for k, i := range order {
		places[i] = int32(k) + 1
		if n := int(i) - b.graph.Len(); n >= 0 {
			out[k] = b.newer[n]
			continue
		}
		out[k] = &some[k]
		some[k].ID, some[k].Tree, text = text[:size], text[size:2*size], text[2*size:]
	}
	names, inside := make([]string, 0, len(order)+len(order)/2), make([]int, 0, len(order)+len(order)/2)
	for k, i := range order {
		up, err := b.parents(i)
		if err != nil {
			return nil, err
		}
		from, first := len(names), len(inside)
		for _, p := range up {
			if at := places[p]; at > 0 {
				names, inside = append(names, out[at-1].ID), append(inside, int(at)-1)
			} else if int(p) < b.graph.Len() {
				names = append(names, hex.EncodeToString(b.graph.ID(int(p))))
			}
		}
		if int(i) < b.graph.Len() && len(names) > from {
			out[k].Parents = names[from:len(names):len(names)]
		}
		out[k].InRange = inside[first:len(inside):len(inside)]
	}
	return out, nil
}

// Line sets InRange for a list of first parents, in which each commit is the parent of the next, and returns the
// list.
func Line(list []*Node) []*Node {
	for i, n := range list {
		if n.InRange = nil; i > 0 {
			n.InRange = []int{i - 1}
		}
	}
	return list
}
