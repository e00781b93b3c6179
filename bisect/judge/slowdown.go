package judge

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// The rules of the search (judge.md 2, defaults); the cells of TestBenchJudge say what they cost and are worth.
const (
	zEnd          = 4.0  // standard deviations by which the ends must differ
	minEndPairs   = 4    // pairs of launches of both ends before anything is said
	minAlikePairs = 8    // before the ends are called alike: modes of the machine may hide a step at first
	maxLaunches   = 1200 // of one job without a budget
	maxFailures   = 3    // confirmations that fail before all is begun anew
	maxRestarts   = 1
	credible      = 0.99
)

// SlowdownSearch searches a history for the commit that made a metric worse. One belief about culprit, step,
// drift and noise decides what to launch next, ends included; see [belief.Levels]. A complaint that shows in
// the class of a launch needs none of that: it is left to [bisect.Search] and [Plain].
//
// The state of a search is the list of its outcomes: a Sampler that remembers them leads it to where
// it was.
type SlowdownSearch struct {
	Search  bisect.Search // what to search; a Judge that is set there is a *Plain to go on with
	Sampler bisect.Sampler
	Options
	Faster   bool // look for what made the metric better
	All      bool // look for every culprit in the range
	Launches int  // at most; 0 stands for 1200

	// Weigh returns the prior weights of the commits, in place of those that they carry; nil where there
	// are none. It is asked when a search for a slow commit begins; may be nil.
	Weigh func() []float64

	// OnDecision is told of every launch that the belief has chosen; may be nil.
	OnDecision func(belief.Action)
	// OnProgress is told how far the search is, after every pair of launches of the ends and before
	// every launch of the search; may be nil.
	OnProgress func(Progress)
}

// slowdownRun is the state of one SlowdownSearch.
type slowdownRun struct {
	*SlowdownSearch
	ctx     context.Context
	commits []bisect.Commit
	plain   *Plain
	f       bisect.Finding
	index   map[string]int // of a commit id in the range; GoodEnd for the good end

	channels []metric.Channel
	offered  []metric.Channel // all of those at first
	first    []bisect.Outcome // of the good and of the bad end, while they are not taken in yet
	exact    exactNumbers
	picked   metric.Channel
	model    *belief.Levels
	visits   visit
	prior    []float64
	blind    bool        // the ends have equal inputs
	usable   []bool      // by index
	proven   []bool      // has ended well before
	broken   []int       // that cannot be tested, by index
	others   map[int]int // launches that failed in another way, by index
	bills    bills
	around   belief.DeviceLog
	outlay   outlay
	launches int
	unfit    int
	failed   int // confirmations that did not bear out the search
	restarts int
	ramp     bool  // no step explains the launches
	part     *part // what a search inside a part of the range knows beforehand; nil: of the whole
}

// Find runs the search. Machine trouble and interruption are part of the Finding; an error means
// that it could not begin.
func (b *SlowdownSearch) Find(ctx context.Context) (bisect.Finding, error) {
	h, err := bisect.NewHistory(b.Search.Commits)
	if err != nil {
		return bisect.Finding{}, err
	}
	r := newBankRun(ctx, b)
	r.f.Range, r.f.Matter = h.Len(), h.Remaining()
	slow, err := r.look()
	if err == nil && !slow {
		if r.f, err = r.certain(); err != nil {
			return r.f, err
		}
		if !r.All || r.f.Err != nil {
			return r.f, nil
		}
		err = r.classes(true)
	} else if err == nil {
		err = r.slow()
		r.tellOtherMetrics()
	}
	if err != nil {
		r.stopped(err)
	}
	if w := r.plain.dropped.warning(); w != "" {
		r.warn(w)
	}
	r.environment()
	return r.f, nil
}

func newBankRun(ctx context.Context, b *SlowdownSearch) *slowdownRun {
	plain, ok := b.Search.Judge.(*Plain)
	if !ok {
		plain = &Plain{Sampler: b.Sampler, Options: b.Options}
	}
	commits := b.Search.Commits
	r := &slowdownRun{SlowdownSearch: b, commits: commits, ctx: ctx, plain: plain, index: map[string]int{}, others: map[int]int{}, usable: make([]bool, len(commits)), proven: make([]bool, len(commits))}
	plain.Sampler = &once{next: b.Sampler, known: map[bisect.TrialID]bisect.Outcome{}}
	plain.good, plain.bad = b.Search.Good, bisect.Candidate{Commit: b.Search.Commits[len(commits)-1].ID}
	plain.timing = b.Options.Find == bisect.Slow
	for i, c := range commits {
		r.index[c.ID], r.usable[i] = i, !c.Neutral || i == len(commits)-1
	}
	r.index[b.Search.Good.Commit] = belief.GoodEnd
	r.prior = r.priors()
	return r
}

// once makes a trial that has the same name as an earlier one only once.
type once struct {
	next  bisect.Sampler
	known map[bisect.TrialID]bisect.Outcome
	made  []trial // in order
}

