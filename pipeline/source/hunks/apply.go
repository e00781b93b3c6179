package hunks

import (
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// Apply returns the commit From with a set of hunks, given by their indexes,
// applied. It exists in memory alone; see [source.Comparison.Compose]. Sets that give the same files give the same id;
// no hunk gives From, and all of them give To unless files outside the paths differ.
//
// It fails for a set that lacks what one of its hunks requires; see
// [Diff.WithRequired].
func (d *Diff) Apply(set []int) (string, error) {
	states, err := d.states(set)
	if err != nil {
		return "", err
	}
	if len(states) == 0 && d.From != "" {
		return d.From, nil
	}
	if d.Outside == 0 && d.all(set) {
		return d.To, nil
	}
	return d.both.Compose(edits(states))
}

// all reports that a set has every hunk, which is the new commit itself.
func (d *Diff) all(set []int) bool {
	chosen := map[int]bool{}
	for _, i := range set {
		chosen[i] = true
	}
	return len(chosen) == len(d.Hunks)
}

// WithRequired returns a set of hunks with all that they require, sorted.
func (d *Diff) WithRequired(set []int) []int {
	in := map[int]bool{}
	var add func(i int)
	add = func(i int) {
		if !in[i] {
			in[i] = true
			for _, k := range d.Hunks[i].Requires {
				add(k)
			}
		}
	}
	for _, i := range set {
		add(i)
	}
	out := make([]int, 0, len(in))
	for i := range d.Hunks {
		if in[i] {
			out = append(out, i)
		}
	}
	return out
}

// fileState is one file of From with some hunks applied.
type fileState struct {
	file     *changedFile
	path     string
	now      *source.Entry // nil: absent
	replaced bool          // now is To's
	divided  bool          // now holds only the blocks
	on       []span        // applied blocks
}

// states applies a set file by file. It fails for a set that cannot be applied.
func (d *Diff) states(set []int) ([]*fileState, error) {
	for _, i := range set {
		if i < 0 || i >= len(d.Hunks) {
			return nil, fmt.Errorf("invalid hunk index %d of %d hunks", i, len(d.Hunks))
		}
	}
	chosen := make([]bool, len(d.Hunks))
	for _, i := range set {
		chosen[i] = true
	}
	var out []*fileState
	byFile := map[*changedFile]*fileState{}
	for i, h := range d.Hunks {
		if !chosen[i] {
			continue
		}
		for _, k := range h.Requires {
			if !chosen[k] {
				return nil, fmt.Errorf("hunk %s cannot be applied without %s", h.ID, d.Hunks[k].ID)
			}
		}
		s := byFile[h.file]
		if s == nil {
			s = newFileState(h.file)
			byFile[h.file] = s
			out = append(out, s)
		}
		s.apply(h)
	}
	return out, nil
}

// newFileState is a file before any hunk: as at the old end, or not there and named as at the new one.
func newFileState(f *changedFile) *fileState {
	s := &fileState{file: f, path: f.oldPath}
	if f.old == nil {
		s.path = f.newPath
		return s
	}
	now := *f.old
	s.now = &now
	return s
}

// apply turns a hunk of the file on. Hunks come in order, so that a new content is there before lines of it are changed.
func (s *fileState) apply(h Hunk) {
	switch h.Kind {
	case Block:
		s.on = append(s.on, h.span)
	case Deleted:
		s.now = nil
	case Renamed:
		s.path = s.file.newPath
	case Mode:
		s.now.Mode = s.file.new.Mode
	default:
		now := *s.file.new
		s.now, s.divided, s.replaced = &now, h.divided, !h.divided
	}
}

// content is what the file holds where blocks are applied one by one.
func (s *fileState) content() string { return compose(s.file.oldLines, s.file.newLines, s.on) }

// compose replaces blocks of old by those of new; the blocks are in order.
// A last line without a line feed gets one when other lines follow.
func compose(old, new []string, on []span) string {
	var b strings.Builder
	open := false // the last line lacks its end
	write := func(lines []string) {
		for _, line := range lines {
			if open {
				b.WriteByte('\n')
			}
			b.WriteString(line)
			open = !strings.HasSuffix(line, "\n")
		}
	}
	at := 0
	for _, s := range on {
		write(old[at:s.oldStart])
		write(new[s.newStart:s.newEnd])
		at = s.oldEnd
	}
	write(old[at:])
	return b.String()
}

// edits are the paths of From that differ in some states of its files.
func edits(states []*fileState) (out []source.Edit) {
	for _, s := range states {
		if s.file.old != nil && (s.now == nil || s.path != s.file.oldPath) {
			out = append(out, source.Edit{Path: s.file.oldPath})
		}
		if s.now == nil {
			continue
		}
		e := source.Edit{Path: s.path, New: s.now}
		if len(s.on) > 0 || s.divided {
			e.Content = s.content
		}
		out = append(out, e)
	}
	return out
}
