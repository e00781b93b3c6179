package source

import (
	"context"
	"fmt"
)

// HunkKind says what a hunk changes.
type HunkKind string

// The kinds of hunks. All but HunkBlock are about a whole file.
const (
	HunkBlock     HunkKind = "block"     // lines removed, added or replaced
	HunkAdded     HunkKind = "added"     // a file; without its lines if Split has divided it
	HunkDeleted   HunkKind = "deleted"   // a file, link or submodule
	HunkRenamed   HunkKind = "renamed"   // the path alone
	HunkMode      HunkKind = "mode"      // the executable bit
	HunkBinary    HunkKind = "binary"    // content that has no lines
	HunkSymlink   HunkKind = "symlink"   // the target
	HunkSubmodule HunkKind = "submodule" // the pinned commit
	HunkType      HunkKind = "type"      // a file that becomes a link, and the like
)

// Hunk is one part of a diff that can be applied or left out.
type Hunk struct {
	// ID names the hunk within every Diff of the same two commits.
	ID   string
	Kind HunkKind
	// File is the path in the commit To, or in From where To has deleted it;
	// OldFile is the path in From of a file that both have.
	File, OldFile string
	// The lines removed from From's file and added in To's, counted from 1. As
	// in unified diffs a range of 0 lines has the number of the line before.
	// Whole files without lines have zeros.
	OldStart, OldLines int
	NewStart, NewLines int
	Text               string // the removed and added lines, cut where they are many; UTF-8
	Requires           []int  // indexes in Diff.Hunks of those without which it cannot be applied

	file    *changedFile
	span    span // of a block, or of an added file's lines
	divided bool // an added file whose lines are hunks of their own
}

// Diff is what differs between two commits, in hunks that can be applied one
// by one. Hunks come after those they require, else in an order in which
// each is unlikely to need a later one: new headers, headers, new files,
// build files, other files, deletions; then by path and line.
//
// A Diff is immutable and safe for concurrent use. It needs its Repo open.
type Diff struct {
	From, To string // commit ids; From is "" for the empty tree
	Hunks    []Hunk
	// Outside counts changed files that no hunk covers: they lie outside the
	// paths and stay as they are in From.
	Outside int

	repo             *Repo
	fromTree, toTree string
}

// HunksOf returns what a commit has changed: the diff from its first parent,
// also for a merge, and from nothing for a root.
func (r *Repo) HunksOf(ctx context.Context, commit string, paths []string) (*Diff, error) {
	c, err := r.Commit(commit)
	if err != nil {
		return nil, err
	}
	parent := ""
	if len(c.Parents) > 0 {
		parent = c.Parents[0]
	}
	return r.Hunks(ctx, parent, commit, paths)
}

// Hunks compares any two commits, given by their full ids; from may be "" for
// the empty tree. Every maximal block of changed lines, without context, is
// one hunk; what has no lines changes as a whole. A renamed file is one hunk
// for its path, which those for its lines require.
//
// Only what lies at the paths is compared, as in [RangeOptions]. Files outside
// stay as they are in from, except where a path could else not be applied.
func (r *Repo) Hunks(ctx context.Context, from, to string, paths []string) (*Diff, error) {
	clean, err := parsePaths(paths)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &Diff{From: from, To: to, repo: r}
	if from != "" {
		c, err := r.commit(from)
		if err != nil {
			return nil, err
		}
		d.fromTree = c.Tree
	}
	c, err := r.commit(to)
	if err != nil {
		return nil, err
	}
	d.toTree = c.Tree
	if err := d.compare(ctx, clean); err != nil {
		return nil, fmt.Errorf("hunks from %s to %s: %w", short(from), short(to), err)
	}
	return d, nil
}

// compare fills a Diff.
func (d *Diff) compare(ctx context.Context, paths []string) error {
	o := d.repo.objs
	if pf, ok := o.(prefetcher); ok {
		for _, commit := range []string{d.From, d.To} {
			if commit == "" {
				continue
			}
			if err := pf.prefetch(ctx, commit); err != nil {
				return err
			}
		}
	}
	var changes []leafChange
	err := diffTrees(o, "", d.fromTree, d.toTree, func(ch leafChange) error {
		changes = append(changes, ch)
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	files, err := changedFiles(ctx, o, changes)
	if err != nil {
		return err
	}
	files, d.Outside = coveredFiles(files, paths)
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.Hunks = append(d.Hunks, f.hunks()...)
	}
	d.order()
	return nil
}

// hunks lists what has changed in one file.
func (f *changedFile) hunks() []Hunk {
	switch {
	case f.old == nil:
		return []Hunk{f.whole(HunkAdded)}
	case f.new == nil:
		return []Hunk{f.whole(HunkDeleted)}
	case f.old.mode&0o170000 != f.new.mode&0o170000:
		return []Hunk{f.whole(HunkType)}
	}
	var out []Hunk
	if f.oldPath != f.newPath {
		out = append(out, f.whole(HunkRenamed))
	}
	if f.old.mode != f.new.mode {
		out = append(out, f.whole(HunkMode))
	}
	switch {
	case f.old.id == f.new.id:
	case f.new.mode == modeLink:
		out = append(out, f.whole(HunkSymlink))
	case f.new.mode == modeGitlink:
		out = append(out, f.whole(HunkSubmodule))
	case !f.text:
		out = append(out, f.whole(HunkBinary))
	default:
		for _, s := range diffLines(f.oldLines, f.newLines) {
			out = append(out, f.block(s))
		}
	}
	return out
}

// whole is a hunk about all of a file.
func (f *changedFile) whole(kind HunkKind) Hunk {
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
	h := Hunk{Kind: HunkBlock, File: f.path(), file: f}
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

// Where returns the lines of a hunk for a report, first to last, counted from
// 1: those in the commit To, or with old those in From where nothing of it is
// left in To. Hunks without lines have zeros.
func (h Hunk) Where() (file string, start, end int, old bool) {
	switch {
	case h.NewLines > 0:
		return h.File, h.NewStart, h.NewStart + h.NewLines - 1, false
	case h.OldLines > 0 && h.OldFile != "":
		return h.OldFile, h.OldStart, h.OldStart + h.OldLines - 1, true
	case h.OldLines > 0:
		return h.File, h.OldStart, h.OldStart + h.OldLines - 1, true
	}
	return h.File, 0, 0, h.Kind == HunkDeleted
}
