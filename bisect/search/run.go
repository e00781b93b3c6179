package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// Run is one question about one range: which commit, if any, brought what sets its ends apart. The first group of
// fields is given, the second is the state of the loop; both are open to the question, which package question
// implements.
type Run struct {
	Search  *Search
	Ctx     context.Context
	Ledger  *Ledger
	Span    *Span
	Account Account
	Inner   bool // the range is a part of that of another run

	Question Question
	Belief   belief.Belief
	Visit    Visit   // the launches of one commit that are not reported yet
	Vain     int     // launches in a row that told nothing
	Rounds   int     // beginnings after a contradiction
	Least    float64 // smallest step worth finding, a logarithm
	Most     int     // launches, by the ledger's count
	From     int     // launches when it began
	Later    float64 // launches that are expected after it

	graph    *bisect.Graph
	foreseen map[int]float64 // how much of the commits that are built before they are asked for is done, or, of those that compile before, the chance that they are asked for
	likely   []int           // the commits whose proofs likelyProofs has announced, likeliest first
}

// Answer says what an outcome means to a question.
type Answer int

// The answers. Only the first goes into the belief.
const (
	Speaks  Answer = iota // the belief takes it in
	Unfit                 // its numbers cannot be compared: the machine's doing
	Another               // it fails with another complaint
	Silent                // the commit cannot be tested
)

// Rules are what differs in a run from question to question.
type Rules struct {
	Beside   bool    // several launches at a time tell more than one
	Timed    bool    // about numbers of launches that end well, of which several make one judgement
	Credible float64 // share of the probability that the suspects listed hold
	Launches int     // of one run, at most
	Vain     int     // launches in a row that told nothing, before it is given up
	Hurry    string  // the phase in which a launch need not run to the limit; "": it must
	OfBuilds bool    // judged by the times of builds, which nothing may disturb
}

// Question is what a run asks of launches.
type Question interface {
	// Rules says in what the loop itself differs for this question.
	Rules() Rules
	// Ends launches both ends until it is clear whether they differ. If they do, it has begun the belief of the run.
	Ends(r *Run) (bisect.Ends, error)
	// Belief returns a belief that has not seen any launch.
	Belief(r *Run) belief.Belief
	// Shape completes a request for this question. patient forbids stopping a launch before its limit.
	Shape(q *bisect.Request, patient bool)
	// Read turns an outcome into what the belief takes in. The caller sets Launch.Index.
	Read(t Trial) (belief.Launch, Answer)
	// Missing says what an outcome lacks that says nothing about the complaint.
	Missing(o bisect.Outcome) string
	// Verdict says what the belief makes of a commit that was launched.
	Verdict(r *Run, v Visit) bisect.Verdict
	// Settled ends the run (done) where there is no commit to look for. decided says that the belief points to one.
	// Launches that contradict every single commit are looked into first: acted says that it made one, or changed what
	// the belief rests on, so that the loop must decide anew.
	Settled(r *Run, decided bool) (done, acted bool, err error)
	// AsProof launches commit i, which the belief asks for, in a way that serves the proof as well; made is false
	// where it did not launch it.
	AsProof(r *Run, i int) (made bool, err error)
	// Expected says how many launches the rest of the run will take.
	Expected(r *Run) Outlook
	// Prove makes launches from clean builds for the claim that the culprit is among the members. It concludes the run
	// (done), or finds the claim contradicted, which begins another round (Run.Rounds), or goes on searching.
	Prove(r *Run, members []int) (done bool, err error)
}

// Visit is a series of launches of one commit in a row, which are reported as one judgement. N is their number; 0:
// there is none.
type Visit struct {
	At, N int
	Last  bisect.Outcome
}

// NewRun returns a run over a span that shares the launches of a ledger. The caller sets its Question before Locate.
// The smallest step worth finding is 0.5 % unless Options.Effect says otherwise (judge.md 2, minEffect).
func NewRun(ctx context.Context, s *Search, led *Ledger, in *Span) *Run {
	r := &Run{Search: s, Ctx: ctx, Ledger: led, Span: in, Account: Account{onStep: s.OnStep}, Least: math.Log1p(0.005), Most: maxLaunches, From: led.Launches}
	if s.Effect > 0 {
		r.Least = math.Log1p(s.Effect)
	}
	if s.Launches > 0 {
		r.Most = s.Launches
	}
	return r
}

