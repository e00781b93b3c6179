package policy

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
)

// Check is [Ends.CheckPaths] for a range in which files may have been renamed.
func (e Ends) Check(ctx context.Context) error {
	if err := e.FollowRenames(ctx); err != nil {
		return err
	}
	return e.CheckPaths()
}

// FollowRenames lets the plan find a file that it needs, such as the submission, in older commits under the name
// that it had there, and warns about it. It needs the bad end, and does nothing without one.
func (e Ends) FollowRenames(ctx context.Context) error {
	if e.p.Bad == "" {
		return nil
	}
	for _, name := range slices.Concat(e.p.Needs, e.p.CUDA.sources) {
		name = path.Clean(filepath.ToSlash(name))
		if e.brings(name) {
			continue
		}
		former, err := e.formerNames(ctx, name)
		if err != nil {
			return exit.Usage(err)
		}
		if len(former) == 0 {
			continue
		}
		files := slices.Clone(e.p.Plan.Files)
		if i := slices.IndexFunc(files, func(f kernels.File) bool { return f.Source == name }); i >= 0 {
			files[i].Formerly = former
		} else {
			files = append(files, kernels.File{Name: name, Source: name, Formerly: former}) // such plans have no Dir
		}
		e.p.Plan.Files = files
		var names []string
		for _, f := range former {
			names = append(names, f.Path)
		}
		e.p.Former = slices.Concat(e.p.Former, names)
		if len(e.p.Paths) > 0 {
			e.p.Paths = slices.Concat(e.p.Paths, names)
		}
		e.p.Warnings = append(e.p.Warnings, fmt.Sprintf("%s was called %s in older commits, which are tested with that file", name, strings.Join(names, ", before that ")))
	}
	return nil
}

// follows reports whether a path is a former name of a file of the plan, or a file that had former names.
func (e Ends) follows(name string) bool {
	return slices.Contains(e.p.Former, name) ||
		slices.ContainsFunc(e.p.Plan.Files, func(f kernels.File) bool { return f.Source == path.Clean(name) && len(f.Formerly) > 0 })
}

// formerNames lists the names that a file of the bad end (or of HEAD, if the bad end lacks it) had before, back to the
// good end, newest first; at most eight. While the good end is unknown it looks back 2000 commits.
func (e Ends) formerNames(ctx context.Context, name string) (former []kernels.Former, err error) {
	const most = 8 // renames of one file
	tip := e.p.Bad
	if held, err := e.repo.Has(tip, name); err != nil || !held {
		if tip, err = source.Head(e.repo); err != nil {
			return nil, nil // the bad end alone counts
		}
	}
	good := e.p.Good
	if good == "" {
		const most = 2000 // commits that a file is followed back while the good end is unknown
		if c, _, err := source.Back(ctx, e.repo, tip, most); err == nil {
			good = c.ID
		}
	}
	for range most {
		before, err := nameBefore(ctx, e.repo, good, tip, name)
		if err != nil || before.Path == "" {
			return former, err
		}
		former = append(former, before)
		c, err := e.repo.Commit(before.Renamed)
		if err != nil {
			return nil, err
		}
		tip, name = c.Parents[0], before.Path
	}
	return former, nil
}

// nameBefore is the file that the newest commit of a range renamed to name; none if no commit did. A commit that added
// the file under this name counts only if its diff shows a rename.
func nameBefore(ctx context.Context, repo *source.Repo, good, bad, name string) (none kernels.Former, err error) {
	rng, err := repo.Range(ctx, good, bad, source.RangeOptions{Paths: []string{name}})
	if err != nil {
		return none, ctx.Err() // not a range, which what needs one reports
	}
	// From the newest back: the first rename met is the last one that happened.
	for _, c := range slices.Backward(rng.Commits) {
		if c.Neutral || len(c.Parents) == 0 {
			continue
		}
		before, err := repo.Has(c.Parents[0], name)
		if err != nil || before {
			continue
		}
		if now, err := repo.Has(c.ID, name); err != nil || !now {
			continue
		}
		diff, err := hunks.Of(ctx, repo, c.ID, nil)
		if err != nil {
			return none, err
		}
		for _, h := range diff.Hunks {
			if h.Kind == hunks.Renamed && h.File == name {
				return kernels.Former{Path: h.OldFile, Renamed: c.ID}, nil
			}
		}
	}
	return none, nil
}
