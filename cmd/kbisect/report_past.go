package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
	"github.com/kbisect/kbisect/pipeline/store"
)

// past is a session as the store keeps it.
type past struct {
	repo     *source.Repo
	session  store.Session
	policy   policy.Policy
	document report.Document // as it was kept; of a session without one, what is known
	launches []report.Launch
}

// openPast reads the session that is asked for.
func openPast(c *cli.Context, repo *source.Repo) (*past, error) {
	st, err := readStore(repo)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	p := &past{repo: repo}
	id := c.Args().First()
	if id == "" { // the newest search, rather than a gate or a comparison
		all, err := st.Sessions(0)
		if err != nil {
			return nil, exit.With(exit.Machine, err)
		}
		searches := slices.DeleteFunc(all, func(s store.Session) bool { return !isSearch(s) })
		if i := slices.IndexFunc(searches, func(s store.Session) bool { return s.Status != store.Failed }); i >= 0 {
			id = searches[i].ID
		} else if len(searches) > 0 { // for a slip in the command line, as a rule
			return nil, exit.Usagef("the newest search, %s, ended with an error before there was anything to report: %s\nhint: kbisect sessions lists all", searches[0].ID, wording.Clean(searches[0].Summary))
		}
	}
	if p.session, err = st.Session(id); err != nil {
		return nil, exit.Usage(err)
	}
	if s := p.session; s.Status == store.Failed && len(s.Finding) == 0 {
		return nil, exit.Usagef("session %s ended with an error, and there is nothing to report: %s\nhint: kbisect show %s lists what it launched", s.ID, wording.Clean(s.Summary), s.ID)
	}
	if err := json.Unmarshal(p.session.Config, &p.policy); err != nil {
		return nil, exit.Usagef("session %s was made by another version of kbisect: %w", p.session.ID, err)
	}
	if p.launches, err = keptLaunches(st, p.session.ID); err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	if len(p.session.Finding) == 0 {
		p.document, err = p.unfinished(c.Context, st)
	} else if p.document, err = report.Read(p.session.Finding, p.session.ID); err != nil {
		return nil, exit.Usagef("%w\nhint: kbisect show %s lists what it launched", err, p.session.ID)
	}
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	return p, nil
}

// keptLaunches reads the launches of a session.
func keptLaunches(st *store.Store, session string) ([]report.Launch, error) {
	kept, err := st.Launches(session)
	if err != nil {
		return nil, err
	}
	var out []report.Launch
	for _, l := range kept {
		var o bisect.Outcome
		if err := json.Unmarshal(l.Outcome, &o); err != nil {
			return nil, fmt.Errorf("launch %d of session %s cannot be read: %w", l.Seq, session, err)
		}
		out = append(out, report.Launch{Candidate: bisect.ParseCandidate(l.Candidate), Purpose: bisect.Purpose(l.Purpose), Nth: l.Ordinal, Outcome: o, Replayed: true})
	}
	return out, nil
}

// unfinished makes the document of a session that has none: it was killed, or failed, or is still at work.
func (p *past) unfinished(ctx context.Context, st *store.Store) (report.Document, error) {
	s := p.session
	f := bisect.Finding{Result: bisect.Interrupted}
	if s.Status == store.Infra {
		f.Result = bisect.Broken
	}
	steps, err := st.Steps(s.ID)
	if err != nil {
		return nil, err
	}
	for _, x := range steps {
		step := bisect.Step{Commit: x.Commit, Role: role(s, x.Commit), Inferred: x.Inferred}
		if err := json.Unmarshal(x.Verdict, &step.Verdict); err != nil {
			return nil, fmt.Errorf("judgement %d of session %s cannot be read: %w", x.Seq, s.ID, err)
		}
		f.Steps = append(f.Steps, step)
	}
	p.document = &report.Search{Steps: f.Steps}
	in := report.Input{
		Session: s.ID, Axis: s.Axis, Finding: f, Ledger: p.ledger(ctx), Wall: elapsed(&s, p.launches), GPUHour: p.policy.GPUHour, Error: s.Summary,
		Good: report.CommitInfo{ID: s.Good}, Bad: report.CommitInfo{ID: s.Bad},
	}
	return report.NewSearch(in), nil
}

func role(s store.Session, commit string) bisect.Role {
	switch commit {
	case s.Good:
		return bisect.RoleGoodEnd
	case s.Bad:
		return bisect.RoleBadEnd
	}
	return bisect.RoleSearch
}

// ledger gathers what a report rests on, from the store and as far as the repository still holds it.
func (p *past) ledger(ctx context.Context) report.Ledger {
	s := p.session
	l := report.Ledger{Launches: p.launches, Commits: map[string]report.CommitInfo{}}
	add := func(id string) {
		if _, known := l.Commits[id]; known || id == "" {
			return
		}
		info := report.CommitInfo{ID: id}
		if c, err := p.repo.Commit(id); err == nil {
			info.Subject, info.Author, info.Email, info.When = c.Subject, c.Author, c.Email, c.When
		}
		l.Commits[id] = info
	}
	add(s.Good)
	add(s.Bad)
	for _, x := range l.Launches {
		add(x.Candidate.Commit)
	}
	var culprits []string
	if d, ok := p.document.(*report.Search); ok {
		for _, x := range d.Steps {
			add(x.Commit)
		}
		for _, c := range d.Culprits {
			culprits = append(culprits, c.Commit)
		}
	}
	rng, _ := p.repo.Range(ctx, s.Good, s.Bad, p.policy.RangeOptions()) // without it, the page says that the order is lost
	if rng != nil && p.policy.Axis == policy.AxisHistory {
		markDrilled(l.Launches, rng)
	}
	pictured(ctx, &l, p.repo, rng, p.policy.Limits, s.Good, culprits)
	return l
}

// pictured adds what the pictures of a report need: the order of the range, the limits in seconds and
// what the culprits changed. What cannot be read is left out, and the report says so.
func pictured(ctx context.Context, l *report.Ledger, repo *source.Repo, rng *source.Range, limits pipeline.Limits, good string, culprits []string) {
	if rng != nil {
		l.Order = []string{rng.Good.ID}
		for _, c := range rng.Commits {
			l.Order = append(l.Order, c.ID)
		}
	}
	l.Limits = inSeconds(limits, goodTimes(l.Launches, good))
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

// goodTimes are the longest times of the good end by phase, on which limits rest that are multiples.
func goodTimes(launches []report.Launch, good string) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, l := range launches {
		if l.Candidate.Commit != good || l.Outcome.Class != bisect.OK {
			continue
		}
		for _, p := range l.Outcome.Phases {
			out[p.Name] = max(out[p.Name], time.Duration(p.Seconds*float64(time.Second)))
		}
	}
	return out
}

// inSeconds are the limits in force, by phase.
func inSeconds(l pipeline.Limits, good map[string]time.Duration) map[string]float64 {
	out := map[string]float64{"build": l.Build.Seconds(), bisect.WholeTrial: l.Run.Seconds()}
	for phase, limit := range l.Phases {
		out[phase] = limit.For(good[phase]).Seconds()
	}
	return out
}