// Locate looks for one culprit and writes the answer into the account. Launches that contradict a culprit begin
// another round, at most MaxRounds of them: what they contradict is void, and everything is built clean. An error is
// the machine's; the end of the budget is none, but an answer.
func (r *Run) Locate() (err error) {
	defer func() {
		if Cut(r, err) {
			r.Account.Inconclusive(r)
			err = nil
		}
	}()
	for {
		Soon(r, decisions(r)...)
		e, err := r.Question.Ends(r)
		if err != nil {
			return err
		}
		r.Account.Ends(r, e)
		if !e.Differ {
			return nil
		}
		reportLooked(r)
		round := r.Rounds
		if err := r.narrow(); err != nil || r.Rounds == round {
			return err
		}
		if r.Rounds > MaxRounds {
			r.Account.Warn("the confirmation contradicted the search again and again: the complaint does not come and go with the commits alone")
			r.Account.Inconclusive(r)
			return nil
		}
	}
}

// narrow launches what tells most, until one commit, or a set that no launch divides, stands out and is proven.
// Without an answer or an error it returns only where Rounds has grown: then Locate begins again.
func (r *Run) narrow() error {
	defer Soon(r)
	for round := r.Rounds; r.Rounds == round; {
		learn(r)
		silence(r)
		members, decided := r.Belief.Decided(r.Search.Delta(), r.Span.Launchable)
		if done, acted, err := r.Question.Settled(r, decided); err != nil || done {
			return err
		} else if acted {
			continue
		}
		Soon(r, append(likelyProofs(r), decisions(r)...)...)
		if decided {
			if sure := len(members) == 1 && r.Span.Launchable(members[0]); !sure && r.Unlearn("") { // no guess may be part of an exact set
				continue
			}
			if again, err := r.again(members); err != nil {
				return err
			} else if again {
				continue
			}
			r.report()
			Tell(r, r.Belief, r.Question.Expected(r))
			foreseeProof(r, members)
			if done, err := r.Question.Prove(r, members); err != nil || done {
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

// silence finds the inputs of several commits that cannot be tested: no launch has told something, and one has not. That such
// commits behave alike clears none of those between them.
func silence(r *Run) {
	told, mute := map[string]bool{r.Span.GoodKey: true}, map[string]bool{}
	for _, t := range r.Ledger.Made {
		i, known := r.Span.Index[t.Candidate.Commit]
		if !known || i < 0 || t.Void {
			continue
		}
		key := r.Span.Commits[i].Key
		switch _, a := r.Question.Read(t); {
		case a == Speaks:
			told[key] = true
		case a != Unfit && len(r.Span.alike[key]) > 1:
			mute[key] = true
		}
	}
	maps.DeleteFunc(mute, func(key string, _ bool) bool { return told[key] })
	if !maps.Equal(mute, r.Span.mute) {
		r.Span.mute = mute
		r.Span.Clear()
		anew(r)
	}
}

// step makes one launch, or one for each device: of the commit of the range, or the end, that promises most
// information per second. done: there is none, and the run has given up.
func (r *Run) step() (done bool, err error) {
	if why := r.Over(); why != "" {
		return r.GiveUp(why), nil
	}
	Tell(r, r.Belief, r.Question.Expected(r))
	a, ok := r.Belief.Next(r.prices())
	if !ok {
		if again, err := r.again(indices(r.Belief.Credible(r.Question.Rules().Credible))); err != nil || again {
			return false, err
		}
		return r.GiveUp("no further launch is likely to tell the suspects apart"), nil
	}
	if n := r.Search.AtOnce; n > 1 && r.Question.Rules().Beside {
		return false, side(r, a.Index, n)
	}
	r.Foresee(a.Index)
	if made, err := r.Question.AsProof(r, a.Index); err != nil || made {
		return false, err
	}
	why := r.Span.Purpose(a.Index)
	for n := 0; ; n++ {
		failed, err := r.Try(r.Span.Id(a.Index), why)
		if repeat := why == bisect.Searching && n+1 < r.Search.Repeat && !failed; err != nil || !repeat || r.Over() != "" {
			return false, err
		}
	}
}

// Try makes one launch and takes in what it shows. failed is true where it showed the complaint, or nothing about it.
// A pass that took longer than a trial of the same commit that was stopped early proves such stops wrong, and so do
// launches that pass or fail by how their processes were started: all trials in a hurry are then forgotten.
func (r *Run) Try(id string, why bisect.Purpose) (failed bool, err error) {
	if why == bisect.Searching && r.Visit.N > 0 && r.Visit.At != r.Span.Place(id) { // before this launch changes what is believed
		r.report()
	}
	t, err := r.Launch(id, why)
	if err != nil {
		return false, err
	}
	if t.Timing && t.Shared != "" {
		takeEqual(r, t)
		return false, nil
	}
	l, a := r.Question.Read(t)
	l.Index = r.Span.Place(id)
	if a == Speaks && t.Class == bisect.OK {
		if how := r.Ledger.liedEarly(id, t); how != "" {
			r.TakeTime(fmt.Sprintf("commit %s %s: trials that were stopped or started early are made again", bisect.ShortID(id), how))
			return false, nil
		}
	}
	if passesEarlyOnly(r.Ledger, r.Question, id) {
		r.TakeTime(fmt.Sprintf("commit %s fails unless its process is started early: trials that were stopped or started early are made again", bisect.ShortID(id)))
		return false, nil
	}
	r.take(l, a, why)
	r.Note(l.Index, t.Outcome, a, why)
	return a != Speaks || l.Failed, nil
}

// Launch makes one launch without taking it in. Where numbers are compared, the ends have passed before: one
// failure among many launches is passed over, but an end that keeps failing cannot serve as a reference and is
// reported as machine trouble (*bisect.InfraError).
func (r *Run) Launch(id string, why bisect.Purpose) (Trial, error) {
	const tries = 3
	for n := 1; ; n++ {
		t, err := r.Ledger.Launch(r.Ctx, r.Question, id, why)
		if err != nil || t.Class == bisect.OK || !r.Question.Rules().Timed || !why.IsEnd() {
			return t, err
		}
		if n == tries {
			what := fmt.Sprintf("launching %s (%s) again", bisect.ShortID(id), why)
			return t, &bisect.InfraError{What: what, Err: fmt.Errorf("it passed before and failed %d times in a row now: %s", tries, t.Describe())}
		}
	}
}

// take adds a launch to the belief, or sets its commit aside as untestable. A commit that has told something before is
// set aside only after several launches in a row that told nothing.
func (r *Run) take(l belief.Launch, a Answer, why bisect.Purpose) {
	const tries = 3
	i := l.Index
	switch {
	case a == Speaks && (i < 0 || r.Span.Within[i]):
		r.Vain = 0
		if i >= 0 {
			r.Span.Proven[i], r.Span.Usable[i] = true, true
		}
		r.Belief.Add(l)
	case a == Speaks: // it is about another change
	case why == bisect.ConfirmCulprit, why == bisect.ConfirmParent, a == Unfit, r.Span.IsEnd(i):
		r.Vain++ // the proof, and the next launch, look at it
	case r.Span.Proven[i] && r.Vain < tries:
		r.Vain++
	default:
		r.Vain, r.Span.Usable[i] = 0, false
	}
}

// Note gathers the launches of a commit into one judgement; [Run.Try] has reported the one before it. Where launches are not
// timed, each is a judgement of its own; so is a commit that is set aside.
func (r *Run) Note(i int, o bisect.Outcome, a Answer, why bisect.Purpose) {
	if why != bisect.Searching {
		return
	}
	if a != Speaks && !r.Span.Usable[i] {
		r.report()
		v := bisect.Verdict{Call: bisect.Untestable, Class: o.Class, Phase: o.Phase, Why: WhyNot(r.Question, o, a), Trials: 1, Probability: 1, Other: a == Another, Warnings: o.Warnings}
		if o.Class == bisect.OK {
			v.Class = bisect.Skip
		}
		r.Account.Judged(bisect.Step{Commit: r.Span.Id(i), Role: bisect.RoleSearch, Verdict: v, Remaining: Remaining(r), Belief: believed(r)})
		return
	}
	if a != Speaks {
		return
	}
	r.Visit = Visit{i, r.Visit.N + 1, o}
	if !r.Question.Rules().Timed { // each launch is a judgement
		r.report()
	}
}

// report reports the visit that is still open, if any, with what the belief makes of its commit now.
func (r *Run) report() {
	v := r.Visit
	if r.Visit = (Visit{}); v.N > 0 {
		r.Account.Judged(bisect.Step{Commit: r.Span.Id(v.At), Role: bisect.RoleSearch, Verdict: r.Question.Verdict(r, v), Remaining: Remaining(r), Belief: believed(r)})
	}
}

// How often launches that failed in another way are made again. One such failure may be the machine's doing, as a
// time-out on a loaded one is.
const (
	maxOther = 3 // of a commit set it aside for good
	maxVain  = 4 // made again in vain are enough: these commits do fail
)

// again launches a commit once more that was set aside because it failed in another way, if a verdict on it would
// divide the suspects. It is the last resort before a set of suspects becomes the answer.
func (r *Run) again(suspects []int) (acted bool, err error) {
	others := map[int]int{}
	vain := 0
	for i, c := range r.Span.Commits {
		if r.Span.Usable[i] || !r.Span.Within[i] {
			continue
		}
		for _, t := range r.Ledger.Of(c.ID, "") {
			switch _, a := r.Question.Read(t); a {
			case Another:
				others[i]++
			case Silent:
				others[i] = math.MinInt32
			}
		}
		vain += max(0, others[i]-1)
	}
	if len(suspects) < 2 || vain >= maxVain || r.Inner || r.Over() != "" {
		return false, nil
	}
	for i := range r.Span.Commits {
		if n := others[i]; n > 0 && n < maxOther && r.Belief.Parted(suspects, func(k int) bool { return k == i }) {
			_, err := r.Try(r.Span.Id(i), bisect.Searching)
			return true, err
		}
	}
	return false, nil
}

// Over says why nothing more may be launched, or "". It notes in the finding that the budget was used up.
func (r *Run) Over() string {
	if spent(r) {
		r.Account.Finding.Spent = true
		return bisect.ErrSpent.Error()
	}
	switch rules := r.Question.Rules(); {
	case r.Vain >= rules.Vain && rules.Timed:
		return fmt.Sprintf("the times of %d launches in a row could not be compared: the device is held back or shared", r.Vain)
	case r.Vain >= rules.Vain:
		return fmt.Sprintf("%d launches in a row showed nothing about the complaint", r.Vain)
	case r.Ledger.Launches >= r.Most, r.Ledger.Launches-r.From >= rules.Launches:
		return fmt.Sprintf("%d launches did not settle it", r.Ledger.Launches-r.From)
	}
	return ""
}

// Cut reports whether an error says that the budget cut a launch off, and notes it in the finding. If it was not yet
// known whether the ends differ, that becomes the answer about them.
func Cut(r *Run, err error) bool {
	if !errors.Is(err, bisect.ErrSpent) {
		return false
	}
	f := &r.Account.Finding
	if f.Spent = true; !f.Ends.Differ && f.Ends.Why == "" {
		f.Ends = bisect.Ends{Unclear: true, Why: SpentAtEnds, Hint: GoOn}
	}
	return true
}

// The evidence and the hint where the budget is used up before it is clear whether the ends differ.
const (
	SpentAtEnds = "the budget was used up before it was clear whether the ends differ"
	GoOn        = "kbisect run --resume --budget 10m goes on where this stopped"
)

// Begin makes b the belief of the run and adds all launches that still count, in the order in which they were made. A
// commit whose launches for the search told nothing becomes untestable, unless it has told something before.
func (r *Run) Begin(b belief.Belief) {
	r.Belief, r.Visit = b, Visit{}
	for _, t := range r.Ledger.Made {
		i, known := r.Span.Index[t.Candidate.Commit]
		if t.Void || !known {
			continue
		}
		switch l, a := r.Question.Read(t); {
		case a == Speaks && (i < 0 || r.Span.Within[i]):
			l.Index = i
			if i >= 0 {
				r.Span.Proven[i], r.Span.Usable[i] = true, true
			}
			r.Belief.Add(l)
		case a == Speaks, a == Unfit, i < 0, r.Span.IsEnd(i), r.Span.Proven[i]:
		case !t.Clean:
			r.Span.Usable[i] = false
		}
	}
}

// SetAside takes back what a commit has told, and tests it no more. It returns false for an end and for a commit that is set
// aside already.
func SetAside(r *Run, id string) bool {
	i, known := r.Span.Index[id]
	if !known || r.Span.IsEnd(i) || !r.Span.Usable[i] {
		return false
	}
	r.Ledger.void(func(t Trial) bool { return t.Candidate.Commit == id })
	r.Vain, r.Span.Proven[i], r.Span.Usable[i] = 0, false, false
	anew(r)
	return true
}

// DistrustKeys is called where two commits of equal inputs behave differently: something other than the declared
// inputs matters. First what was learned is doubted; if nothing was, every commit becomes a candidate of its own and
// another round begins. id is an example for the warning.
func (r *Run) DistrustKeys(id string) {
	if r.Unlearn(fmt.Sprintf("commits that change no file that was opened behave differently, such as %s", bisect.ShortID(id))) {
		return
	}
	r.Contradicted(fmt.Sprintf("commits of equal inputs behave differently, such as %s: the paths given leave out something that build or run read, so every commit was searched\nhint: add what is missing to paths (--path)", bisect.ShortID(id)))
	r.Span.forgetKeys()
	r.Count()
}

// Contradicted begins another round: the launches of the search are doubted as a whole, and everything is built clean
// from now on. The launches of the ends and those from clean builds stay; where times are compared, only those from
// clean builds do.
func (r *Run) Contradicted(why string) {
	r.Rounds++
	r.Account.Warn(why)
	timed := r.Question.Rules().Timed
	r.Ledger.Patient = r.Ledger.Patient || timed
	r.Ledger.void(func(t Trial) bool {
		return r.Span.holds(t.Candidate.Commit) && t.Purpose == bisect.Searching || timed && !t.Clean
	})
	if r.Search.Redo != nil {
		r.Search.Redo()
	}
}

// TakeTime forgets the trials that were made in a hurry. Every later one may run to its limit, and none is started
// early. The trials that passed go too: passes without the failures among them would make the complaint look rarer
// than it is.
func (r *Run) TakeTime(why string) {
	r.Account.Warn(why)
	r.Ledger.Patient = true
	r.Ledger.void(func(t Trial) bool { return t.Hurry != "" || t.Tentative || t.Ahead })
	for i := range r.Span.Within { // what they made of the range goes, too
		r.Span.Within[i] = true
	}
	r.Span.Clear()
	r.Begin(r.Question.Belief(r))
}

// BlindEnds distrusts the keys where the ends differ although their inputs are equal.
func (r *Run) BlindEnds() {
	if bad := r.Span.Bad(); r.Span.Blind && r.Span.Commits[bad].Key != "" {
		r.DistrustKeys(r.Span.Id(bad))
	}
}

// GiveUp ends the run with the suspects that are left. First it takes back what may be to blame for the failure, and
// returns false so that the search goes on: the commits left out by a guess, and the trials that were stopped early.
func (r *Run) GiveUp(why string) (done bool) {
	if !r.Account.Finding.Spent {
		taken := r.Unlearn("")
		if !taken && !r.Ledger.Patient && r.Ledger.alwaysEarly() {
			r.TakeTime("the search came to no proof and rests on trials that were stopped or started early: those are made again in full")
			taken = true
		}
		if taken {
			r.From = r.Ledger.Launches // what is taken back does not use up the launches of one run
			return false
		}
		r.Account.Warn("no commit is proven: " + why)
	}
	r.Account.Inconclusive(r)
	return true
}

// indices are the places of suspects, ascending.
func indices(suspects []bisect.Suspect) (out []int) {
	for _, s := range suspects {
		out = append(out, s.Index)
	}
	slices.Sort(out)
	return out
}

// Within prepares a run over the commits that hi reaches and lo does not; lo may be belief.GoodEnd. index holds, for
// each commit of the part, its index in the range of r. The part shares the ledger, so launches made so far serve it
// as evidence, and its judgements are relayed to r. The caller sets its Question.
func Within(r *Run, lo, hi int) (sub *Run, index []int) {
	commits, index := bisect.Between(r.Span.declared, lo, hi)
	key := r.Span.GoodKey
	if lo != belief.GoodEnd {
		key = r.Span.declared[lo].Key
	}
	in := NewSpan(commits, bisect.Candidate{Commit: r.Span.Id(lo)}, key)
	for k, i := range index {
		in.weight[k] = r.Span.weight[i]
	}
	in.narrow(r.Ledger.learned)
	in.Clear()
	sub = NewRun(r.Ctx, r.Search, r.Ledger, in)
	sub.Inner, sub.Most, sub.Account.onStep = true, r.Most, r.Account.relay
	return sub, index
}
