package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// bills keeps what launches and builds have cost so far.
type bills struct {
	runs, builds   float64 // seconds
	nRuns, nBuilds int
	launched       map[int]bool
}

func (b *bills) note(i int, o bisect.Outcome) {
	if b.launched == nil {
		b.launched = map[int]bool{}
	}
	b.launched[i] = true
	if o.Class == bisect.OK && o.Wall > 0 {
		b.runs, b.nRuns = b.runs+o.Wall, b.nRuns+1
	}
	if o.Built && o.Build > 0 {
		b.builds, b.nBuilds = b.builds+o.Build, b.nBuilds+1
	}
}

// price is what one more launch of a commit will cost: its run, and for a commit that was not built
// yet the share of a build that does not hide beside the device.
func (r *slowdownRun) price(i int) float64 {
	b := &r.bills
	cost := 1e-3 + b.runs/float64(max(1, b.nRuns))
	if !b.launched[i] {
		cost += belief.BuildShare * b.builds / float64(max(1, b.nBuilds))
	}
	return cost
}

// id is the commit with an index.
func (r *slowdownRun) id(i int) string {
	if i == belief.GoodEnd {
		return r.Search.Good.Commit
	}
	return r.commits[i].ID
}

// isEnd reports one of the two ends, which have ended well and must do so again.
func (r *slowdownRun) isEnd(i int) bool { return i == belief.GoodEnd || i == len(r.commits)-1 }

func (r *slowdownRun) purpose(i int) bisect.Purpose {
	switch {
	case i == belief.GoodEnd:
		return bisect.EndGood
	case i == len(r.commits)-1:
		return bisect.EndBad
	}
	return bisect.Searching
}

// launch makes one trial and counts it.
func (r *slowdownRun) launch(id string, i int, why bisect.Purpose) (bisect.Outcome, error) {
	c := bisect.Candidate{Commit: id}
	ask := r.plain.launch
	if why == bisect.EndGood || why == bisect.EndBad {
		ask = r.plain.steady
	}
	r.plain.buildOnly = r.picked.Metric.Exact
	o, err := ask(r.ctx, c, why)
	r.plain.buildOnly = false
	if err != nil {
		return o, err
	}
	r.count(i, o)
	return o, nil
}

// count keeps what a launch has cost and told of the machine.
func (r *slowdownRun) count(i int, o bisect.Outcome) {
	r.launches++
	r.bills.note(i, o)
	r.around.Note(o)
	r.outlay.note(o)
}

// level is the number that a launch gave for the metric that is searched for; ok is false where it
// gave none that may be compared.
func (r *slowdownRun) level(o bisect.Outcome) (l belief.Launch, ok bool) {
	l.At = o.At
	if o.Class == bisect.Timeout && r.picked.Metric.Name == "wall" && !r.picked.Metric.Higher && !r.Faster {
		l.Y, ok = r.picked.Metric.Level(bisect.Outcome{Wall: o.Wall})
		l.Censored = true
		return l, ok
	}
	if o.Class != bisect.OK {
		return l, false
	}
	l.Y, ok = r.picked.Level(o)
	if r.Faster {
		l.Y = -l.Y
	}
	return l, ok
}

// probe launches one commit of the range, or an end, and takes in what it shows.
func (r *slowdownRun) probe(i int) error {
	r.tellAhead(i)
	o, err := r.launch(r.id(i), i, r.purpose(i))
	if err != nil {
		return err
	}
	l, ok := r.level(o)
	switch {
	case ok:
		l.Index = i
		r.model.Add(l)
		r.unfit = 0
		if !r.isEnd(i) {
			r.proven[i], r.usable[i] = true, true
			r.broken = slices.DeleteFunc(r.broken, func(k int) bool { return k == i })
		}
		r.visits.note(r, i)
	case o.Class == bisect.OK && o.Unfit != "", r.isEnd(i):
		r.unfit++
	case i >= 0 && r.proven[i] && r.unfit < 3: // it ended well before: once more
		r.unfit++
	default:
		r.setAside(i, o)
	}
	return nil
}

