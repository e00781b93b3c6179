package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// input gathers what the report is made of.
func (j *job) input(f bisect.Finding) report.Input {
	in := report.Input{
		Session: j.session.record.ID, Finding: f, Ledger: report.Ledger{Launches: j.seen(), Commits: map[string]report.CommitInfo{}}, Wall: j.session.record.Elapsed + time.Since(j.session.began),
		GPUHour:  j.session.policy.GPUHour,
		Warnings: append(j.session.warnings(), j.doubtfulCulprits(f)...), Devices: j.session.gpus.names(), Unwatched: j.session.gpus.unwatched(),
	}
	if j.session.rng != nil && j.session.policy.Axis == policy.AxisHistory {
		markDrilled(in.Launches, j.session.rng)
	}
	if f.Err != nil {
		in.Error = f.Err.Error()
	}
	add := func(id string, files bool) report.CommitInfo {
		info := j.session.commitInfo(id, files)
		in.Commits[id] = info
		return info
	}
	in.Good, in.Bad = add(j.session.policy.Good, false), add(j.session.policy.Bad, false)
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
	for _, l := range j.session.launches {
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

// warnings are those of the repository, its range and the configuration.
func (j *Session) warnings() []string {
	out := append(j.repo.Warnings(), j.policy.Warnings...)
	out = append(out, deadMetrics(j)...)
	if j.rng != nil {
		out = append(out, j.rng.Warnings...)
	}
	for _, p := range j.pipes {
		for _, w := range p.Warnings() {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	if j.slots == nil {
		return out
	}
	if n, took := j.slots.Lost(); n > 0 {
		out = append(out, fmt.Sprintf("trials begun ahead that nobody asked for were stopped: %d, after %s in all, which the totals leave out", n, wording.Span(took)))
	}
	return out
}

func (j *Session) commitInfo(id string, files bool) report.CommitInfo {
	info := report.CommitInfo{ID: id}
	if id == "" {
		return info
	}
	c, err := j.repo.Commit(id)
	if err != nil {
		return info
	}
	info.Subject, info.Author, info.Email, info.When = c.Subject, c.Author, c.Email, c.When
	if !files {
		return info
	}
	changed, err := j.repo.ChangedFiles(id)
	if err != nil {
		j.ui.Warn(err.Error())
	}
	for _, x := range changed {
		info.Files = append(info.Files, report.File{Kind: x.Kind, Path: x.Path})
	}
	return info
}
