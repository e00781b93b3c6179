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

// Check is checkPaths for two ends between which files may have been renamed.
func (r ends) Check(ctx context.Context) error {
	if err := r.FollowRenames(ctx); err != nil {
		return err
	}
	return r.CheckPaths()
}

// FollowRenames has candidates built from what the plan takes from them, such as the submission, under the name that it
// had then. Ends that are no range are left as they are.
func (r ends) FollowRenames(ctx context.Context) error {
	if r.p.Bad == "" {
		return nil
	}
	for _, name := range slices.Concat(r.p.Needs, r.p.CUDA.sources) {
		name = path.Clean(filepath.ToSlash(name))
		if r.brings(name) {
			continue
		}
		former, err := r.formerNames(ctx, name)
		if err != nil {
			return exit.Usage(err)
		}
		if len(former) == 0 {
			continue
		}
		files := slices.Clone(r.p.Plan.Files)
		if i := slices.IndexFunc(files, func(f kernels.File) bool { return f.Source == name }); i >= 0 {
			files[i].Formerly = former
		} else {
			files = append(files, kernels.File{Name: name, Source: name, Formerly: former}) // such plans have no Dir
		}
		r.p.Plan.Files = files
		var names []string
		for _, f := range former {
			names = append(names, f.Path)
		}
		r.p.Former = slices.Concat(r.p.Former, names)
		if len(r.p.Paths) > 0 {
			r.p.Paths = slices.Concat(r.p.Paths, names)
		}
		r.p.Warnings = append(r.p.Warnings, fmt.Sprintf("%s was %s in older commits, which are tried with what they hold under that name", name, strings.Join(names, ", before that ")))
	}
	return nil
}

// follows reports whether a path is a name that a file of the plan had, or one of which candidates have another.
func (r ends) follows(name string) bool {
	return slices.Contains(r.p.Former, name) ||
		slices.ContainsFunc(r.p.Plan.Files, func(f kernels.File) bool { return f.Source == path.Clean(name) && len(f.Formerly) > 0 })
}

// formerNames are the names that a file of the bad end, or of HEAD where that has none, had before this one, back to the
// good end, the newest first.
func (r ends) formerNames(ctx context.Context, name string) (former []kernels.Former, err error) {
	const most = 8 // renames of one file
	tip := r.p.Bad
	if held, err := r.repo.Has(tip, name); err != nil || !held {
		if tip, err = r.repo.Resolve("HEAD"); err != nil {
			return nil, nil // the bad end alone counts
		}
	}
	good := r.p.Good
	if good == "" {
		good = oldest(r.repo, tip)
	}
	for range most {
		before, err := nameBefore(ctx, r.repo, good, tip, name)
		if err != nil || before.Path == "" {
			return former, err
		}
		former = append(former, before)
		c, err := r.repo.Commit(before.Renamed)
		if err != nil {
			return nil, err
		}
		tip, name = c.Parents[0], before.Path
	}
	return former, nil
}

// oldest is how far back a file is followed whose good end is still to be found.
func oldest(repo *source.Repo, id string) string {
	const most = 2000 // commits
	for range most {
		c, err := repo.Commit(id)
		if err != nil || len(c.Parents) == 0 {
			break
		}
		id = c.Parents[0]
	}
	return id
}

// nameBefore is what the last commit of a range has renamed to name, nothing where none has.
func nameBefore(ctx context.Context, repo *source.Repo, good, bad, name string) (none kernels.Former, err error) {
	rng, err := repo.Range(ctx, good, bad, source.RangeOptions{Paths: []string{name}})
	if err != nil {
		return none, ctx.Err() // no range: whoever needs one says so
	}
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
