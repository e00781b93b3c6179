package synthetic

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

// Prefetch implements objects.Reader: of a made commit it brings what that was made from.
func (o Overlay) Prefetch(ctx context.Context, commit string) error {
	sides := o.Made.Sides(commit)
	if sides == nil {
		sides = []string{commit}
	}
	for _, c := range sides {
		if c == "" { // the empty tree
			continue
		}
		if err := o.Reader.Prefetch(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
