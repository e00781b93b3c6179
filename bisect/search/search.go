// Package search finds the commit of a range that introduced a complaint, whatever the complaint is: launches that
// fail, always or sometimes, a metric that got worse, a number of the build that grew.
//
// A [Search] launches both ends and reads off what sets them apart (ends.go). That makes a question: how an outcome is
// read and what proves an answer. There are two, failure and level. A run asks one question about one range: it lets
// a [belief.Belief] choose the next commit, launches it, and adds what it showed, until one commit stands out; then
// it proves the claim by launches of the culprit and its parents from clean builds (run.go). With All, a sweep
// looks for the culprits that one run does not explain, and begins a run for each part of the range that holds one.
//
// [SetOracle] answers the same questions about sets of changes, for package sets.
//
// The state of a search is the list of its outcomes: a Sampler that remembers them leads it to where it was. The package
// makes launches through a [bisect.Sampler] and does not know how; what launches mean is package belief's affair.
package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Options say what to look for and how surely.
type Options struct {
	Find    bisect.Class    // the class to look for; empty: read it off the bad end
	Any     bool            // every failure counts as the complaint
	Phase   string          // of the time-out to look for; empty: the one of the bad end
	Metrics []metric.Metric // what slow may be about, best first
	Effect  float64         // smallest change worth finding, as a fraction: 0.03; 0 stands for 0.005
	Error   float64         // chance that the final answer is wrong; 0 stands for 0.01
	Repeat  int             // launches of each candidate for a certain complaint; 0 stands for 1
	Fast    bool            // leave out what only proves the answer: clean builds, and the culprit at its full limit
	Builds  bool            // the complaint is of the build alone: nothing is run
	Untimed string          // what to do about launches that take no times by what the user chose; "": they may
}

// Search finds the first bad commit of a range.
type Search struct {
	Commits []bisect.Commit  // parents first, the bad end last
	Good    bisect.Candidate // the good end, just before the range
	GoodKey string           // fingerprint of the good end's inputs
	Sampler bisect.Sampler
	Options
	Faster   bool    // look for what made the metric better
	All      bool    // look for every culprit in the range
	Launches int     // at most; 0 stands for 1200
	Looked   []Trial // made before the ends were known, of commits that may have become ends

	OnStep func(bisect.Step)        // progress; may be nil
	Spent  func() bool              // reports that the budget is used up; may be nil
	Ahead  func([]bisect.Candidate) // is told what will probably be asked for after the next candidate; may be nil
	Redo   func()                   // from now on every build must be a clean one; may be nil
	// Weigh returns the prior weights of the commits, in place of those that they carry; nil where there
	// are none. It is asked when a search for a slow commit begins; may be nil.
	Weigh func() []float64
	// OnDecision is told of every launch that the belief has chosen; may be nil.
	OnDecision func(belief.Action)
	// OnProgress is told how far the search is, before every launch that a belief chooses; may be nil.
	OnProgress func(Progress)
}

// The rules of a search (judge.md 2, defaults); bench-judge says what they cost and are worth.
const (
	maxLaunches = 1200 // without a budget
	maxRounds   = 2    // beginnings after launches that contradict the search
	// unproven is the most that a fast search states: at the rates for which it is worst, that of a half, so
	// many of its answers are right. See TestFastIsAsSureAsItSays.
	unproven = 0.98
)

