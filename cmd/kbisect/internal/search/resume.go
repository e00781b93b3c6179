package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// errNothingToResume is the usage error if there was never a search.
var errNothingToResume = exit.Usagef("nothing to resume: this repository has no search\nhint: kbisect run --good REV")

// resume continues the newest search that can be continued. The store is first opened for reading, so that a
// repository without one is left without one. The user is not asked anything: resuming is the answer.
func resume(ctx context.Context, e session.Env) error {
	repo, err := source.Open(e.Request.Dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	st, err := session.StoreOf(repo)
	switch {
	case err != nil:
		return err
	case st == nil:
		return errNothingToResume
	}
	if err = st.Close(); err == nil {
		st, err = store.Open(store.Dir(repo.CommonDir()), store.ReadWrite)
	}
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	var record *store.Session
	var p *policy.Policy
	if e.Request.Wait != 0 { // the run that goes on is the newest, and is over then
		var lock *store.RunLock
		if lock, err = session.Lock(ctx, e, st, ""); err == nil {
			err = lock.Unlock()
		}
	}
	if err == nil {
		record, p, err = kept(e.Request, st)
	}
	if err != nil {
		st.Close()
		return err
	}
	t, err := session.Resume(ctx, e, repo, st, record, p)
	if err != nil {
		return err
	}
	defer t.Close()
	t.Display.Say(fmt.Sprintf("resuming session %s of %s: good %s, bad %s", record.ID, record.Created.Local().Format("2006-01-02 15:04"), cmp.Or(bisect.ShortID(record.Good), "not found yet"), bisect.ShortID(record.Bad)))
	if err := t.Start(ctx); err != nil {
		return err
	}
	return Of(t, t.Policy.Judge).run(ctx)
}

// kept is the search to resume, with its policy. A new --budget counts from now on, and without one a search whose
// budget was used up gets the same budget again. A new command or new ends are a usage error: the stored launches
// would not belong to them.
func kept(q *policy.Request, st *store.Store) (*store.Session, *policy.Policy, error) {
	s, err := resumable(st)
	if err != nil {
		return nil, nil, err
	}
	// Even equal ones: revisions such as HEAD may have moved since.
	if q.Argv != nil || q.GoodSet || q.BadSet {
		return nil, nil, exit.Usagef("--resume continues session %s with its own ends and command\nhint: leave out --good, --bad and the command, or leave out --resume", s.ID)
	}
	var p policy.Policy
	if err := json.Unmarshal(s.Config, &p); err != nil {
		return nil, nil, exit.Usagef("session %s was made by another version of kbisect: %w\nhint: start again without --resume", s.ID, err)
	}
	launches, err := session.KeptLaunches(st, s.ID)
	if err != nil {
		return nil, nil, exit.With(exit.Machine, err)
	}
	s.Elapsed = session.Elapsed(&s, launches)
	switch {
	case q.BudgetSet:
		p.Budget = s.Elapsed + q.Budget
	case outOfBudget(s):
		p.Budget += s.Elapsed
	}
	return &s, &p, nil
}

// resumable is the newest unfinished search. If there is none, it is the newest finished one, which repeats its
// answer from the stored launches: it may have been killed before it could print it.
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
	return store.Session{}, errNothingToResume
}

// outOfBudget reports whether a search stopped because its budget was used up. A search for every culprit may have
// found some of them by then, so that its status is found, but its document is not complete.
func outOfBudget(s store.Session) bool {
	var p policy.Policy
	if json.Unmarshal(s.Config, &p) != nil || p.Budget == 0 || s.Elapsed < p.Budget {
		return false
	}
	var doc struct{ Complete bool }
	return s.Status == store.Inconclusive || s.Status == store.Found && json.Unmarshal(s.Finding, &doc) == nil && !doc.Complete
}

// chooseGood finds the good end: the one named, or the newest recorded good ancestor of the bad end. It leaves
// p.Good empty for --find-good, and is a usage error that wraps errNoGood if there is none.
func chooseGood(ctx context.Context, p *policy.Policy, q *policy.Request, repo *source.Repo) (err error) {
	if rev := q.Good; rev != "" {
		if p.Good, err = repo.Resolve(ctx, rev); err != nil {
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
	// A record may be of another branch, or of a commit that git has since removed; neither is an error.
	for _, g := range goods {
		if ok, err := repo.IsAncestor(ctx, g.Commit, p.Bad); err == nil && ok && g.Commit != p.Bad {
			p.Good = g.Commit
			return nil
		}
	}
	return exit.Usagef("%w: no ancestor of %s is recorded as good\nhint: name one with --good REV, or find one with --find-good%s", errNoGood, bisect.ShortID(p.Bad), baseline.GoodElsewhere(ctx, repo, p.Bad))
}

// errNoGood says that no good end is named or recorded.
var errNoGood = errors.New("no good end")

// recordedGoods lists the commits that earlier searches and baselines found good, newest first; nil without a store.
func recordedGoods(repo *source.Repo) ([]store.Good, error) {
	st, err := session.StoreOf(repo)
	if st == nil || err != nil {
		return nil, err
	}
	defer st.Close()
	goods, err := st.Goods()
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	return goods, nil
}
