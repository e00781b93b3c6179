package search

import (
	"context"
	"os"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// MarkDrilled marks the launches that looked inside a culprit: those that try its flags or are of no commit of the
// range.
func MarkDrilled(launches []report.Launch, rng *source.Range) {
	inRange := map[string]bool{rng.Good.ID: true}
	for _, c := range rng.Commits {
		inRange[c.ID] = true
	}
	for i, l := range launches {
		launches[i].Drill = l.Purpose == switching || l.Purpose != bisect.FindGood && !inRange[l.Candidate.Commit]
	}
}

// Input gathers the facts of the report.
func (s *Search) Input(f bisect.Finding) report.Input {
	in := report.Input{
		Session: s.session.Record.ID, Finding: f, Ledger: report.Ledger{Launches: s.seen(), Commits: map[string]report.CommitInfo{}, Call: report.NewCall(os.Args, s.session.Record.Args)}, Wall: s.session.Record.Elapsed + time.Since(s.session.Began),
		GPUHour:  s.session.Policy.GPUHour,
		Warnings: append(s.session.Warnings(), unchangedCode(s.session.Launches, f.Culprits)...), Devices: s.session.Devices.Names(), Unwatched: s.session.Devices.Unwatched(),
	}
	if s.session.Range != nil && s.session.Policy.Axis == policy.AxisHistory {
		MarkDrilled(in.Launches, s.session.Range)
	}
	if f.Err != nil {
		in.Error = f.Err.Error()
	}
	add := func(id string, files bool) report.CommitInfo {
		info := s.session.CommitInfo(id, files)
		in.Commits[id] = info
		return info
	}
	in.Good, in.Bad = add(s.good, false), add(s.session.Policy.Bad, false)
	for _, step := range f.Steps {
		add(step.Commit, false)
	}
	for _, l := range f.Levels {
		add(l.Commit, false)
	}
	for _, x := range f.Suspects {
		add(x.Commit, false)
	}
	for _, c := range f.Culprits {
		add(c.Commit, true)
	}
	in.Explain, in.Axis, in.Hunks, in.Switch = s.table, s.session.Policy.Axis, s.hunks, s.switched
	if s.sets != nil {
		in.Sets = s.sets.found
		if r := s.sets.ranking; r != nil {
			in.Advice = r.Advice()
			for _, e := range r.Effects {
				in.Terms = append(in.Terms, report.Term{Terms: e.Terms, Ratio: e.Ratio, Low: e.Low, High: e.High, Share: e.Share})
			}
		}
	}
	// Launches of other commits, such as those composed of hunks, are named in the table of all launches.
	for _, l := range s.session.Launches {
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

// Pictured adds what the charts of a report need: the order of the range, the limits in seconds and the diffs of the
// culprits. A diff that cannot be read is left out; the report says so.
func Pictured(ctx context.Context, l *report.Ledger, repo *source.Repo, rng *source.Range, limits trial.Limits, good string, culprits []string) {
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
