package search

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
	"github.com/kbisect/kbisect/pipeline/store"
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

// Input gathers the facts of the report: the finding, the launches, and what the repository says of every commit that
// is named.
func (s *Search) Input(f bisect.Finding) report.Input {
	in := report.Input{
		Session: s.session.Record.ID, Finding: f, Ledger: report.Ledger{Launches: s.seen(), Commits: map[string]report.CommitInfo{}, Call: report.NewCall(os.Args, s.session.Record.Args), Setup: s.session.Setup()}, Spent: session.Spent(s.session, s.session.Record.Elapsed),
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
	for _, m := range f.Fixes {
		add(m.After, false)
		add(m.By, false)
	}
	for _, x := range f.Suspects {
		add(x.Commit, false)
	}
	for _, c := range f.Culprits {
		add(c.Commit, true)
	}
	in.Explain, in.Axis, in.Hunks, in.UnreadHunks, in.Switch = s.table, s.session.Policy.Axis, s.hunks, s.unread, s.switched
	if s.sets != nil {
		in.Sets = s.sets.found
		if r := s.sets.ranking; r != nil {
			in.Advice = r.Advice()
			for _, e := range r.Effects {
				in.Terms = append(in.Terms, report.Term{Terms: e.Terms, Metric: s.sets.ranked, Better: words.Direction(r.Higher), Ratio: e.Ratio, Low: e.Low, High: e.High, Share: e.Share})
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

// culprits are the ids of the commits that were found.
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
	l.Limits, l.Forge = session.InSeconds(limits, session.GoodTimes(l.Launches, good)), report.ForgeOf(source.Origin(repo))
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

// seen are the launches as the search saw them: a lost metric counts as a failure.
func (s *Search) seen() []report.Launch {
	out := slices.Clone(s.session.Launches)
	for i := range out {
		out[i].Outcome = s.session.Memory.Seen(out[i].Outcome)
	}
	return out
}

// keepStep writes a judgement into the store for people who look there. A resumed search repeats the judgements of
// earlier attempts from its launches: those are in the store already. That it cannot be written is a warning: nothing
// else rests on it.
func (s *Search) keepStep(step bisect.Step) {
	t := s.session
	if t.Display.Steps <= t.KeptSteps {
		return
	}
	data, err := json.Marshal(step.Verdict)
	if err == nil {
		err = t.Store.AddStep(store.Step{
			Session: t.Record.ID, Seq: t.Display.Steps, Commit: step.Commit, Candidate: step.Commit, Call: string(step.Verdict.Call),
			Probability: step.Verdict.Probability, Why: step.Verdict.Why, Inferred: step.Inferred, Verdict: data,
		})
	}
	if err != nil {
		t.Display.Warn(fmt.Sprintf("storing a judgement: %v", err))
	}
}

// keep stores the finding, and the commits that it has proven good.
func (s *Search) keep(d *report.Search) error {
	t := s.session
	var data bytes.Buffer
	if err := report.WriteJSON(&data, d); err != nil {
		return err
	}
	for _, step := range d.Steps {
		// Only what was launched as an end or as the parent of the culprit was launched often enough to begin a later search
		// from; and a search for builds that fail says nothing of how a commit runs.
		proven := step.Role == bisect.RoleGoodEnd || step.Role == bisect.RoleParent
		if !t.Policy.Judge.Builds && step.Verdict.Call == bisect.Good && step.Verdict.Class == bisect.OK && !step.Inferred && proven && d.Result == bisect.Found {
			if err := t.Store.RecordGood(store.Good{Commit: step.Commit, When: time.Now(), Session: t.Record.ID, Detail: step.Verdict.Why}); err != nil {
				return err
			}
		}
	}
	return t.Store.UpdateSession(t.Record.ID, func(kept *store.Session) {
		kept.Status, kept.Finding, kept.Summary = string(d.Result), data.Bytes(), d.Summary()
		kept.Good, kept.Elapsed = s.good, time.Duration(d.Totals.Wall*float64(time.Second))
	})
}

// explain compares the first culprit with its parent. A culprit that does not build needs no explanation.
func (s *Search) explain(ctx context.Context, f *bisect.Finding) {
	c := f.Culprits[0]
	if !c.Confirmed || len(c.Parents) == 0 || c.Class == bisect.BuildFailed || s.session.Cluster != nil { // it looks at builds of this machine
		return
	}
	defer s.session.Watch.Enter("profilers")()
	about := c.Effect
	if about == nil && c.Class == bisect.Timeout && c.Phase != "" {
		about = &bisect.Effect{Metric: "phase." + c.Phase}
	}
	got, err := explain.Culprit(ctx, s.session, c.Parents[0], c.Commit, about)
	switch {
	case err != nil:
		f.Warnings = append(f.Warnings, "the culprit could not be examined: "+wording.Headline(err.Error()))
	case got != nil:
		title := "The culprit against its parent"
		if len(f.Culprits) > 1 {
			title = fmt.Sprintf("Culprit %s against its parent", wording.Short(c.Commit))
		}
		t := got.Table(title, "parent", "culprit")
		s.table = &t
	}
}
