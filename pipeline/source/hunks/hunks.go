// Package hunks divides what lies between two commits into parts that can be
// applied one by one, so that a search can find which of them is to blame.
//
// [Of] and [Between] list the parts of a [Diff]; [Diff.Apply] makes the commit
// that has some of them, in memory; [Diff.Split] divides a part further, down
// to single lines; [Diff.Unified] shows some as a patch.
//
// A part is a block of changed lines, or a whole file where there are no lines
// to choose from. Each [Hunk] names those it cannot do without. The package
// takes files, contents and composed commits from package source, and knows
// neither how Git keeps them nor what becomes of a candidate.
package hunks

import (
	"context"
	"fmt"

	"github.com/kbisect/kbisect/pipeline/source"
)

// Kind says what a hunk changes.
type Kind string

// The kinds of hunks. All but Block are about a whole file.
const (
	Block     Kind = "block"     // lines removed, added or replaced
	Added     Kind = "added"     // a file; without its lines if Split has divided it
	Deleted   Kind = "deleted"   // a file, link or submodule
	Renamed   Kind = "renamed"   // the path alone
	Mode      Kind = "mode"      // the executable bit
	Binary    Kind = "binary"    // content that has no lines
	Symlink   Kind = "symlink"   // the target
	Submodule Kind = "submodule" // the pinned commit
	Type      Kind = "type"      // a file that becomes a link, and the like
)

// Hunk is one part of a diff that can be applied or left out.
type Hunk struct {
	// ID names the hunk within every Diff of the same two commits.
	ID   string
	Kind Kind
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
// by one. Hunks come after those they require, otherwise in an order in
// which each is unlikely to need a later one: new headers, headers, new files,
// build files, other files, deletions; then by path and line.
//
// A Diff is immutable and safe for concurrent use. It needs its Repo open.
type Diff struct {
	From, To string // commit ids; From is "" for the empty tree
	Hunks    []Hunk
	// Outside counts changed files that no hunk covers: they lie outside the
	// paths and stay as they are in From.
	Outside int

	both *source.Comparison
}

// Of returns what a commit has changed: the diff from its first parent, also
// for a merge, and from nothing for a root.
func Of(ctx context.Context, repo *source.Repo, commit string, paths []string) (*Diff, error) {
	c, err := repo.Commit(commit)
	if err != nil {
		return nil, err
	}
	parent := ""
	if len(c.Parents) > 0 {
		parent = c.Parents[0]
	}
	return Between(ctx, repo, parent, commit, paths)
}

// Between compares any two commits, given by their full ids; from may be ""
// for the empty tree. Every maximal block of changed lines, without context,
// is one hunk; what has no lines changes as a whole. A renamed file is one
// hunk for its path, which those for its lines require.
//
// Only what lies at the paths is compared, as in [source.RangeOptions]. Files
// outside stay as they are in from, except where a path could not be applied
// otherwise.
func Between(ctx context.Context, repo *source.Repo, from, to string, paths []string) (*Diff, error) {
	clean, err := source.ParsePaths(paths)
	if err != nil {
		return nil, err
	}
	d := &Diff{From: from, To: to}
	if d.both, err = repo.Compare(ctx, from, to); err != nil {
		return nil, fmt.Errorf("hunks from %.12s to %.12s: %w", from, to, err)
	}
	files, err := changedFiles(ctx, d.both)
	if err != nil {
		return nil, fmt.Errorf("hunks from %.12s to %.12s: %w", from, to, err)
	}
	files, d.Outside = coveredFiles(files, clean)
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d.Hunks = append(d.Hunks, f.hunks()...)
	}
	d.Hunks = order(d.Hunks)
	return d, nil
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
	return h.File, 0, 0, h.Kind == Deleted
}
