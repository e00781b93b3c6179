package hunks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// quoted is a path as a diff shows it.
func quoted(name string) string {
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' || c == 0x7f }) {
		return strconv.Quote(name)
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// Unified shows what a set of hunks changes in From, as a unified diff with
// some lines of context. It is to be read: control characters and
// invalid UTF-8 are replaced.
func (d *Diff) Unified(set []int, context int) (string, error) {
	text, err := d.unified(set, context)
	return printable(text), err
}

// unified is Unified with every byte in place.
//
// go-git's UnifiedEncoder writes patches that git applies to the same trees,
// but it does not quote names, its index lines have no room for SHA-256, and
// the adapter to its four interfaces is as long as the code below.
func (d *Diff) unified(set []int, context int) (string, error) {
	states, err := d.states(set)
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(states, func(a, b *fileState) int { return strings.Compare(a.file.path(), b.file.path()) })
	var b strings.Builder
	for _, s := range states {
		s.unified(&b, max(context, 0))
	}
	return b.String(), nil
}

// unified shows one file.
func (s *fileState) unified(b *strings.Builder, context int) {
	f := s.file
	if f.old != nil && s.now != nil && f.old.Mode&0o170000 != s.now.Mode&0o170000 { // shown as two files, as git does
		gone, came := *s, *s
		gone.now = nil
		gone.unified(b, context)
		came.file = &changedFile{newPath: f.newPath, new: f.new, newLines: f.newLines, binary: f.binary}
		came.unified(b, context)
		return
	}
	before, after := f.oldPath, s.path
	if f.old == nil {
		before = after
	}
	if s.now == nil {
		after = before
	}
	fmt.Fprintf(b, "diff --git %s %s\n", quoted("a/"+before), quoted("b/"+after))
	switch {
	case f.old == nil:
		fmt.Fprintf(b, "new file mode %o\n", s.now.Mode)
	case s.now == nil:
		fmt.Fprintf(b, "deleted file mode %o\n", f.old.Mode)
	case f.old.Mode != s.now.Mode:
		fmt.Fprintf(b, "old mode %o\nnew mode %o\n", f.old.Mode, s.now.Mode)
	}
	if before != after {
		fmt.Fprintf(b, "rename from %s\nrename to %s\n", quoted(before), quoted(after))
	}
	spans := s.shown()
	if len(spans) == 0 {
		if s.binary() {
			b.WriteString("Binary files differ\n")
		}
		return
	}
	name := func(side, path string, absent bool) string {
		if absent {
			return "/dev/null"
		}
		return quoted(side + path)
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n", name("a/", before, f.old == nil), name("b/", after, s.now == nil))
	shift := 0
	for len(spans) > 0 {
		n := 1
		for n < len(spans) && spans[n].oldStart-spans[n-1].oldEnd <= 2*context {
			n++
		}
		shift = f.writeGroup(b, spans[:n], shift, context)
		spans = spans[n:]
	}
}

// binary reports whether content has changed that has no lines.
func (s *fileState) binary() bool {
	side := cmp.Or(s.now, s.file.old)
	return (s.replaced || s.now == nil) && s.file.binary && (side.Mode == source.ModeFile || side.Mode == source.ModeExec)
}

// shown lists the changed lines of a file as spans.
func (s *fileState) shown() []span {
	f := s.file
	all := span{0, len(f.oldLines), 0, len(f.newLines)}
	switch {
	case s.now == nil:
		all.newEnd = 0
	case !s.replaced:
		return s.on
	}
	if s.binary() || all.old() == 0 && all.new() == 0 {
		return nil
	}
	return []span{all}
}

// writeGroup writes blocks that share their context, and returns by how many
// lines the rest of the file has moved.
func (f *changedFile) writeGroup(b *strings.Builder, group []span, shift, context int) int {
	at := max(0, group[0].oldStart-context)
	end := min(len(f.oldLines), group[len(group)-1].oldEnd+context)
	moved := 0
	for _, s := range group {
		moved += s.new() - s.old()
	}
	oldFirst, oldLines := unifiedRange(at, end)
	newFirst, newLines := unifiedRange(at+shift, end+shift+moved)
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", oldFirst, oldLines, newFirst, newLines)
	write := func(sign byte, lines []string) {
		for _, line := range lines {
			b.WriteString(diffLine(sign, line))
		}
	}
	for _, s := range group {
		write(' ', f.oldLines[at:s.oldStart])
		write('-', f.oldLines[s.oldStart:s.oldEnd])
		write('+', f.newLines[s.newStart:s.newEnd])
		at = s.oldEnd
	}
	write(' ', f.oldLines[at:end])
	return shift + moved
}
