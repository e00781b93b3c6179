package hunks

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/internal/attributes"
)

// changedFile is one file that differs between two trees, under up to two
// names. It is never changed once hunks refer to it.
type changedFile struct {
	oldPath, newPath   string
	old, new           *source.Entry // nil: absent
	text               bool          // both sides can be read as lines
	binary             bool          // one is a regular file that has no lines
	oldLines, newLines []string      // of text, and of links
	size               [2]int        // bytes of text, old and new
}

// path is the name that people know a file by: the new one, unless it is gone.
func (f *changedFile) path() string {
	if f.new == nil {
		return f.oldPath
	}
	return f.newPath
}

// maxTextSize is the size in bytes above which a file changes as a whole.
const maxTextSize = 64 << 20

// changedFiles reads what has changed and finds the renamed files.
func changedFiles(ctx context.Context, c *source.Comparison) ([]*changedFile, error) {
	var files []*changedFile
	for _, ch := range c.Changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := &changedFile{oldPath: ch.Path, newPath: ch.Path, old: ch.Old, new: ch.New}
		if err := f.read(c); err != nil {
			return nil, fmt.Errorf("%s: %w", ch.Path, err)
		}
		files = append(files, f)
	}
	return pairRenamed(files), nil
}

// read loads the lines of both sides where they have any.
func (f *changedFile) read(c *source.Comparison) error {
	f.text = true
	if f.old != nil && f.new != nil && f.old.ID == f.new.ID {
		f.text = false // nothing to divide
		return nil
	}
	for i, e := range []*source.Entry{f.old, f.new} {
		if e == nil {
			continue
		}
		content, ok, err := readText(c, e)
		if err != nil {
			return err
		}
		f.text = f.text && ok
		f.binary = f.binary || !ok && content == "" && e.Mode != source.ModeLink
		f.size[i] = len(content)
		if i == 0 {
			f.oldLines = splitLines(content)
		} else {
			f.newLines = splitLines(content)
		}
	}
	return nil
}

// readText returns what a file or link holds; ok is false, and the content
// may be empty, unless it is a regular file made of lines.
func readText(c *source.Comparison, e *source.Entry) (content string, ok bool, err error) {
	if e.Mode == source.ModeGitlink {
		return "Subproject commit " + e.ID + "\n", false, nil
	}
	data, ok, err := c.Blob(e.ID, maxTextSize)
	if err != nil || !ok {
		return "", false, err
	}
	if e.Mode == source.ModeLink {
		return string(data), false, nil
	}
	if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 { // git's own test for binary content
		return "", false, nil
	}
	return string(data), !attributes.IsLFSPointer(data), nil // mixed lines would point nowhere
}

// coveredFiles keeps those that lie at the paths and those without which
// these could not be applied, and counts the rest.
func coveredFiles(files []*changedFile, paths source.Paths) (kept []*changedFile, outside int) {
	keep := map[*changedFile]bool{}
	newFiles := map[string]bool{} // that are kept
	links := false
	for _, f := range files {
		keep[f] = f.old != nil && paths.Cover(f.oldPath) || f.new != nil && paths.Cover(f.newPath)
		if keep[f] && f.new != nil {
			newFiles[f.newPath] = true
			links = links || f.new.Mode == source.ModeGitlink
		}
	}
	for _, f := range files {
		if links && f.path() == ".gitmodules" { // it names them
			keep[f] = true
		}
		for at := path.Dir(f.oldPath); f.new == nil && at != "."; at = path.Dir(at) {
			if newFiles[at] { // a kept file replaces a folder: everything below must go
				keep[f] = true
			}
		}
	}
	for _, f := range files {
		if keep[f] {
			kept = append(kept, f)
		} else {
			outside++
		}
	}
	return kept, outside
}

// hunks lists what has changed in one file.
func (f *changedFile) hunks() []Hunk {
	switch {
	case f.old == nil:
		return []Hunk{f.whole(Added)}
	case f.new == nil:
		return []Hunk{f.whole(Deleted)}
	case f.old.Mode&0o170000 != f.new.Mode&0o170000:
		return []Hunk{f.whole(Type)}
	}
	var out []Hunk
	if f.oldPath != f.newPath {
		out = append(out, f.whole(Renamed))
	}
	if f.old.Mode != f.new.Mode {
		out = append(out, f.whole(Mode))
	}
	switch {
	case f.old.ID == f.new.ID:
	case f.new.Mode == source.ModeLink:
		out = append(out, f.whole(Symlink))
	case f.new.Mode == source.ModeGitlink:
		out = append(out, f.whole(Submodule))
	case !f.text:
		out = append(out, f.whole(Binary))
	default:
		for _, s := range diffLines(f.oldLines, f.newLines) {
			out = append(out, f.block(s))
		}
	}
	return out
}

// whole is a hunk about all of a file.
func (f *changedFile) whole(kind Kind) Hunk {
	h := Hunk{ID: string(kind) + " " + f.path(), Kind: kind, File: f.path(), file: f}
	switch {
	case f.old != nil && f.new != nil:
		h.OldFile = f.oldPath
		h.Text = f.summary(kind)
	case f.text:
		h.setSpan(span{0, len(f.oldLines), 0, len(f.newLines)})
	default:
		h.Text = f.summary(kind)
	}
	return h
}

// block is a hunk about some of a file's lines.
func (f *changedFile) block(s span) Hunk {
	h := Hunk{Kind: Block, File: f.path(), file: f}
	if f.old != nil {
		h.OldFile = f.oldPath
	}
	h.setSpan(s)
	h.ID = fmt.Sprintf("%s:-%d,%d+%d,%d", h.File, h.OldStart, h.OldLines, h.NewStart, h.NewLines)
	return h
}

// setSpan sets the ranges and the text.
func (h *Hunk) setSpan(s span) {
	h.span = s
	h.OldStart, h.OldLines = unifiedRange(s.oldStart, s.oldEnd)
	h.NewStart, h.NewLines = unifiedRange(s.newStart, s.newEnd)
	h.Text = excerpt(h.file, s)
}

// unifiedRange gives lines[start:end] the numbers of a unified diff.
func unifiedRange(start, end int) (first, lines int) {
	if start == end {
		return start, 0
	}
	return start + 1, end - start
}

// maxText is the size of Hunk.Text in bytes, give or take a line's end.
const maxText = 4000

// excerpt shows a block as a diff does.
func excerpt(f *changedFile, s span) string {
	var b strings.Builder
	left := s.old() + s.new()
	show := func(sign byte, lines []string) {
		for _, line := range lines {
			room := maxText - b.Len()
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

// diffLine is one line of a diff, with git's remark where the file ends without a line break.
func diffLine(sign byte, line string) string {
	if !strings.HasSuffix(line, "\n") {
		line += "\n\\ No newline at end of file\n"
	}
	return string(sign) + line
}

// printable replaces control characters and invalid UTF-8.
func printable(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "^M\n")
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 {
			return '\uFFFD'
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// summary is the text of a hunk that is not about lines.
func (f *changedFile) summary(kind Kind) string {
	switch kind {
	case Renamed:
		return fmt.Sprintf("rename from %s\nrename to %s\n", quoted(f.oldPath), quoted(f.newPath))
	case Mode:
		return fmt.Sprintf("old mode %o\nnew mode %o\n", f.old.Mode, f.new.Mode)
	case Binary:
		return "binary files differ\n"
	}
	return excerpt(f, span{0, len(f.oldLines), 0, len(f.newLines)})
}
