// Package find finds the commits of a range that introduced a complaint: launches that fail, always or sometimes, a
// metric that got worse, a number of the build that grew.
//
// [Culprits] launches both ends once and chooses the question that sets them apart; a run (package search) answers it.
// With All, a sweep looks for the culprits that one run does not explain, and begins a run for each part of the range
// that holds one. [SetOracle] answers the same questions about sets of changes, for package sets.
//
// The package decides which question to ask of which part of a range. It does not know how one is answered (packages
// search and question), what launches say (package belief), or how a finding is shown (package report).
package find

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/search/question"
)

// Culprits runs a search and returns its answer. Machine trouble and interruption are part of the Finding (Err),
// beside what was known until then; an error means that the search could not begin. s is not changed. The same
// launches lead to the same finding, so a Sampler that remembers them resumes a search.
func Culprits(ctx context.Context, s *search.Search) (bisect.Finding, error) {
	if err := inOrder(s.Commits); err != nil {
		return bisect.Finding{}, err
	}
	own := *s
	s = &own
	r := search.NewRun(ctx, s, search.NewLedger(s), search.NewSpan(s.Commits, s.Good, s.GoodKey))
	f := &r.Account.Finding
	r.Count()
	j := &job{r}
	if err := j.whole(); err != nil {
		if len(f.Culprits) == 0 {
			r.Account.Inconclusive(r)
		}
		switch {
		case search.Cut(r, err):
		case ctx.Err() != nil || errors.Is(err, context.Canceled):
			f.Err, f.Result = err, bisect.Interrupted
		default:
			f.Err, f.Result = err, bisect.Broken
		}
	}
	r.Count() // again: a part of the range may have contradicted what was learned
	j.remarks()
	return *f, nil
}

// inOrder returns an error unless every commit stands after its parents: all that walks a range relies on it.
func inOrder(commits []bisect.Commit) error {
	if len(commits) == 0 {
		return errors.New("the range holds no commits")
	}
	for i, c := range commits {
		for _, p := range c.InRange {
			if p < 0 || p >= i {
				return fmt.Errorf("commit %d (%s) does not stand after its parent %d", i, c.ID, p)
			}
		}
	}
	return nil
}

// job is a Search under way: the run over its whole range, and what goes on from there. Whatever it finds ends up in
// the account of that run.
type job struct{ r *search.Run }

// whole searches the range of a Search, with all that is asked for beside one culprit. The order matters: the sweeps
// start from the culprit that the search has found, and the sweep of failures comes last, as it goes by the launches
// of the other one too.
func (j *job) whole() error {
	if err := j.ask(); err != nil || j.r.Question == nil {
		return err
	}
	if _, timed := j.r.Question.(*question.Level); timed && j.r.Search.All {
		j.r.Later = passes * (manyProbes + 2) // the sweep to come is part of the forecast
	}
	if err := j.r.Locate(); err != nil {
		return err
	}
	l, timed := j.r.Question.(*question.Level)
	if timed && j.failsMore() {
		j.r.Question, timed = &question.Failure{}, false
		if err := j.r.Locate(); err != nil {
			return err
		}
	}
	if timed && (l.Ramp || j.r.Search.All) {
		if err := j.sweepLevels(l); err != nil {
			return err
		}
	}
	if j.r.Search.All && !(timed && j.r.Search.Find == bisect.Slow) {
		if err := j.sweepFailures(!timed); err != nil {
			return err
		}
	}
	return nil
}

// remarks adds warnings about what else was seen: commits or ends with another complaint, and trouble with the
// machine. Exact numbers do not depend on the machine, so for them it is not mentioned.
func (j *job) remarks() {
	if !j.r.Search.All {
		j.r.Account.WarnOthers()
	}
	l, timed := j.r.Question.(*question.Level)
	if !timed || l.Channel.Metric.Exact {
		return
	}
	if w := j.r.Ledger.WarnDropped(); w != "" {
		j.r.Account.Warn(w)
	}
	out := j.r.Ledger.Around.Warnings()
	if m, ok := j.r.Belief.(*levels.Belief); ok {
		out = append(out, levels.Diagnose(m).Warnings()...)
	}
	j.r.Account.Finding.Warnings = append(j.r.Account.Finding.Warnings, out...)
}

