package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// write puts one path into the slot and stamps it.
func (e *Export) write(p *plan, full string, l leaf, stats *SwitchStats) error {
	if err := e.slot.ensureParents(full); err != nil {
		return err
	}
	if l.mode == modeGitlink {
		if err := e.slot.ensureDir(full); err != nil {
			return err
		}
		e.track(full, l, fileStamp{})
		return nil
	}
	m := p.mods[l.prefix]
	var err error
	if l.mode == modeLink {
		err = e.writeLink(m, full, l)
		stats.Links++
	} else {
		err = e.writeFile(m, full, l)
	}
	if err != nil {
		return err
	}
	seen, err := e.slot.setStamp(full, l.mode == modeLink, e.stamp)
	if err != nil {
		return err
	}
	stats.Written++
	e.track(full, l, seen)
	return nil
}

func (e *Export) writeLink(m *module, full string, l leaf) error {
	target, err := readObject(m.objs, l.id, "blob")
	if err != nil {
		return fmt.Errorf("%s: %w", full, err)
	}
	if len(target) == 0 || bytes.IndexByte(target, 0) >= 0 {
		return &UnsupportedError{Commit: m.commit, Path: full, Attribute: "symlink", Reason: "its target is no path"}
	}
	return e.slot.symlink(string(target), full)
}

func (e *Export) writeFile(m *module, full string, l leaf) error {
	content, err := e.content(m, full, l)
	if err != nil {
		return fmt.Errorf("%s: %w", full, err)
	}
	defer content.Close()
	perm := os.FileMode(0o666)
	if l.mode == modeExec {
		perm = 0o777
	}
	return e.slot.create(full, perm, content)
}

// content opens what a file shall hold: the blob, its line ends converted or
// the Git LFS content that it points to.
func (e *Export) content(m *module, full string, l leaf) (io.ReadCloser, error) {
	if l.treat.lfs {
		ptr, ok, err := readLFSPointer(m.objs, l.id)
		if err != nil {
			return nil, err
		}
		if file := ""; ok {
			if file = m.lfsFile(ptr); file != "" {
				return os.Open(file)
			}
		}
	}
	if l.treat.eol != eolAsIs {
		blob, err := readObject(m.objs, l.id, "blob")
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(l.treat.eol.convert(blob))), nil
	}
	kind, _, r, err := m.objs.open(l.id)
	if err != nil {
		return nil, err
	}
	if kind != "blob" {
		r.Close()
		return nil, fmt.Errorf("object %s is a %s, not a blob", l.id, kind)
	}
	return r, nil
}

// sameContent compares a file or link in the slot with what it shall hold.
func (e *Export) sameContent(full string, t *tracked) (bool, error) {
	m := e.mods[t.prefix]
	if t.mode == modeLink {
		want, err := readObject(m.objs, t.id, "blob")
		if err != nil {
			return false, fmt.Errorf("%s: %w", full, err)
		}
		got, err := e.slot.root.Readlink(full)
		return err == nil && got == string(want), nil
	}
	want, err := e.content(m, full, t.leaf)
	if err != nil {
		return false, fmt.Errorf("%s: %w", full, err)
	}
	defer want.Close()
	got, err := e.slot.root.Open(full)
	if err != nil {
		return false, nil // unreadable now: rewritten
	}
	defer got.Close()
	return equalReaders(got, want)
}

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
