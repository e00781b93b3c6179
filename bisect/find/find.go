// Package find finds the commits of a range that introduced a complaint: launches that fail, always or sometimes, a metric
// that got worse, a number of the build that grew.
//
// [Culprits] launches both ends once and chooses the question that sets them apart; a run (package search) answers it.
// With All, a sweep looks for the culprits that one run does not explain, and begins a run for each part of the range that
// holds one. [SetOracle] answers the same questions about sets of changes, for package sets.
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

// Culprits runs the search. Machine trouble and interruption are part of the Finding, with what is
// known until then; an error means that the search could not begin.
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
	r.Count() // a part of the range may have contradicted what was learned
	j.remarks()
	return *f, nil
}

// inOrder reports commits that do not stand after their parents.
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

// job is a Search under way: the run over its whole range, and what goes on from there.
type job struct{ r *search.Run }

// whole searches the range of a Search, with all that it asks for besides one culprit.
func (j *job) whole() error {
	if err := j.ask(); err != nil || j.r.Question == nil {
		return err
	}
	if _, timed := j.r.Question.(*question.Level); timed && j.r.Search.All {
		j.r.Later = passes * (manyProbes + 2)
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

// remarks appends the other things that went wrong: commits or ends with another complaint, and trouble with the machine,
// which exact numbers do not depend on.
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

// ask launches each end once and chooses the question: what the bad end shows and the good end does not. Where there
// is nothing to ask, the finding says why.
func (j *job) ask() error {
	j.r.Foresee(belief.GoodEnd)
	good, err := j.look(j.r.Span.Good.Commit, bisect.EndGood)
	if err != nil {
		return err
	}
	j.r.Ledger.LookAgain(good.Outcome)
	bad, err := j.look(j.r.Span.Id(j.r.Span.Bad()), bisect.EndBad)
	if err != nil {
		return err
	}
	j.r.Question = &question.Failure{}
	o, find := j.r.Search.Options, j.r.Search.Find
	e := question.ReadEnds(o, good.Outcome, bad.Outcome)
	if e.Differ || e.Untestable || good.Class != bisect.OK || bad.Class != bisect.OK || o.Any || find != "" && find != bisect.Slow {
		return nil
	}
	j.r.Search.Metrics, _ = metric.Directed(o.Metrics, good.Outcome, bad.Outcome) // what has no direction is warned of where launches are read
	o = j.r.Search.Options
	q := &question.Level{Faster: j.r.Search.Faster, InPairs: j.r.Search.AtOnce > 1 && len(j.r.Search.Devices) == 0, Channels: metric.Channels(o.Metrics, good.Outcome, bad.Outcome)}
	q.Offered = q.Channels
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

// look launches an end on every device, on the first as often as is asked for, and returns the first outcome that is not ok, or the last.
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

// failsMore reports that the bad end failed in some of the launches that were made for a metric, and clearly more
// often than the good end: then that is what sets them apart.
func (j *job) failsMore() bool {
	if j.r.Search.Find != "" || j.r.Account.Finding.Result != bisect.NoDifference {
		return false
	}
	return question.FailsMore(j.r)
}
