package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kbisect/kbisect/pipeline/source/internal/attributes"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// content opens what a file is to hold: the blob, with converted line endings, or the Git LFS
// content that it points to. Only what is converted is held in memory as a whole; a blob may be
// larger than that.
func (m *module) content(l leaf) (io.ReadCloser, error) {
	if l.treat.LFS {
		ptr, ok, err := readLFSPointer(m.repo.Objects, l.ID)
		if err != nil {
			return nil, err
		}
		if file := ""; ok {
			if file = m.repo.lfsFile(ptr); file != "" {
				return os.Open(file)
			}
		}
	}
	if l.treat.Ends != attributes.AsIs {
		blob, err := objects.Read(m.repo.Objects, l.ID, "blob")
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(l.treat.Ends.Convert(blob))), nil
	}
	kind, _, r, err := m.repo.Objects.Open(l.ID)
	if err != nil {
		return nil, err
	}
	if kind != "blob" {
		r.Close()
		return nil, fmt.Errorf("object %s is a %s, not a blob", l.ID, kind)
	}
	return r, nil
}

// holds reports whether a file or link in the slot is as the commit has it. An error is the
// repository's: what cannot be read in the slot is not as it should be, and is written anew.
func (m *module) holds(s *slot, full string, l leaf) (bool, error) {
	if l.Mode == objects.ModeLink {
		want, err := objects.Read(m.repo.Objects, l.ID, "blob")
		if err != nil {
			return false, fmt.Errorf("%s: %w", full, err)
		}
		got, err := s.tree.Readlink(full)
		return err == nil && got == string(want), nil
	}
	want, err := m.content(l)
	if err != nil {
		return false, fmt.Errorf("%s: %w", full, err)
	}
	defer want.Close()
	got, err := s.tree.Read(full)
	if err != nil {
		return false, nil // unreadable now: rewritten
	}
	defer got.Close()
	return equalReaders(got, want)
}

// equalReaders compares two contents. An error of a means that they differ, one of b is returned: a
// is in the slot, b comes from the repository.
func equalReaders(a, b io.Reader) (bool, error) {
	bufA, bufB := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, errA := io.ReadFull(a, bufA)
		m, errB := io.ReadFull(b, bufB)
		endA, endB := isEnd(errA), isEnd(errB)
		if errA != nil && !endA {
			return false, nil
		}
		if errB != nil && !endB {
			return false, errB
		}
		if n != m || !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		if endA || endB {
			return endA == endB, nil
		}
	}
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// readLFSPointer reads a blob if it is small enough to be a pointer. The attribute alone does not
// make it one: files that were committed before the attribute hold their content themselves.
func readLFSPointer(o objects.Reader, id string) (attributes.LFSPointer, bool, error) {
	kind, size, r, err := o.Open(id)
	if err != nil {
		return attributes.LFSPointer{}, false, err
	}
	r.Close()
	if kind != "blob" || size >= attributes.LFSPointerMax {
		return attributes.LFSPointer{}, false, nil
	}
	blob, err := objects.Read(o, id, "blob")
	if err != nil {
		return attributes.LFSPointer{}, false, err
	}
	ptr, ok := attributes.ParseLFSPointer(blob)
	return ptr, ok, nil
}

// lfsFile returns the path of the content of a pointer, "" when it is absent or truncated. The
// folder is where git lfs keeps what it has fetched; nothing is fetched here.
func (h *handle) lfsFile(p attributes.LFSPointer) string {
	file := filepath.Join(h.CommonDir, "lfs", "objects", p.ID[:2], p.ID[2:4], p.ID)
	if fi, err := os.Stat(file); err != nil || !fi.Mode().IsRegular() || fi.Size() != p.Size {
		return ""
	}
	return file
}