// ask launches each end once and chooses the question from what they show: a failure where they end differently or
// where a class was asked for, else the metrics that both report. The bad end is looked at second, because only the
// good one tells what a time-out is (LookAgain). Where the ends differ in nothing, it is for the question about
// failures to say so.
func (j *job) ask() error {
	j.r.Foresee(belief.GoodEnd)
	search.Soon(j.r, search.Wanted{Commit: j.r.Span.Id(j.r.Span.Bad()), Purpose: bisect.EndBad})
	listen := j.r.Search.Listen
	if listen == nil {
		listen = func(func([]string, float64)) {}
	}
	listen(func(opened []string, after float64) { search.ForeseeOpened(j.r, opened, after) })
	good, err := j.look(j.r.Span.Good.Commit, bisect.EndGood)
	listen(nil)
	if err != nil {
		return err
	}
	j.r.Ledger.LookAgain(good.Outcome)
	search.ForeseeLearned(j.r)
	bad, err := j.look(j.r.Span.Id(j.r.Span.Bad()), bisect.EndBad)
	if err != nil {
		return err
	}
	search.ForeseeLearned(j.r)
	j.r.Question = &question.Failure{}
	o, find := j.r.Search.Options, j.r.Search.Find
	e := question.ReadEnds(o, good.Outcome, bad.Outcome)
	if e.Differ || e.Untestable || good.Class != bisect.OK || bad.Class != bisect.OK || o.Any || find != "" && find != bisect.Slow {
		return nil
	}
	j.r.Search.Metrics, _ = metric.Directed(o.Metrics, good.Outcome, bad.Outcome) // what has no direction is warned of where launches are read
	o = j.r.Search.Options
	q := &question.Level{Faster: j.r.Search.Faster, InPairs: j.r.Search.AtOnce > 1 && len(j.r.Search.Devices) == 0, Channels: metric.Channels(o.Metrics, good.Outcome, bad.Outcome)}
	q.Exact.Take(o.Metrics, good.Outcome, bad.Outcome, q.Sign())
	if len(q.Channels)+len(q.Exact.Channels) > 0 {
		j.r.Question = q
		launched := slices.DeleteFunc(slices.Clone(o.Metrics), func(m metric.Metric) bool { return m.Exact })
		for _, w := range metric.OneSided(launched, [2]bisect.Outcome{good.Outcome, bad.Outcome}, [2]string{"the good end", "the bad end"}) {
			j.r.Account.Warn(w)
		}
		if j.r.Search.Weigh != nil {
			j.r.Span.Weigh(j.r.Search.Weigh())
		}
	}
	return nil
}

// look launches an end on every device, and on the first as often as Options.Repeat says; it returns the first trial
// that is not ok, or the last one.
func (j *job) look(id string, why bisect.Purpose) (t search.Trial, err error) {
	all, err := search.LookAt(j.r, id, why)
	if err == nil {
		err = search.Compare(j.r, all)
	}
	if err != nil {
		return t, err
	}
	t = all[0]
	for n := 1; n < j.r.Search.Repeat && t.Class == bisect.OK; n++ {
		if t, err = j.r.Ledger.Launch(j.r.Ctx, j.r.Question, id, why); err != nil || t.Class != bisect.OK {
			break
		}
	}
	return t, err
}

// failsMore reports whether, in a search for a metric whose ends do not differ in it, the bad end failed clearly more
// often than the good one: then the failures are what sets the ends apart. It never overrides a complaint that the
// user has named, as that is what was asked about.
func (j *job) failsMore() bool {
	if j.r.Search.Find != "" || j.r.Account.Finding.Result != bisect.NoDifference {
		return false
	}
	return question.FailsMore(j.r)
}
