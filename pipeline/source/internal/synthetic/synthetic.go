// Package synthetic composes commits that exist in memory alone: nothing is written into the user's
// repository.
//
// [Compose] makes one of a tree and its [Edit]s. [Objects] keeps what was made, and an [Overlay]
// lets whoever reads the repository read that, too. The package must not know what the edits mean,
// or who asks for them.
package synthetic

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// Objects live as long as their repository, whose exports share them; contents of files are made
// anew when read.
type Objects struct {
	mu      sync.RWMutex
	byID    map[string]Object
	commits map[string]origin
}

// origin is where a commit comes from.
type origin struct {
	sides   []string // the commits it was made from, "" for the empty tree
	objects []string // ids of the commit and of all that was made for it
}

// Object is one object; Data makes its content.
type Object struct {
	Kind string
	Size int64 // bytes
	Data func() string
}

// Commit is a commit that was made, as data for another process.
type Commit struct {
	ID      string
	Sides   []string
	Objects []Plain
}

// Plain is one of its objects.
type Plain struct {
	ID, Kind string
	Data     []byte
}

// New is an empty set of objects.
func New() *Objects { return &Objects{byID: map[string]Object{}, commits: map[string]origin{}} }

// Add keeps an object.
func (m *Objects) Add(id string, o Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byID[id] = o
}

// Get finds an object.
func (m *Objects) Get(id string) (Object, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.byID[id]
	return o, ok
}

// Commit notes where a commit comes from: its sides, and the objects that were made for it.
func (m *Objects) Commit(id string, sides, objects []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits[id] = origin{sides, objects}
}

// Sides are the commits that a commit was made from; none of one that was not.
func (m *Objects) Sides(commit string) []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.commits[commit].sides
}

// Pack is a commit as data; ok is false for one that was not made here.
func (m *Objects) Pack(commit string) (c Commit, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	from, ok := m.commits[commit]
	c = Commit{ID: commit, Sides: from.sides}
	for _, id := range from.objects {
		o := m.byID[id]
		c.Objects = append(c.Objects, Plain{id, o.Kind, []byte(o.Data())})
	}
	return c, ok
}

// Unpack takes in a commit of another process.
func (m *Objects) Unpack(c Commit) error {
	var ids []string
	for _, o := range c.Objects {
		data := string(o.Data)
		if nameOf(o.Kind, data, len(c.ID)) != o.ID {
			return fmt.Errorf("the content of object %s is not what its id says", o.ID)
		}
		m.Add(o.ID, Object{o.Kind, int64(len(data)), func() string { return data }})
		ids = append(ids, o.ID)
	}
	m.Commit(c.ID, c.Sides, ids)
	return nil
}

// nameOf is the id under which Git would store an object, with the given number of hex digits.
func nameOf(kind, data string, digits int) string {
	text := fmt.Appendf(nil, "%s %d\x00%s", kind, len(data), data)
	if digits == 2*sha256.Size {
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}
