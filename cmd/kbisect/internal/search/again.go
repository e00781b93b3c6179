package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/past"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/export"
	"github.com/kbisect/kbisect/pipeline/store"
)

// lookBack is how many sessions are looked through for earlier answers and launches, the newest first.
const lookBack = 100

// environment finds out what launches find besides their candidates: the settings of git and the machine. It is in
// the policy once the function that it returns has been called. If it cannot be known, or earlier sessions do not
// count, Fresh is set and none of their answers or launches is used.
func environment(ctx context.Context, e session.Env, repo *source.Repo, p *policy.Policy) (noted func()) {
	// Linked work trees share all of the repository, which no digest covers.
	p.Fresh = p.Fresh || p.Plan.InWorktree || e.Sampler != nil
	// Scripts of the user's own lie outside of the candidates, and are read as they are now.
	words := policy.Words(p)
	if _, name := kernels.Script(p.Plan.Run); p.OwnScripts && name != "" {
		words = append(words, filepath.Join(repo.WorkDir(), p.Plan.Dir, name))
	}
	found, known := "", make(chan struct{})
	go func() { // there are thousands of files to look at
		defer close(known)
		if settings, err := export.Digest(ctx, repo); err == nil {
			found = settings[:32] + machine.Fingerprint(ctx, os.Environ(), words)[:32]
		}
	}()
	return func() {
		<-known
		p.Environment, p.Fresh = found, p.Fresh || found == ""
	}
}

// answered prints the stored answer of a finished search that asked for the same; ok is false if there is none.
// Errors are those of the store and of writing the report.
func answered(ctx context.Context, e session.Env, repo *source.Repo, p *policy.Policy, noted func()) (ok bool, err error) {
	if p.Fresh {
		return false, nil
	}
	st, err := session.StoreOf(repo)
	if st == nil || err != nil {
		return false, err
	}
	id, err := finished(st, p, noted)
	if err = errors.Join(err, st.Close()); err != nil || id == "" {
		return false, err
	}
	x, err := past.Open(ctx, repo, id)
	if err != nil {
		return false, err
	}
	d, ok := x.Document.(*report.Search)
	if !ok {
		return false, nil
	}
	ledger := x.Ledger(ctx)
	d.Stored = &report.Stored{Session: id, Made: x.Session.Updated, Version: x.Session.Version}
	d.Totals.Reused, d.Totals.Trials, d.Totals.Builds = d.Totals.Reused+d.Totals.Trials, 0, 0
	// Whether the work tree holds more than the bad end is a fact of now, not of the session that found the answer.
	if w := session.Uncommitted(ctx, repo, p, "the bad end"); w != "" && e.Request.Bad == "HEAD" && !slices.Contains(d.Warnings, w) {
		d.Warnings = append(d.Warnings, w)
		ledger.Setup.Dirty = true
	}
	report.Complete(d, ledger)
	if err := e.Output.Show(d, ledger); err != nil {
		return true, exit.With(exit.Machine, fmt.Errorf("writing the report: %w", err))
	}
	return true, nil
}

// finished is the id of the newest session that asked for the same (policy.Asks) and has a sure answer: complete,
// and with every culprit confirmed, unless --fast leaves that out. No other answer would certainly come out the
// same again. "" if there is none.
func finished(st *store.Store, p *policy.Policy, noted func()) (id string, err error) {
	all, err := st.Sessions(lookBack)
	if err != nil {
		return "", exit.With(exit.Machine, err)
	}
	all = slices.DeleteFunc(all, func(x store.Session) bool { return x.Status != store.Found || !session.IsSearch(x) })
	if len(all) == 0 { // nothing to compare with
		return "", nil
	}
	if noted(); p.Fresh {
		return "", nil
	}
	asks := policy.Asks(p)
	for _, x := range all {
		var past policy.Policy
		if json.Unmarshal(x.Config, &past) != nil || policy.Asks(&past) != asks {
			continue
		}
		var d report.Search
		sure := json.Unmarshal(x.Finding, &d) == nil && d.Complete && !slices.ContainsFunc(d.Culprits, func(c report.Culprit) bool { return !c.Confirmed && !p.Judge.Fast })
		if sure {
			return x.ID, nil
		}
	}
	return "", nil
}

