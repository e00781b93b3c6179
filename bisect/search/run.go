package search

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// run is one question about one range: which commit, if any, brought what sets its ends apart.
type run struct {
	s     *Search
	ctx   context.Context
	led   *ledger
	span  *span
	out   account
	inner bool // the range is a part of that of another run

	q      question
	b      belief.Belief
	visit  visit // the launches of one commit that are not reported yet
	vain   int   // launches in a row that told nothing
	rounds int   // beginnings after a contradiction
	least  float64
	most   int // launches, by the ledger's count
	from   int // launches when it began
}

// answer says what an outcome means to a question.
type answer int

const (
	speaks  answer = iota // the belief takes it in
	unfit                 // its numbers cannot be compared: the machine's doing
	another               // it fails in another way
	silent                // the commit cannot be tested
)

// question is what a run asks of launches.
type question interface {
	// ends launches both ends until they are told apart, or cannot be, and begins the belief of the run.
	ends(r *run) (bisect.Ends, error)
	// belief is that of a run without a launch.
	belief(r *run) belief.Belief
	// shape makes a request one for this question.
	shape(q *bisect.Request, patient bool)
	// read turns an outcome into what the belief takes in.
	read(t Trial) (belief.Launch, answer)
	// verdict says what the belief makes of a commit that was launched.
	verdict(r *run, v visit) bisect.Verdict
	// settled ends the run where there is no commit to look for; decided says that the belief points to one. What
	// contradicts every single commit is looked at first, and launched again (acted).
	settled(r *run, decided bool) (done, acted bool, err error)
	// prove makes launches from clean builds for the claim that the culprit is among the members. It concludes the
	// run (done), finds the claim contradicted, which begins another round, or goes on searching.
	prove(r *run, members []int) (done bool, err error)
}

// visit is a run of launches of one commit, reported as one judgement.
type visit struct {
	at, n int
	last  bisect.Outcome
}

func newRun(ctx context.Context, s *Search, led *ledger, in *span) *run {
	r := &run{s: s, ctx: ctx, led: led, span: in, out: account{onStep: s.OnStep}, least: math.Log1p(0.005), most: maxLaunches, from: led.launches}
	if s.Effect > 0 {
		r.least = math.Log1p(s.Effect)
	}
	if s.Launches > 0 {
		r.most = s.Launches
	}
	return r
}

// search looks for one culprit. Launches that contradict it begin another round: what they contradict is void, and
// everything is built clean.
func (r *run) search() error {
	for {
		e, err := r.q.ends(r)
		if err != nil {
			return err
		}
		r.out.ends(r, e)
		if !e.Differ {
			return nil
		}
		reportLooked(r)
		round := r.rounds
		if err := r.narrow(); err != nil || r.rounds == round {
			return err
		}
		if r.rounds > maxRounds {
			r.out.warn("the confirmation contradicted the search again and again: the complaint does not come and go with the commits alone")
			r.out.inconclusive(r)
			return nil
		}
	}
}

// narrow launches what tells most until one set of commits stands out and is proven.
func (r *run) narrow() error {
	for round := r.rounds; r.rounds == round; {
		members, decided := r.b.Decided(r.s.delta(), r.span.launchable)
		if done, acted, err := r.q.settled(r, decided); err != nil || done {
			return err
		} else if acted {
			continue
		}
		if decided {
			if again, err := r.again(members); err != nil {
				return err
			} else if again {
				continue
			}
			r.report()
			if done, err := r.q.prove(r, members); err != nil || done {
				return err
			}
			continue
		}
		if done, err := r.step(); err != nil || done {
			return err
		}
	}
	return nil
}

// step makes the launch that promises most; done when there is none.
func (r *run) step() (done bool, err error) {
	if why := r.over(); why != "" {
		return r.giveUp(why), nil
	}
	tell(r, r.b, 0)
	a, ok := r.b.Next(r.prices())
	if !ok {
		if again, err := r.again(indices(r.b.Credible(credible(r.q)))); err != nil || again {
			return false, err
		}
		return r.giveUp("no launch promises to tell the suspects apart"), nil
	}
	if r.s.OnDecision != nil {
		r.s.OnDecision(a)
	}
	r.ahead(a.Index)
	return false, r.probe(a.Index)
}

// probe launches one commit of the range, or an end, and takes in what it shows.
func (r *run) probe(i int) error {
	why := r.span.purpose(i)
	if q, ok := r.q.(*failure); ok {
		if proof, err := q.asProof(r, i); err != nil || proof {
			return err
		}
	}
	for n := 0; ; n++ {
		failed, err := r.try(r.span.id(i), why)
		if repeat := why == bisect.Searching && n+1 < r.s.Repeat && !failed; err != nil || !repeat || r.over() != "" {
			return err
		}
	}
}

