package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// checkEnds is checkPaths for two ends between which files may have been renamed.
func (p *policy) checkEnds(ctx context.Context, repo *source.Repo) error {
	if err := p.followRenames(ctx, repo); err != nil {
		return err
	}
	return p.checkPaths(repo)
}

// followRenames has older candidates built from what the plan takes from them, such as the submission, under the name
// that it had then. Ends that are no range are left as they are.
func (p *policy) followRenames(ctx context.Context, repo *source.Repo) error {
	if p.Good == "" || p.Bad == "" {
		return nil
	}
	for _, name := range slices.Concat(p.Needs, p.CUDA.sources) {
		former, err := p.formerNames(ctx, repo, name)
		if err != nil {
			return usage(err)
		}
		if len(former) == 0 || p.brings(name) {
			continue
		}
		isSource := func(f kernels.File) bool { return f.Source == name }
		files := slices.Clone(p.Plan.Files)
		if i := slices.IndexFunc(files, isSource); i >= 0 {
			files[i].Formerly = former
		} else {
			files = append(files, kernels.File{Name: name, Source: name, Formerly: former}) // such plans have no Dir
		}
		p.Plan.Files = files
		if len(p.Paths) > 0 {
			p.Paths = slices.Concat(p.Paths, former)
		}
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s was %s in older commits, which are tried with what they hold under that name", name, strings.Join(former, ", before that ")))
	}
	return nil
}

// follows reports whether older candidates have a file of the plan under another name.
func (p *policy) follows(name string) bool {
	return slices.ContainsFunc(p.Plan.Files, func(f kernels.File) bool { return f.Source == name && len(f.Formerly) > 0 })
}

// formerNames are the names under which a file of the bad end, or of HEAD where that has none, was there before it had
// this one, the newest first, back to that of the good end; none where the good end has it, or no rename leads there.
func (p *policy) formerNames(ctx context.Context, repo *source.Repo, name string) (former []string, err error) {
	const most = 8 // renames of one file
	tip := p.Bad
	if held, err := repo.Has(tip, name); err != nil || !held {
		if tip, err = repo.Resolve("HEAD"); err != nil {
			return nil, nil // the bad end alone counts
		}
	}
	for range most {
		if held, err := repo.Has(p.Good, name); err != nil || held {
			return former, err
		}
		if name, err = nameBefore(ctx, repo, p.Good, tip, name); err != nil || name == "" || slices.Contains(former, name) {
			return nil, err
		}
		former = append(former, name)
	}
	return nil, nil
}

// nameBefore is what a commit of the range has renamed to name, "" where none has.
func nameBefore(ctx context.Context, repo *source.Repo, good, bad, name string) (string, error) {
	rng, err := repo.Range(ctx, good, bad, source.RangeOptions{Paths: []string{name}})
	if err != nil {
		return "", ctx.Err() // no range: whoever needs one says so
	}
	for _, c := range slices.Backward(rng.Commits) {
		if c.Neutral || len(c.Parents) == 0 {
			continue
		}
		if held, err := repo.Has(c.Parents[0], name); err != nil || held {
			continue
		}
		diff, err := repo.HunksOf(ctx, c.ID, nil)
		if err != nil {
			return "", err
		}
		for _, h := range diff.Hunks {
			if h.Kind == source.HunkRenamed && h.File == name {
				return h.OldFile, nil
			}
		}
	}
	return "", nil
}
