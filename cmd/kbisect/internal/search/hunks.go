package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
)

// hunkAxis makes the hunks of a difference atoms that can be on and off. Atoms are numbered from 0 in the order of
// ids; it grows when a guilty hunk is split, and existing numbers stay. A split hunk's own atom has no place in the
// difference any more.
type hunkAxis struct {
	diff *hunks.Diff
	ids  []string                    // by atom: the id of its hunk
	old  map[string]hunks.Hunk       // by id: all hunks, also those that were split
	way  string                      // which atoms were split, in order: a set means another commit after a split
	made map[string]bisect.Candidate // composed commits, by way and set
}

// newHunkAxis is the axis of a difference, with its atoms. made caches the composed commits and may be shared.
func newHunkAxis(diff *hunks.Diff, made map[string]bisect.Candidate) (*hunkAxis, []sets.Atom) {
	h := &hunkAxis{diff: diff, old: map[string]hunks.Hunk{}, made: made}
	var atoms []sets.Atom
	for _, x := range diff.Hunks {
		h.ids, h.old[x.ID] = append(h.ids, x.ID), x
		atoms = append(atoms, atomOf(x, func(r int) int { return r }))
	}
	return h, atoms
}

// index is the place of a hunk in the difference; -1 once it has been split. Splitting moves the hunks after it, so
// places cannot be kept.
func (h *hunkAxis) index(id string) int {
	return slices.IndexFunc(h.diff.Hunks, func(x hunks.Hunk) bool { return x.ID == id })
}

// candidate is the base commit with the hunks of a set applied, and those that they require. The commit exists in
// memory only.
func (h *hunkAxis) candidate(s sets.Set) (bisect.Candidate, error) {
	key := h.way + s.Key()
	if c, ok := h.made[key]; ok {
		return c, nil
	}
	var list []int
	for _, a := range s.Atoms() {
		if i := h.index(h.ids[a]); i >= 0 {
			list = append(list, i)
		}
	}
	id, err := h.diff.Apply(h.diff.WithRequired(list))
	if err != nil {
		return bisect.Candidate{}, err
	}
	h.made[key] = bisect.Candidate{Commit: id}
	return h.made[key], nil
}

// atomOf describes a hunk as an atom. Requirements of a hunk are indexes of the difference; at maps them to atoms.
func atomOf(x hunks.Hunk, at func(int) int) sets.Atom {
	a := sets.Atom{Name: where(x)}
	for _, r := range x.Requires {
		a.Requires = append(a.Requires, at(r))
	}
	return a
}

// where names a hunk in lists: the lines of a file ("a.cu:10-12"), or what else happened to it ("a.cu (renamed)").
func where(x hunks.Hunk) string {
	if x.Kind != hunks.Block {
		return x.File + " (" + string(x.Kind) + ")"
	}
	return shown(x, "").Where()
}

// shown is a hunk as reports show it, with its role in a guilty set; "" without one.
func shown(x hunks.Hunk, role sets.Role) report.Hunk {
	file, start, end, old := x.Where()
	return report.Hunk{File: file, Start: start, End: end, Old: old, Role: role, Text: x.Text}
}

// words names the hunks of a set by file and lines, or the first of them if there are many.
func (h *hunkAxis) words(s sets.Set) string {
	const (
		mostFiles = 4
		mostLines = 12 // of a file
	)
	var in [][]string // a file each
	last := ""
	var all []hunks.Hunk
	for _, a := range s.Atoms() {
		all = append(all, h.old[h.ids[a]])
	}
	slices.SortStableFunc(all, func(a, b hunks.Hunk) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.NewStart, b.NewStart))
	})
	// The name of a file stands before its first lines only: "a.cu:10-12,40,52-60".
	for _, x := range all {
		if h := shown(x, ""); x.Kind == hunks.Block && last == x.File && h.File == x.File && h.Start > 0 {
			in[len(in)-1] = append(in[len(in)-1], h.Lines())
			continue
		}
		in, last = append(in, []string{where(x)}), x.File
	}
	var out []string
	for _, lines := range in {
		if n := len(lines); n > mostLines {
			lines = append(slices.Clone(lines[:mostLines/2]), fmt.Sprintf("... (%d hunks)", n))
		}
		out = append(out, strings.Join(lines, ","))
	}
	switch n := len(out); {
	case n == 0:
		return "no hunk"
	case n > mostFiles:
		return fmt.Sprintf("%d hunks: %s, ...", s.Len(), strings.Join(out[:mostFiles-1], ", "))
	}
	return strings.Join(out, ", ")
}

// mostParts is the largest number of parts into which a guilty hunk is split. Each part costs launches.
const mostParts = 64

// expand splits a guilty hunk into parts and returns their atoms; nil if it cannot be split any further. A part
// requires only other parts, because what the whole hunk requires is applied already.
func (h *hunkAxis) expand(atom int) []sets.Atom {
	i := h.index(h.ids[atom])
	if i < 0 {
		return nil
	}
	parts, n := h.diff.Split(i)
	if n < 2 || n > mostParts {
		return nil
	}
	h.diff, h.way = parts, fmt.Sprintf("%s%d ", h.way, atom)
	first := len(h.ids)
	var atoms []sets.Atom
	for k := i; k < i+n; k++ {
		x := h.diff.Hunks[k]
		h.ids, h.old[x.ID] = append(h.ids, x.ID), x
		atoms = append(atoms, atomOf(x, func(r int) int { return first + r - i }))
		atoms[len(atoms)-1].Requires = slices.DeleteFunc(atoms[len(atoms)-1].Requires, func(r int) bool { return r < first || r >= first+n })
	}
	return atoms
}

// between finds which hunks between the two ends are to blame. Ends without a difference in the inputs of build and run
// are a usage error, as is a difference that cannot be read.
func (x *setSearch) between(ctx context.Context, goal sets.Goal) (bisect.Finding, error) {
	from, to := x.session.Policy.Good, x.session.Policy.Bad
	diff, err := hunks.Between(ctx, x.session.Repo, from, to, x.session.Policy.Paths)
	if err != nil {
		return bisect.Finding{}, exit.Usage(err)
	}
	if len(diff.Hunks) == 0 {
		return bisect.Finding{}, exit.Usagef("%s and %s do not differ in the inputs of build and run", bisect.ShortID(from), bisect.ShortID(to))
	}
	return x.hunks(ctx, diff, goal, x.session.Memory)
}

// hunks finds which hunks of a difference are to blame. Trials are made by sampler.
func (x *setSearch) hunks(ctx context.Context, diff *hunks.Diff, goal sets.Goal, sampler bisect.Sampler) (bisect.Finding, error) {
	h, atoms := newHunkAxis(diff, map[string]bisect.Candidate{})
	space, err := sets.NewSpace(atoms)
	if err != nil {
		return bisect.Finding{}, exit.Usage(err)
	}
	x.session.Display.BeginSets(len(diff.Hunks), space.Len(), "hunk")
	a := axis{
		space: space, candidate: h.candidate, words: h.words, goal: goal,
		clean: true, expand: h.expand, divided: true, timed: goal != sets.One, sampler: sampler,
		hunks: func() []report.Hunk {
			var out []report.Hunk
			for _, id := range h.ids {
				out = append(out, shown(h.old[id], ""))
			}
			return out
		},
	}
	// A repetition begins with whole hunks, since this search splits them as it goes. What is composed already is shared.
	a.again = func() axis {
		fresh, _ := newHunkAxis(diff, h.made)
		again := a
		again.candidate, again.expand = fresh.candidate, fresh.expand
		return again
	}
	return x.along(ctx, a)
}
