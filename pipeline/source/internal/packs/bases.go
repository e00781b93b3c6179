package packs

import (
	"container/list"
	"sync"
)

// mostBases is how many bytes of objects are kept altogether.
const mostBases = 32 << 20

// baseKey says where an object lies.
type baseKey struct {
	pack   int
	offset int64
}

// base is an object from which others differ. Its data must not be changed, since readers share it.
type base struct {
	kind string
	data []byte
}

// bases keeps the objects that last served as a base, because neighbours in a history differ from the same ones. It
// may be used by several goroutines.
type bases struct {
	mu    sync.Mutex
	byKey map[baseKey]*list.Element // of kept
	order *list.List                // the last used first
	bytes int
}

// kept is an element of the order.
type kept struct {
	key baseKey
	base
}

func newBases() *bases { return &bases{byKey: map[baseKey]*list.Element{}, order: list.New()} }

// get returns a base and marks it as used.
func (b *bases) get(key baseKey) (base, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.byKey[key]
	if at == nil {
		return base{}, false
	}
	b.order.MoveToFront(at)
	return at.Value.(kept).base, true
}

// add keeps a base and drops the least recently used ones if they are too many. A base of more than a quarter of
// the room is not kept: it would drive out everything else.
func (b *bases) add(key baseKey, object base) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey[key] != nil || len(object.data) > mostBases/4 {
		return
	}
	b.byKey[key] = b.order.PushFront(kept{key, object})
	for b.bytes += len(object.data); b.bytes > mostBases; {
		last := b.order.Remove(b.order.Back()).(kept)
		delete(b.byKey, last.key)
		b.bytes -= len(last.data)
	}
}