func (s *once) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	if o, ok := s.known[r.ID()]; ok {
		return o, nil
	}
	o, err := s.next.Sample(ctx, r)
	if err == nil {
		s.known[r.ID()] = o
		s.made = append(s.made, trial{r, o})
	}
	return o, err
}

// certain leaves the search to the plain rule, which finds the launches of the ends made.
func (r *slowdownRun) certain() (bisect.Finding, error) {
	s := r.Search
	r.plain.count, r.plain.timing = nil, false
	s.Judge, s.Others = r.plain, r.All
	return s.Find(r.ctx)
}

// slow is the search about a metric, with all that the request adds to it.
func (r *slowdownRun) slow() error {
	err := r.all()
	if err == nil && (r.ramp || r.All) {
		err = r.sweep()
	}
	if err == nil && r.All && r.Options.Find != bisect.Slow {
		err = r.classes(false)
	}
	return err
}

// all is the search for a slow commit, with one new beginning when the confirmation contradicts it.
func (r *slowdownRun) all() error {
	for {
		differ, err := r.stageEnds()
		if err != nil || !differ {
			return err
		}
		again, err := r.narrow()
		if err != nil || !again {
			return err
		}
		if r.restarts == maxRestarts {
			r.contradicted()
			return nil
		}
		r.restart()
	}
}

// restart forgets everything but what cannot be tested.
func (r *slowdownRun) restart() {
	r.restarts++
	r.failed, r.model, r.unfit = 0, nil, 0
	r.warn("fresh launches contradicted the search: searching again from clean builds")
	if r.Search.Redo != nil {
		r.Search.Redo()
	}
}

// narrow launches what tells most until one set of commits stands out and its confirmation agrees.
// again asks for a new beginning.
func (r *slowdownRun) narrow() (again bool, err error) {
	for {
		j, p := r.model.Top()
		if p >= 1-r.delta() && r.model.Resolved(j, r.canLaunch) {
			if i, ok := r.again(j); ok && !r.over() {
				if err := r.probe(i); err != nil {
					return false, err
				}
				continue
			}
			r.visited()
			switch done, again, err := r.confirm(j); {
			case err != nil || done || again:
				return again, err
			}
			continue
		}
		if r.ramps() {
			r.ramp = true
			return false, nil
		}
		if r.over() {
			r.inconclusive()
			return false, nil
		}
		if r.vanished() {
			r.unconfirmed()
			return false, nil
		}
		r.tell(r.model, 0)
		a, ok := r.model.Next(belief.Prices{Launch: r.price, Usable: r.canLaunch, Chance: r.chance})
		if !ok {
			r.inconclusive()
			return false, nil
		}
		if r.OnDecision != nil {
			r.OnDecision(a)
		}
		if err := r.probe(a.Index); err != nil {
			return false, err
		}
	}
}

// delta is the chance of a wrong answer that the search may leave, half of what is allowed in all;
// alpha, of the confirmation, is the other half.
func (r *slowdownRun) delta() float64 {
	if r.Error > 0 {
		return min(0.25, r.Error/2)
	}
	return 0.005
}

func (r *slowdownRun) alpha() float64 { return r.delta() }

// least is the smallest step worth finding, as a logarithm.
func (r *slowdownRun) least() float64 {
	if r.Effect > 0 {
		return math.Log1p(r.Effect)
	}
	return math.Log1p(0.005)
}

func (r *slowdownRun) canLaunch(i int) bool { return r.usable[i] }

// over reports that nothing more may be launched.
func (r *slowdownRun) over() bool {
	if r.Search.Spent != nil && r.Search.Spent() {
		r.f.Spent = true
		return true
	}
	if r.unfit >= metric.MaxUnfit {
		r.warn(fmt.Sprintf("the times of %d launches in a row could not be compared: the device is held back or shared", r.unfit))
		return true
	}
	return r.launches >= r.most()
}

// stopped ends the search by trouble that is not the candidates'.
func (r *slowdownRun) stopped(err error) {
	if len(r.f.Culprits) == 0 {
		r.inconclusive()
	}
	r.f.Err, r.f.Result = err, bisect.Broken
	if r.ctx.Err() != nil || errors.Is(err, context.Canceled) {
		r.f.Result = bisect.Interrupted
	}
}

func (r *slowdownRun) warn(text string) { r.f.Warnings = append(r.f.Warnings, text) }

func (r *slowdownRun) step(s bisect.Step) {
	s.Verdict.Metric = r.picked.Name()
	r.f.Steps = append(r.f.Steps, s)
	if r.Search.OnStep != nil {
		r.Search.OnStep(s)
	}
}

// environment appends to the finding what was wrong with the machine meanwhile. Exact numbers do not
// depend on it.
func (r *slowdownRun) environment() {
	if r.picked.Metric.Exact {
		return
	}
	out := r.around.Warnings()
	if r.model != nil {
		out = append(out, belief.Diagnose(r.model).Warnings()...)
	}
	r.f.Warnings = append(r.f.Warnings, out...)
}
