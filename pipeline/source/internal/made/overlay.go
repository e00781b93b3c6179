package made

import (
	"context"
	"io"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// Overlay is a back end that knows the made objects, too.
type Overlay struct {
	objects.Reader
	Made *Objects
}

// Open implements objects.Reader.
func (o Overlay) Open(id string) (string, int64, io.ReadCloser, error) {
	if m, ok := o.Made.Get(id); ok {
		return m.Kind, m.Size, io.NopCloser(strings.NewReader(m.Data())), nil
	}
	return o.Reader.Open(id)
}

// Another implements objects.Reader.
func (o Overlay) Another() (objects.Reader, error) {
	objs, err := o.Reader.Another()
	return Overlay{objs, o.Made}, err
}

// Base is the commit that a made one was made from, and any other commit itself.
func (o Overlay) Base(commit string) string {
	for _, c := range o.Made.Sides(commit) {
		if c != "" {
			return c
		}
	}
	return commit
}

// Prefetch brings what a made commit was made from.
func (o Overlay) Prefetch(ctx context.Context, commit string) error {
	pf, ok := o.Reader.(objects.Prefetcher)
	if !ok {
		return nil
	}
	commits := o.Made.Sides(commit)
	if commits == nil {
		commits = []string{commit}
	}
	for _, c := range commits {
		if c == "" {
			continue
		}
		if err := pf.Prefetch(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
