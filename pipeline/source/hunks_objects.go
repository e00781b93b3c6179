package source

import (
	"context"
	"io"
	"strings"
	"sync"
)

// madeObjects are objects that exist in memory only: nothing is written into
// the user's repository. They live as long as their Repo, whose exports share
// them; contents of files are made anew when read.
type madeObjects struct {
	mu    sync.RWMutex
	byID  map[string]madeObject
	sides map[string][]string // the commits a commit was made from
}

type madeObject struct {
	kind string
	size int64 // bytes
	data func() string
}

func newMadeObjects() *madeObjects {
	return &madeObjects{byID: map[string]madeObject{}, sides: map[string][]string{}}
}

func (m *madeObjects) add(id string, o madeObject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byID[id] = o
}

func (m *madeObjects) get(id string) (madeObject, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.byID[id]
	return o, ok
}

func (m *madeObjects) setSides(id string, commits ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sides[id] = commits
}

// overlay is a back end that knows the made objects, too.
type overlay struct {
	objects
	made *madeObjects
}

func (o overlay) open(id string) (string, int64, io.ReadCloser, error) {
	if m, ok := o.made.get(id); ok {
		return m.kind, m.size, io.NopCloser(strings.NewReader(m.data())), nil
	}
	return o.objects.open(id)
}

// prefetch brings what a made commit was made from.
func (o overlay) prefetch(ctx context.Context, commit string) error {
	pf, ok := o.objects.(prefetcher)
	if !ok {
		return nil
	}
	o.made.mu.RLock()
	commits, made := o.made.sides[commit]
	o.made.mu.RUnlock()
	if !made {
		commits = []string{commit}
	}
	for _, c := range commits {
		if c == "" {
			continue
		}
		if err := pf.prefetch(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