// try makes one launch and takes in what it shows; failed: it showed the complaint, or nothing.
func (r *run) try(id string, why bisect.Purpose) (failed bool, err error) {
	t, err := r.launch(id, why)
	if err != nil {
		return false, err
	}
	l, a := r.q.read(t)
	l.Index = r.span.place(id)
	if a == speaks && t.Class == bisect.OK && r.led.liedEarly(id, t.Outcome) {
		r.takeTime(fmt.Sprintf("given the whole limit, commit %s does not show the complaint: trials that were stopped early are made again", bisect.ShortID(id)))
		return false, nil
	}
	r.take(l, a, why)
	r.note(l.Index, t.Outcome, a, why)
	return a != speaks || l.Failed, nil
}

// launch makes one launch. An end whose numbers are wanted has ended well before: one failure among many launches is
// passed over; an end that keeps failing cannot serve as a reference.
func (r *run) launch(id string, why bisect.Purpose) (Trial, error) {
	const tries = 3
	for n := 1; ; n++ {
		t, err := r.led.launch(r.ctx, r.q, id, why)
		if _, timed := r.q.(*level); err != nil || t.Class == bisect.OK || !timed || why != bisect.EndGood && why != bisect.EndBad {
			return t, err
		}
		if n == tries {
			what := fmt.Sprintf("launching %s (%s) again", bisect.ShortID(id), why)
			return t, &bisect.InfraError{What: what, Err: fmt.Errorf("it ended well before and failed %d times in a row now: %s", tries, t.Describe())}
		}
	}
}

// take adds a launch to the belief, or sets its commit aside.
func (r *run) take(l belief.Launch, a answer, why bisect.Purpose) {
	const tries = 3
	i := l.Index
	switch {
	case a == speaks && (i < 0 || r.span.within[i]):
		r.vain = 0
		if i >= 0 {
			r.span.proven[i], r.span.usable[i] = true, true
		}
		r.b.Add(l)
	case a == speaks: // it is about another change
	case why == bisect.ConfirmCulprit, why == bisect.ConfirmParent, a == unfit, r.span.isEnd(i):
		r.vain++ // the proof, and the next launch, look at it
	case r.span.proven[i] && r.vain < tries:
		r.vain++
	default:
		r.vain, r.span.usable[i] = 0, false
	}
}

// note gathers the launches of a commit into one judgement, and reports the one before it.
func (r *run) note(i int, o bisect.Outcome, a answer, why bisect.Purpose) {
	if why != bisect.Searching {
		return
	}
	if a != speaks && !r.span.usable[i] {
		r.report()
		v := bisect.Verdict{Call: bisect.Untestable, Class: o.Class, Phase: o.Phase, Why: whyNot(r.q, o, a), Trials: 1, Probability: 1, Other: a == another, Warnings: o.Warnings}
		if o.Class == bisect.OK {
			v.Class = bisect.Skip
		}
		r.out.judged(bisect.Step{Commit: r.span.id(i), Role: bisect.RoleSearch, Verdict: v, Remaining: remaining(r)})
		return
	}
	if a != speaks {
		return
	}
	if r.visit.n > 0 && r.visit.at != i {
		r.report()
	}
	r.visit = visit{i, r.visit.n + 1, o}
	if _, ok := r.q.(*failure); ok { // each of its launches is a judgement
		r.report()
	}
}

// report tells what the belief makes of the commit launched last.
func (r *run) report() {
	v := r.visit
	if r.visit = (visit{}); v.n > 0 {
		r.out.judged(bisect.Step{Commit: r.span.id(v.at), Role: bisect.RoleSearch, Verdict: r.q.verdict(r, v), Remaining: remaining(r)})
	}
}

// Launches that failed in another way: one may be the machine's doing, as a time-out is on one that is loaded.
const (
	maxOther = 3 // of a commit set it aside for good
	maxVain  = 4 // made again in vain are enough: these commits do fail
)

// again launches a commit once more that failed in another way and would tell the suspects apart.
func (r *run) again(suspects []int) (acted bool, err error) {
	others := map[int]int{}
	vain := 0
	for i, c := range r.span.commits {
		if r.span.usable[i] || !r.span.within[i] {
			continue
		}
		for _, t := range r.led.of(c.ID, "") {
			switch _, a := r.q.read(t); a {
			case another:
				others[i]++
			case silent:
				others[i] = math.MinInt32
			}
		}
		vain += max(0, others[i]-1)
	}
	if len(suspects) < 2 || vain >= maxVain || r.inner || r.over() != "" {
		return false, nil
	}
	for i := range r.span.commits {
		if n := others[i]; n > 0 && n < maxOther && r.b.Parted(suspects, func(k int) bool { return k == i }) {
			_, err := r.try(r.span.id(i), bisect.Searching)
			return true, err
		}
	}
	return false, nil
}

// ahead says which commits will probably be wanted after the launch of commit i. A complaint about the build is judged
// by builds that nothing disturbs.
func (r *run) ahead(i int) {
	if r.s.Ahead == nil || r.span.isEnd(i) || r.led.launched[r.span.id(i)] || ofBuilds(r.q) {
		return
	}
	p := r.prices()
	p.Usable = func(k int) bool { return k != i && r.span.launchable(k) && !r.led.launched[r.span.id(k)] }
	var next []bisect.Candidate
	for _, k := range r.b.Nearest([]float64{0.25, 0.75}, p) {
		next = append(next, bisect.Candidate{Commit: r.span.id(k)})
	}
	r.s.Ahead(next)
}