// Run runs the search. Machine trouble and interruption are part of the Finding, with what is
// known until then; an error means that the search could not begin.
func (s *Search) Run(ctx context.Context) (bisect.Finding, error) {
	if err := inOrder(s.Commits); err != nil {
		return bisect.Finding{}, err
	}
	own := *s
	s = &own
	r := newRun(ctx, s, newLedger(s), newSpan(s.Commits, s.Good, s.GoodKey))
	f := &r.out.f
	f.Range = len(s.Commits)
	for _, c := range s.Commits {
		if !c.Neutral {
			f.Matter++
		}
	}
	j := &job{r}
	if err := j.whole(); err != nil {
		if len(f.Culprits) == 0 {
			r.out.inconclusive(r)
		}
		f.Err, f.Result = err, bisect.Broken
		if ctx.Err() != nil || errors.Is(err, context.Canceled) {
			f.Result = bisect.Interrupted
		}
	}
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
type job struct{ r *run }

// whole searches the range of a Search, with all that it asks for besides one culprit.
func (j *job) whole() error {
	if err := j.ask(); err != nil || j.r.q == nil {
		return err
	}
	if err := j.r.search(); err != nil {
		return err
	}
	l, timed := j.r.q.(*level)
	if timed && j.failsMore() {
		j.r.q, timed = &failure{}, false
		if err := j.r.search(); err != nil {
			return err
		}
	}
	if timed && (l.ramp || j.r.s.All) {
		if err := j.sweepLevels(l); err != nil {
			return err
		}
	}
	if j.r.s.All && !(timed && j.r.s.Find == bisect.Slow) {
		if err := j.sweepFailures(!timed); err != nil {
			return err
		}
	}
	if timed {
		(&otherMetrics{l, j.r}).warn()
	}
	return nil
}

// remarks appends what was wrong besides: commits that fail in another way, ends that do, and the machine. Exact
// numbers do not depend on the machine.
func (j *job) remarks() {
	if !j.r.s.All {
		j.r.out.warnOthers()
	}
	l, timed := j.r.q.(*level)
	if !timed || l.channel.Metric.Exact {
		return
	}
	if w := j.r.led.warnDropped(); w != "" {
		j.r.out.warn(w)
	}
	out := j.r.led.around.Warnings()
	if m, ok := j.r.b.(*belief.Levels); ok {
		out = append(out, belief.Diagnose(m).Warnings()...)
	}
	j.r.out.f.Warnings = append(j.r.out.f.Warnings, out...)
}

// ask launches each end once and chooses the question: what the bad end shows and the good end does not. Where there
// is nothing to ask, the finding says why.
func (j *job) ask() error {
	good, err := j.look(j.r.span.good.Commit, bisect.EndGood)
	if err != nil {
		return err
	}
	j.r.led.lookAgain(good.Outcome)
	bad, err := j.look(j.r.span.id(j.r.span.bad()), bisect.EndBad)
	if err != nil {
		return err
	}
	j.r.q = &failure{}
	o, find := j.r.s.Options, j.r.s.Find
	e := readEnds(o, good.Outcome, bad.Outcome)
	if e.Differ || e.Untestable || good.Class != bisect.OK || bad.Class != bisect.OK || o.Any || find != "" && find != bisect.Slow {
		return nil
	}
	j.r.s.Metrics, _ = metric.Directed(o.Metrics, good.Outcome, bad.Outcome) // what has no direction is warned of where launches are read
	o = j.r.s.Options
	q := &level{faster: j.r.s.Faster, channels: metric.Channels(o.Metrics, good.Outcome, bad.Outcome)}
	q.offered = q.channels
	q.exact.take(o.Metrics, good.Outcome, bad.Outcome, q.sign())
	if len(q.channels)+len(q.exact.channels) > 0 {
		j.r.q = q
		for _, w := range metric.OneSided(inChannels(q.channels, o.Metrics), [2]bisect.Outcome{good.Outcome, bad.Outcome}, [2]string{"the good end", "the bad end"}) {
			j.r.out.warn(w)
		}
		if j.r.s.Weigh != nil {
			j.r.span.weigh(j.r.s.Weigh())
		}
	}
	return nil
}

// look launches an end as often as is asked for, and returns the first outcome that is not ok, or the last.
func (j *job) look(id string, why bisect.Purpose) (t Trial, err error) {
	for n := 0; n < max(1, j.r.s.Repeat); n++ {
		if t, err = j.r.led.launch(j.r.ctx, j.r.q, id, why); err != nil || t.Class != bisect.OK {
			break
		}
	}
	return t, err
}

// failsMore reports that the bad end failed in some of the launches that were made for a metric, and clearly more
// often than the good end: then that is what sets them apart.
func (j *job) failsMore() bool {
	if j.r.s.Find != "" || j.r.out.f.Result != bisect.NoDifference {
		return false
	}
	any := &failure{complaint: bisect.Complaint{Any: true}}
	bad, good := j.r.led.tally(any, j.r.span.id(j.r.span.bad()), bisect.EndBad), j.r.led.tally(any, j.r.span.good.Commit, bisect.EndGood)
	return bad.Fails > 0 && 1-belief.EndsAlike(rareAlike, bad, good) >= endTrust
}
