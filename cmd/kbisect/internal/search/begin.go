package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Run is the main job: it begins a search, or goes on with one.
func Run(ctx context.Context, e session.Env) error {
	q := e.Request
	repo, err := source.Open(q.Dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	var p *policy.Policy
	var rng *source.Range
	if q.Resume { // nothing is made where there is nothing to go on with
		err = searched(repo)
	} else { // what is wrong with the request is said before anything is made
		p, rng, err = Read(ctx, q, repo)
	}
	if err != nil {
		return err
	}
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadWrite)
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	defer st.Close()
	var s *store.Session
	if q.Resume {
		s, p, err = resumeSession(q, st)
	} else {
		s, err = session.NewSession(p, p.Axis, e.Version)
	}
	if err != nil {
		return err
	}
	lock, err := st.Lock(s.ID)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if n, err := proc.Sweep(s.ID); err != nil || n > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d processes of the interrupted search were still running and have been killed", n))
	}
	t := &session.Session{Repo: repo, Store: st, Record: s, Policy: p, Range: rng, Display: e.Display, Output: e.Output}
	if q.Resume {
		t.Display.Say(fmt.Sprintf("going on with session %s of %s: good %s, bad %s", s.ID, s.Created.Local().Format("2006-01-02 15:04"), cmp.Or(wording.Short(s.Good), "to be found"), wording.Short(s.Bad)))
	} else if q.Bad == "HEAD" {
		session.TellDirty(ctx, t, "the bad end")
	}
	return Of(t).run(ctx)
}

// Read reads what the user asks for: the policy, the ends and, unless the good one is still to
// be found, the range between them.
func Read(ctx context.Context, q *policy.Request, repo *source.Repo) (*policy.Policy, *source.Range, error) {
	p, err := policy.ForSearch(q, repo)
	if err != nil {
		return nil, nil, err
	}
	switch p.Axis {
	case policy.AxisFlags:
		return p, nil, policy.EndsOf(p, repo).FlagEnds(q)
	case policy.AxisHunks:
		return p, nil, policy.EndsOf(p, repo).HunkEnds(ctx, q)
	}
	if p.Bad, err = repo.Resolve(q.Bad); err != nil {
		return nil, nil, exit.Usagef("--bad: %w", err)
	}
	if err := chooseGood(p, q, repo); err != nil {
		return p, nil, err
	}
	if err := policy.EndsOf(p, repo).FollowRenames(ctx); err != nil {
		return p, nil, err
	}
	if p.Good == "" {
		policy.EndsOf(p, repo).AddHeaders(p.Bad)
		return p, nil, nil
	}
	policy.EndsOf(p, repo).AddHeaders(p.Good, p.Bad)
	rng, err := repo.Range(ctx, p.Good, p.Bad, p.RangeOptions())
	if err != nil {
		return p, nil, rangeError(err)
	}
	return p, rng, policy.EndsOf(p, repo).CheckNamed()
}

// searched refuses a repository that has no store.
func searched(repo *source.Repo) error {
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadOnly)
	if errors.Is(err, store.ErrNoStore) {
		return errNothingToResume()
	}
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	return st.Close()
}

func errNothingToResume() error {
	return exit.Usagef("nothing to resume: no search was begun in this repository\nhint: kbisect run --good REV")
}

// rangeError sorts what can be wrong with a range: the ends are the user's, the rest is the repository's.
func rangeError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return exit.Usage(err) // nil stays nil
}

func resumeSession(q *policy.Request, st *store.Store) (*store.Session, *policy.Policy, error) {
	s, err := resumable(st)
	if err != nil {
		return nil, nil, err
	}
	if q.Argv != nil || q.GoodSet || q.BadSet {
		return nil, nil, exit.Usagef("--resume goes on with session %s as it was begun\nhint: leave out --good, --bad and the command, or leave out --resume", s.ID)
	}
	var p policy.Policy
	if err := json.Unmarshal(s.Config, &p); err != nil {
		return nil, nil, exit.Usagef("session %s was begun by another version of kbisect: %w\nhint: begin anew without --resume", s.ID, err)
	}
	kept, err := session.KeptLaunches(st, s.ID)
	if err != nil {
		return nil, nil, exit.With(exit.Machine, err)
	}
	s.Elapsed = session.Elapsed(&s, kept)
	switch {
	case q.BudgetSet:
		p.Budget = s.Elapsed + q.Budget
	case outOfBudget(s):
		p.Budget += s.Elapsed
	}
	return &s, &p, nil
}

// resumable is the newest search that did not come to its end. When there is none, it is the newest
// one that did: it may have been killed before it could say so, and repeats its answer from what it
// remembers.
func resumable(st *store.Store) (store.Session, error) {
	all, err := st.Sessions(0)
	if err != nil {
		return store.Session{}, exit.With(exit.Machine, err)
	}
	all = slices.DeleteFunc(all, func(s store.Session) bool { return !session.IsSearch(s) })
	for _, s := range all {
		if slices.Contains([]string{store.Running, store.Interrupted, store.Infra}, s.Status) || outOfBudget(s) {
			return s, nil
		}
	}
	for _, s := range all {
		if slices.Contains([]string{store.Found, store.Inconclusive, store.NoDifference}, s.Status) {
			return s, nil
		}
	}
	return store.Session{}, errNothingToResume()
}

// outOfBudget reports whether a search stopped because its budget was used up. One for every culprit
// may have found some of them by then.
func outOfBudget(s store.Session) bool {
	var p policy.Policy
	if json.Unmarshal(s.Config, &p) != nil || p.Budget == 0 || s.Elapsed < p.Budget {
		return false
	}
	var doc struct{ Complete bool }
	return s.Status == store.Inconclusive || s.Status == store.Found && json.Unmarshal(s.Finding, &doc) == nil && !doc.Complete
}

// chooseGood finds the good end: as named, or the newest recorded good ancestor of the bad end.
func chooseGood(p *policy.Policy, q *policy.Request, repo *source.Repo) (err error) {
	if rev := q.Good; rev != "" {
		if p.Good, err = repo.Resolve(rev); err != nil {
			return exit.Usagef("--good: %w", err)
		}
		return nil
	}
	if p.FindGood {
		return nil
	}
	goods, err := recordedGoods(repo)
	if err != nil {
		return err
	}
	for _, g := range goods {
		if ok, err := repo.IsAncestor(g.Commit, p.Bad); err == nil && ok && g.Commit != p.Bad {
			p.Good = g.Commit
			return nil
		}
	}
	return exit.Usagef("no good end: no commit before %s is recorded as good\nhint: name one with --good REV, or give --find-good to look for one%s", wording.Short(p.Bad), baseline.GoodElsewhere(repo, p.Bad))
}

// recordedGoods lists the commits that earlier searches found good, newest first.
func recordedGoods(repo *source.Repo) ([]store.Good, error) {
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadOnly)
	if errors.Is(err, store.ErrNoStore) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	defer st.Close()
	goods, err := st.Goods()
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	return goods, nil
}