// earlier are launches of other sessions that need not be made again. Each answers one request at most.
type earlier struct {
	session *session.Session
	made    map[bisect.Candidate][]earlierLaunch
	used    map[string]bool // by [bisect.Outcome.From], which is SESSION/NUMBER counted from 1
}

// earlierLaunch is an outcome with the request that it answered in its own session.
type earlierLaunch struct {
	id bisect.TrialID
	bisect.Outcome
}

// takeOver lets launches of other sessions answer requests if they were made by the same commands in the same
// environment on the same machine. Times of different sessions do not compare: such launches count for what was
// seen to pass or fail, and for numbers without noise. Limits that are multiples of this session's times rule all
// of it out.
func takeOver(s *session.Session) error {
	p := s.Policy
	for _, l := range p.Limits.Phases {
		if l.Times > 0 {
			return nil
		}
	}
	if p.Fresh || p.Environment == "" {
		return nil
	}
	all, err := s.Store.Sessions(lookBack)
	if err != nil {
		return err
	}
	e := &earlier{s, map[bisect.Candidate][]earlierLaunch{}, map[string]bool{}}
	// A resumed session has used some already: a launch answers one request in all of its attempts together.
	for _, known := range s.Ledger.Known {
		for _, o := range known {
			e.used[o.From] = true
		}
	}
	repeats := policy.Repeats(p)
	slices.Reverse(all) // oldest first
	for _, x := range all {
		var past policy.Policy
		if x.ID == s.Record.ID || !session.IsSearch(x) || slices.Contains([]string{store.Failed, store.Infra}, x.Status) ||
			json.Unmarshal(x.Config, &past) != nil || past.Machine != p.Machine || policy.Repeats(&past) != repeats {
			continue
		}
		launches, err := session.KeptLaunches(s.Store, x.ID)
		if err != nil {
			return err
		}
		for i, l := range launches {
			l.Outcome.From = cmp.Or(l.Outcome.From, fmt.Sprintf("%s/%d", x.ID, i+1))
			if !e.used[l.Outcome.From] && repeatable(l.Outcome) {
				e.made[l.Candidate] = append(e.made[l.Candidate], earlierLaunch{l.ID(), l.Outcome})
			}
		}
	}
	s.Ledger.Earlier = e.answer
	return nil
}

// repeatable reports whether a launch would end in the same way again, as far as one can tell: nothing but the
// candidate had a part in how it ended, that is, neither the machine nor a launch beside it, nor a limit that was cut
// short, nor a kill from outside.
func repeatable(o bisect.Outcome) bool {
	return !o.Beside && o.Class != bisect.Infra && o.Phase != "export" && !o.Early && !o.Supposed && o.Shared == "" && len(o.Repeated) == 0 &&
		o.Signal != "killed" && (o.Class != bisect.Timeout || len(o.Marks) == 0)
}

// answer finds a launch that answers a request, and with take uses it up: two requests are never answered by one
// launch, or repetitions would prove nothing. The launch that answered the very same request comes first. A proof,
// and any request for a clean build, is answered only by that one.
func (e *earlier) answer(r bisect.Request, take bool) (bisect.Outcome, bool) {
	metrics := e.session.Policy.Judge.Metrics
	exact := len(metrics) > 0 && !slices.ContainsFunc(metrics, func(m metric.Metric) bool { return !m.Exact })
	if r.Timing && !exact {
		return bisect.Outcome{}, false
	}
	proof := func(why bisect.Purpose) bool { return why == bisect.ConfirmCulprit || why == bisect.ConfirmParent }
	at := -1
	for i, l := range e.made[r.Candidate] {
		switch {
		case e.used[l.From]:
		case l.id == r.ID():
			at = i
		case at < 0 && !r.Clean && !proof(r.Purpose) && !proof(l.id.Purpose):
			at = i
		}
	}
	if at < 0 {
		return bisect.Outcome{}, false
	}
	o := e.made[r.Candidate][at].Outcome
	// It costs this session nothing, and its devices and notices are those of another one.
	o.At, o.Built, o.CacheHit, o.Build, o.Devices, o.Notices = e.session.Elapsed().Seconds(), false, false, 0, nil, nil
	if !exact {
		o.Unfit = "it was made in an earlier session"
	}
	if take {
		e.used[o.From] = true
		session.TakeOver(e.session, r, o)
	}
	return o, true
}
