package search

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Input gathers the facts of the report: the finding, the launches, and what the repository says about every commit
// that is named.
func (s *Search) Input(f bisect.Finding) report.Input {
	t := s.session
	var named, culprits []string
	for _, step := range f.Steps {
		named = append(named, step.Commit)
	}
	for _, l := range f.Levels {
		named = append(named, l.Commit)
	}
	for _, m := range f.Fixes {
		named = append(named, m.After, m.By)
	}
	for _, x := range f.Suspects {
		named = append(named, x.Commit)
	}
	for _, c := range f.Culprits {
		culprits = append(culprits, c.Commit)
	}
	in := report.Input{
		Session: t.Record.ID, Finding: f, Ledger: t.LedgerFor(s.good, s.seen(), append(named, s.good, t.Policy.Bad)...),
		GPUHour:  t.Policy.GPUHour,
		Warnings: append(t.Warnings(), append(unchangedCode(t.Launches, f.Culprits), idle(t)...)...), Devices: t.Devices.Names(), Unwatched: t.Devices.Unwatched(),
		Explain: s.table, Axis: t.Policy.Axis, Hunks: s.hunks, UnreadHunks: s.unread, Switch: s.switched,
	}
	for _, id := range culprits {
		in.Commits[id] = t.CommitInfo(id)
	}
	in.Good, in.Bad = in.Info(s.good), in.Info(t.Policy.Bad)
	session.Picture(&in.Ledger, t.Repo, t.Policy.Axis, t.Range, culprits)
	in.Spent = session.Spent(t, t.Record.Elapsed) // up to now
	if f.Err != nil {
		in.Error = f.Err.Error()
	}
	if s.sets != nil {
		in.Sets = s.sets.found
		if r := s.sets.ranking; r != nil {
			in.Advice = r.Advice()
			for _, e := range r.Effects {
				in.Terms = append(in.Terms, report.Term{Terms: e.Terms, Metric: s.sets.ranked, Better: words.Direction(r.Higher), Ratio: e.Ratio, Low: e.Low, High: e.High, Share: e.Share})
			}
		}
	}
	return in
}

// seen are the launches as the search saw them: where a lost metric counts as a failure, that is their outcome. The
// session's own launches stay as they were.
func (s *Search) seen() []report.Launch {
	out := slices.Clone(s.session.Launches)
	for i := range out {
		out[i].Outcome = s.session.Memory.Seen(out[i].Outcome)
	}
	return out
}

// keepStep writes a judgement into the store, for people who look there. A resumed search repeats the judgements of
// earlier attempts from its launches; those are in the store already and are skipped. Nothing rests on them, so
// that a failure to write is a warning.
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

// recordGood stores the commits that a finding has proven good. Only the good end and the culprit's parent were
// launched often enough for a later search to begin from them; and a search for builds that fail says nothing about
// how a commit runs.
func (s *Search) recordGood(d *report.Search) error {
	t := s.session
	if t.Policy.Judge.Builds || d.Result != bisect.Found {
		return nil
	}
	for _, step := range d.Steps {
		proven := step.Role == bisect.RoleGoodEnd || step.Role == bisect.RoleParent
		if !proven || step.Verdict.Call != bisect.Good || step.Verdict.Class != bisect.OK || step.Inferred {
			continue
		}
		if err := t.Store.RecordGood(store.Good{Commit: step.Commit, When: time.Now(), Session: t.Record.ID, Detail: step.Verdict.Why}); err != nil {
			return err
		}
	}
	return nil
}

// explain compares the first culprit with its parent. It looks at builds on this machine, so that a cluster has
// none; and a culprit that does not build needs no explanation.
func (s *Search) explain(ctx context.Context, f *bisect.Finding) {
	c := f.Culprits[0]
	if !c.Confirmed || len(c.Parents) == 0 || c.Class == bisect.BuildFailed || s.session.Cluster != nil {
		return
	}
	defer s.session.Stopwatch.Enter("profilers")()
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
			title = fmt.Sprintf("Culprit %s against its parent", bisect.ShortID(c.Commit))
		}
		t := got.Table(title, "parent", "culprit")
		s.table = &t
	}
}

// idle warns that the devices of a search were busy for less than 60 % of the time, so that more of them would not
// shorten it. A resumed search gets no warning: its time on the clock is not that of its launches.
func idle(t *session.Session) []string {
	const enough = 0.6
	n, busy := len(t.Devices.Names()), 0.0
	for _, l := range report.Made(t.Launches) {
		busy += l.Outcome.Wall + l.Outcome.Paired
	}
	busy /= time.Since(t.Began).Seconds()
	if t.Policy.Spread == "" || n < 2 || t.Record.Elapsed > 0 || busy > enough*float64(n) {
		return nil
	}
	return []string{fmt.Sprintf("of %d devices %.1f were busy on average: more would not shorten this search", n, busy)}
}
