package source

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// textMost is the size of Hunk.Text in bytes, give or take a line's end.
const textMost = 4000

// excerpt shows a block as a diff does.
func excerpt(f *changedFile, s span) string {
	var b strings.Builder
	left := s.old() + s.new()
	show := func(sign byte, lines []string) {
		for _, line := range lines {
			room := textMost - b.Len()
			if room <= 0 {
				return
			}
			if len(line) > room {
				line = line[:room] + "…\n"
			}
			b.WriteString(printable(diffLine(sign, line)))
			left--
		}
	}
	show('-', f.oldLines[s.oldStart:s.oldEnd])
	show('+', f.newLines[s.newStart:s.newEnd])
	if left > 0 {
		fmt.Fprintf(&b, "… %d more lines\n", left)
	}
	return b.String()
}

func diffLine(sign byte, line string) string {
	if !strings.HasSuffix(line, "\n") {
		line += "\n\\ No newline at end of file\n"
	}
	return string(sign) + line
}

// printable replaces what would disturb a terminal or is no UTF-8.
func printable(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "^M\n")
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 {
			return '\uFFFD'
		}
		return c
	}, clean(text))
}

// summary is the text of a hunk that is not about lines.
func (f *changedFile) summary(kind HunkKind) string {
	switch kind {
	case HunkRenamed:
		return fmt.Sprintf("rename from %s\nrename to %s\n", quoted(f.oldPath), quoted(f.newPath))
	case HunkMode:
		return fmt.Sprintf("old mode %o\nnew mode %o\n", f.old.mode, f.new.mode)
	case HunkBinary:
		return "binary files differ\n"
	}
	return excerpt(f, span{0, len(f.oldLines), 0, len(f.newLines)})
}

// quoted is a path as a diff shows it.
func quoted(name string) string {
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' || c == 0x7f }) {
		return strconv.Quote(name)
	}
	return clean(name)
}

// Unified shows what a set of hunks changes in From, as a unified diff with
// some lines of context. It is for the eye: odd bytes are replaced.
func (d *Diff) Unified(set []int, context int) (string, error) {
	text, err := d.unified(set, context)
	return printable(text), err
}

// unified is Unified with every byte in place.
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
	if f.old != nil && s.now != nil && f.old.mode&0o170000 != s.now.mode&0o170000 { // shown as two, as git does
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
		fmt.Fprintf(b, "new file mode %o\n", s.now.mode)
	case s.now == nil:
		fmt.Fprintf(b, "deleted file mode %o\n", f.old.mode)
	case f.old.mode != s.now.mode:
		fmt.Fprintf(b, "old mode %o\nnew mode %o\n", f.old.mode, s.now.mode)
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
	return (s.replaced || s.now == nil) && s.file.binary && (side.mode == modeFile || side.mode == modeExec)
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

// writeGroup writes blocks that share their context, and returns by how much
// the lines after them have moved.
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
