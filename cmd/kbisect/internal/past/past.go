// Package past reads a stored session, finished or interrupted, as the document of its report ([Open]), writes a search
// as a log for git bisect replay ([Session.GitLog]), and gathers the history of metrics over commits ([ReadHistory]).
//
// It launches nothing, changes nothing in the store, and must not judge a commit anew: what it shows was found when
// the session ran.
package past

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Session is a stored session, read as a whole: the store is closed again.
type Session struct {
	repo     *source.Repo
	Session  store.Session
	policy   policy.Policy
	Document report.Document // as stored; for an unfinished session, made from its launches
	launches []report.Launch
}

// Open reads a session by its id; "" is the newest search that did not fail. A session that does not exist, that
// another version wrote and this one cannot read, or that failed before there was anything to report is a usage
// error; a store that cannot be read is the machine's.
func Open(ctx context.Context, repo *source.Repo, id string) (*Session, error) {
	st, err := session.ReadStore(repo)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	p := &Session{repo: repo}
	if id == "" { // the newest search, rather than a gate or a comparison
		all, err := st.Sessions(0)
		if err != nil {
			return nil, exit.With(exit.Machine, err)
		}
		searches := slices.DeleteFunc(all, func(s store.Session) bool { return !session.IsSearch(s) })
		if i := slices.IndexFunc(searches, func(s store.Session) bool { return s.Status != store.Failed }); i >= 0 {
			id = searches[i].ID
		} else if len(searches) > 0 { // all failed, usually by a mistake in the command line
			return nil, exit.Usagef("the newest search, %s, ended with an error before there was anything to report: %s\nhint: kbisect sessions lists all", searches[0].ID, words.Printable(searches[0].Summary))
		}
	}
	if p.Session, err = st.Session(id); err != nil {
		return nil, exit.Usage(err)
	}
	if s := p.Session; s.Status == store.Failed && len(s.Finding) == 0 {
		return nil, exit.Usagef("session %s ended with an error, and there is nothing to report: %s\nhint: kbisect show %s lists what it launched", s.ID, words.Printable(s.Summary), s.ID)
	}
	if err := json.Unmarshal(p.Session.Config, &p.policy); err != nil {
		return nil, exit.Usagef("session %s was made by another version of kbisect: %w", p.Session.ID, err)
	}
	if p.launches, err = session.KeptLaunches(st, p.Session.ID); err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	// A session that has ended has its document; one that was killed, or still runs, has launches and judgements.
	if len(p.Session.Finding) == 0 {
		p.Document, err = p.unfinished(ctx, st)
	} else if p.Document, err = report.Read(p.Session.Finding, p.Session.ID); err != nil {
		return nil, exit.Usagef("%w\nhint: kbisect show %s lists what it launched", err, p.Session.ID)
	}
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	return p, nil
}

// unfinished makes the document of a session that has none, because it was killed, has failed or is still running. The
// probabilities of the commits are lost; launches and judgements are stored as they are made.
func (p *Session) unfinished(ctx context.Context, st *store.Store) (report.Document, error) {
	s := p.Session
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
	p.Document = &report.Search{Steps: f.Steps}
	// How the time was spent is stored only when a session ends. Until then the end of its last launch is a lower bound.
	in := report.Input{
		Session: s.ID, Axis: s.Axis, Finding: f, Ledger: p.Ledger(ctx), Spent: []report.Spent{{Account: "until it ended", Seconds: session.Elapsed(&s, p.launches).Seconds()}}, GPUHour: p.policy.GPUHour, Error: s.Summary,
		Good: report.CommitInfo{ID: s.Good}, Bad: report.CommitInfo{ID: s.Bad},
	}
	return report.NewSearch(in), nil
}

// role is the part that a commit played in a search, by its place: the store does not keep it with a judgement. Those
// that confirmed the culprit count as searched.
func role(s store.Session, commit string) bisect.Role {
	switch commit {
	case s.Good:
		return bisect.RoleGoodEnd
	case s.Bad:
		return bisect.RoleBadEnd
	}
	return bisect.RoleSearch
}

// Ledger is what the report refers to: launches, limits and the commits with their subjects, and the diffs of the
// culprits. What the repository no longer has is left out: a subject, a diff, or the order of the commits.
func (p *Session) Ledger(ctx context.Context) report.Ledger {
	s := p.Session
	named, culprits := []string{s.Good, s.Bad}, []string(nil)
	switch d := p.Document.(type) {
	case *report.Search:
		for _, x := range d.Steps {
			named = append(named, x.Commit)
		}
		for _, c := range d.Culprits {
			culprits = append(culprits, c.Commit)
		}
	case *report.Gate:
		if d.Culprit != nil {
			culprits = append(culprits, d.Culprit.Commit)
		}
	}
	l := session.NewLedger(p.repo, &p.policy, s.Good, s.Args, p.launches, named...)
	// nil if commits are gone; then the page says that their order is unknown.
	rng, _ := p.repo.Range(ctx, s.Good, s.Bad, p.policy.RangeOptions())
	session.Picture(&l, p.repo, p.policy.Axis, rng, culprits)
	return l
}