// chance is the chance that a commit can be tested: broken commits come in runs, so that the
// neighbour of one is broken too four times out of five.
func (r *slowdownRun) chance(i int) float64 {
	const spread = 0.8
	if len(r.broken) == 0 {
		return 1
	}
	far := math.Inf(1)
	for _, k := range r.broken {
		far = min(far, math.Abs(float64(i-k)))
	}
	return 1 - math.Pow(spread, far)
}

// setAside marks a commit that cannot be tested.
func (r *slowdownRun) setAside(i int, o bisect.Outcome) {
	r.unfit = 0
	r.usable[i] = false
	if !slices.Contains(r.broken, i) {
		r.broken = append(r.broken, i)
	}
	v := bisect.Verdict{Call: bisect.Untestable, Class: o.Class, Phase: o.Phase, Why: o.Describe(), Trials: 1, Probability: 1, Warnings: o.Warnings}
	switch {
	case o.Class == bisect.OK:
		v.Class, v.Why = bisect.Skip, "it sent no value of "+cmp.Or(r.picked.Lacks(o), r.picked.Name())
		if r.picked.Metric.Exact {
			v.Why = "its build does not report " + r.picked.Name()
		}
	case !untestable(o):
		v.Other, v.Why = true, "fails in another way: "+v.Why
		r.others[i]++
	}
	r.step(bisect.Step{Commit: r.id(i), Role: bisect.RoleSearch, Verdict: v, Remaining: r.remaining()})
}

// again is a commit that would part set j and was set aside for failing in another way, which may have been
// the machine's doing.
func (r *slowdownRun) again(j int) (i int, ok bool) {
	vain := 0
	for _, n := range r.others {
		vain += n - 1
	}
	for i := range r.commits {
		if n := r.others[i]; n > 0 && n < maxOther && vain < maxVain && !r.usable[i] && !r.model.Resolved(j, func(k int) bool { return k == i }) {
			return i, true
		}
	}
	return 0, false
}

// tellAhead says which commits will probably be wanted after the next launch.
func (r *slowdownRun) tellAhead(i int) {
	if r.Search.Ahead == nil || r.isEnd(i) || r.bills.launched[i] {
		return
	}
	var next []bisect.Candidate
	usable := func(k int) bool { return k != i && r.usable[k] && !r.bills.launched[k] }
	for _, k := range r.model.Nearest([]float64{0.25, 0.75}, belief.Prices{Usable: usable, Chance: r.chance}) {
		next = append(next, bisect.Candidate{Commit: r.id(k)})
	}
	r.Search.Ahead(next)
}

// visit is a run of launches of one commit between the ends, reported as one judgement.
type visit struct {
	at, n int
}

// note is told of every launch that was taken in.
func (v *visit) note(r *slowdownRun, i int) {
	if r.isEnd(i) {
		return
	}
	if v.n > 0 && v.at != i {
		r.visited()
	}
	v.at = i
	v.n++
}

// visited reports what the belief makes of the commit launched last.
func (r *slowdownRun) visited() {
	if r.visits.n == 0 {
		return
	}
	i, n := r.visits.at, r.visits.n
	r.visits = visit{}
	p := r.model.Bad(i)
	v := bisect.Verdict{Class: bisect.OK, Trials: n, Probability: max(p, 1-p)}
	switch {
	case p > 0.9:
		v.Call, v.Class = bisect.Bad, r.class()
	case p < 0.1:
		v.Call = bisect.Good
	default:
		v.Call, v.Probability = bisect.Untestable, 1
	}
	times := "once"
	if n != 1 {
		times = fmt.Sprintf("%d times", n)
	}
	v.Why = fmt.Sprintf("%s: %s with probability %.3g, launched %s for it", r.picked.Name(), r.class(), p, times)
	if r.picked.Metric.Exact {
		v.Why = fmt.Sprintf("%s: %s", r.picked.Name(), r.exactValue(r.id(i)))
	}
	r.step(bisect.Step{Commit: r.id(i), Role: bisect.RoleSearch, Verdict: v, Remaining: r.remaining()})
}

func (r *slowdownRun) remaining() int { return len(r.model.Credible(credible)) }
