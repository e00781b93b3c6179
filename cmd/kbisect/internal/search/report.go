package search

import (
	"context"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
)

// MarkDrilled marks the launches of a search over a range that were of no commit of it, or of its flags.
func MarkDrilled(launches []report.Launch, rng *source.Range) {
	inRange := map[string]bool{rng.Good.ID: true}
	for _, c := range rng.Commits {
		inRange[c.ID] = true
	}
	for i, l := range launches {
		launches[i].Drill = l.Purpose == switching || l.Purpose != bisect.FindGood && !inRange[l.Candidate.Commit]
	}
}

// Input gathers what the report is made of.
func (j *Search) Input(f bisect.Finding) report.Input {
	in := report.Input{
		Session: j.session.Record.ID, Finding: f, Ledger: report.Ledger{Launches: j.seen(), Commits: map[string]report.CommitInfo{}}, Wall: j.session.Record.Elapsed + time.Since(j.session.Began),
		GPUHour:  j.session.Policy.GPUHour,
		Warnings: append(j.session.Warnings(), j.doubtfulCulprits(f)...), Devices: j.session.Devices.Names(), Unwatched: j.session.Devices.Unwatched(),
	}
	if j.session.Range != nil && j.session.Policy.Axis == policy.AxisHistory {
		MarkDrilled(in.Launches, j.session.Range)
	}
	if f.Err != nil {
		in.Error = f.Err.Error()
	}
	add := func(id string, files bool) report.CommitInfo {
		info := j.session.CommitInfo(id, files)
		in.Commits[id] = info
		return info
	}
	in.Good, in.Bad = add(j.session.Policy.Good, false), add(j.session.Policy.Bad, false)
	for _, s := range f.Steps {
		add(s.Commit, false)
	}
	for _, l := range f.Levels {
		add(l.Commit, false)
	}
	for _, s := range f.Suspects {
		add(s.Commit, false)
	}
	for _, c := range f.Culprits {
		add(c.Commit, true)
	}
	j.addSets(&in)
	for _, l := range j.session.Launches {
		if _, known := in.Commits[l.Candidate.Commit]; !known {
			add(l.Candidate.Commit, false)
		}
	}
	return in
}

func culprits(f bisect.Finding) (ids []string) {
	for _, c := range f.Culprits {
		ids = append(ids, c.Commit)
	}
	return ids
}

// Pictured adds what the pictures of a report need: the order of the range, the limits in seconds and
// what the culprits changed. What cannot be read is left out, and the report says so.
func Pictured(ctx context.Context, l *report.Ledger, repo *source.Repo, rng *source.Range, limits pipeline.Limits, good string, culprits []string) {
	if rng != nil {
		l.Order = []string{rng.Good.ID}
		for _, c := range rng.Commits {
			l.Order = append(l.Order, c.ID)
		}
	}
	l.Limits = session.InSeconds(limits, session.GoodTimes(l.Launches, good))
	l.Diffs = map[string]string{}
	for _, id := range culprits {
		d, err := hunks.Of(ctx, repo, id, nil)
		if err != nil {
			continue
		}
		all := make([]int, len(d.Hunks))
		for i := range all {
			all[i] = i
		}
		if text, err := d.Unified(all, 3); err == nil {
			l.Diffs[id] = text
		}
	}
}