// prices says what the next launches will cost.
func (r *run) prices() belief.Prices {
	p := r.led.prices(r.q)
	p.Built = func(i int) bool { return r.led.launched[r.span.id(i)] }
	p.Usable = r.span.launchable
	p.Chance = r.span.chances(r.led.launched)
	return p
}

// over says why nothing more may be launched, or "".
func (r *run) over() string {
	if r.s.Spent != nil && r.s.Spent() {
		r.out.f.Spent = true
		return "the budget is used up"
	}
	_, timed := r.q.(*level)
	switch {
	case timed && r.vain >= metric.MaxUnfit:
		return fmt.Sprintf("the times of %d launches in a row could not be compared: the device is held back or shared", r.vain)
	case !timed && r.vain >= maxOdd:
		return fmt.Sprintf("%d launches in a row told nothing about the complaint", r.vain)
	case r.led.launches >= r.most, !timed && r.led.launches-r.from >= maxWeighed:
		return fmt.Sprintf("%d launches did not settle it", r.led.launches-r.from)
	}
	return ""
}

// begin makes the belief of the run from the launches that still count.
func (r *run) begin(b belief.Belief) {
	r.b, r.visit = b, visit{}
	for _, t := range r.led.made {
		i, known := r.span.index[t.Candidate.Commit]
		if t.void || !known {
			continue
		}
		switch l, a := r.q.read(t); {
		case a == speaks && (i < 0 || r.span.within[i]):
			l.Index = i
			if i >= 0 {
				r.span.proven[i], r.span.usable[i] = true, true
			}
			r.b.Add(l)
		case a == speaks, a == unfit, i < 0, r.span.isEnd(i), r.span.proven[i]:
		case !t.Clean:
			r.span.usable[i] = false
		}
	}
}

// distrustKeys is for two commits of equal inputs that behave differently: something else than the declared inputs
// matters, and every commit becomes a candidate of its own.
func (r *run) distrustKeys(id string) {
	r.contradicted(fmt.Sprintf("commits of equal inputs behave differently, such as %s: the paths given leave out something that build or run read, so every commit was searched\nhint: add what is missing to paths (--path)", bisect.ShortID(id)))
	r.span.forgetKeys()
	r.out.f.Matter = len(r.span.commits)
}

// contradicted begins another round: the launches of the search are doubted as a whole, and everything is built clean
// from now on. The launches of the ends and from clean builds stay.
func (r *run) contradicted(why string) {
	r.rounds++
	r.out.warn(why)
	_, timed := r.q.(*level)
	r.led.void(func(t Trial) bool {
		return r.span.holds(t.Candidate.Commit) && t.Purpose == bisect.Searching || timed && !t.Clean
	})
	if r.s.Redo != nil {
		r.s.Redo()
	}
}

// takeTime forgets the trials that were in a hurry, those that passed too, lest the passes be left without
// the failures; from now on none is.
func (r *run) takeTime(why string) {
	r.out.warn(why)
	r.led.patient = true
	r.led.void(func(t Trial) bool { return t.Hurry != "" })
	for i := range r.span.within { // what they made of the range goes, too
		r.span.within[i] = true
	}
	r.span.clear()
	r.begin(r.q.belief(r))
}

// blindEnds is for ends of equal inputs that differ.
func (r *run) blindEnds() {
	if bad := r.span.bad(); r.span.blind && r.span.commits[bad].Key != "" {
		r.distrustKeys(r.span.id(bad))
	}
}

// ofBuilds reports a complaint that builds are judged by.
func ofBuilds(q question) bool {
	f, ok := q.(*failure)
	return ok && (f.certain() || f.complaint.Any)
}

// giveUp ends the run with what is known, unless trials that were stopped early are to blame:
// then they are made again with the whole limit, and it is not done.
func (r *run) giveUp(why string) (done bool) {
	if !r.out.f.Spent && !r.led.patient && r.led.alwaysEarly() {
		r.takeTime("the search came to no proof and rests on trials that were stopped before their limit: those are made again with the whole limit")
		return false
	}
	if !r.out.f.Spent {
		r.out.warn("no commit is proven: " + why)
	}
	r.out.inconclusive(r)
	return true
}

func indices(suspects []bisect.Suspect) (out []int) {
	for _, s := range suspects {
		out = append(out, s.Index)
	}
	slices.Sort(out)
	return out
}

// within prepares a run between two commits of the range; lo may be GoodEnd. Launches made so far serve it as evidence.
func within(r *run, lo, hi int) (sub *run, index []int) {
	commits, index := bisect.Between(r.span.commits, lo, hi)
	key := r.span.goodKey
	if lo != belief.GoodEnd {
		key = r.span.commits[lo].Key
	}
	in := newSpan(commits, bisect.Candidate{Commit: r.span.id(lo)}, key)
	for k, i := range index {
		in.weight[k] = r.span.weight[i]
	}
	in.clear()
	sub = newRun(r.ctx, r.s, r.led, in)
	sub.inner, sub.most, sub.out.onStep = true, r.most, r.out.relay
	return sub, index
}
