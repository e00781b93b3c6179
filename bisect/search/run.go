package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// Run is one question about one range: which commit, if any, brought what sets its ends apart.
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
	foreseen map[int]bool // commits that are built, or being built, before they are asked for
}

// Answer says what an outcome means to a question.
type Answer int

// What an outcome may mean.
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
	// Rules are what differs in the run itself.
	Rules() Rules
	// Ends launches both ends until it is clear whether they differ, and begins the belief of the run.
	Ends(r *Run) (bisect.Ends, error)
	// Belief is that of a run without a launch.
	Belief(r *Run) belief.Belief
	// Shape makes a request one for this question.
	Shape(q *bisect.Request, patient bool)
	// Read turns an outcome into what the belief takes in.
	Read(t Trial) (belief.Launch, Answer)
	// Missing says what an outcome lacks that says nothing about the complaint.
	Missing(o bisect.Outcome) string
	// Verdict says what the belief makes of a commit that was launched.
	Verdict(r *Run, v Visit) bisect.Verdict
	// Settled ends the run where there is no commit to look for; decided says that the belief points to one. What
	// contradicts every single commit is looked at first, and launched again (acted).
	Settled(r *Run, decided bool) (done, acted bool, err error)
	// AsProof makes the launch of commit i that the belief asks for serve the proof as well; false: it was not made.
	AsProof(r *Run, i int) (made bool, err error)
	// Expected is what it still takes.
	Expected(r *Run) Outlook
	// Prove makes launches from clean builds for the claim that the culprit is among the members. It concludes the
	// run (done), finds the claim contradicted, which begins another round, or goes on searching.
	Prove(r *Run, members []int) (done bool, err error)
}

// Visit is a run of launches of one commit, reported as one judgement.
type Visit struct {
	At, N int
	Last  bisect.Outcome
}

// NewRun returns a run over a span that shares the launches of a ledger. Its question is still to be set.
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

// Locate looks for one culprit. Launches that contradict it begin another round: what they contradict is void, and
// everything is built clean.
func (r *Run) Locate() (err error) {
	defer func() {
		if Cut(r, err) {
			r.Account.Inconclusive(r)
			err = nil
		}
	}()
	for {
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

// narrow launches what tells most until one set of commits stands out and is proven.
func (r *Run) narrow() error {
	for round := r.Rounds; r.Rounds == round; {
		learn(r)
		members, decided := r.Belief.Decided(r.Search.Delta(), r.Span.Launchable)
		if done, acted, err := r.Question.Settled(r, decided); err != nil || done {
			return err
		} else if acted {
			continue
		}
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

// step launches the commit of the range, or the end, that promises most; done when there is none.
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
		return r.GiveUp("no launch promises to tell the suspects apart"), nil
	}
	if r.Search.OnDecision != nil {
		r.Search.OnDecision(a)
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

// Try makes one launch and takes in what it shows; failed: it showed the complaint, or nothing.
func (r *Run) Try(id string, why bisect.Purpose) (failed bool, err error) {
	t, err := r.Launch(id, why)
	if err != nil {
		return false, err
	}
	l, a := r.Question.Read(t)
	l.Index = r.Span.Place(id)
	if a == Speaks && t.Class == bisect.OK && r.Ledger.liedEarly(id, t.Outcome) {
		r.TakeTime(fmt.Sprintf("given the whole limit, commit %s does not show the complaint: trials that were stopped early are made again", bisect.ShortID(id)))
		return false, nil
	}
	r.take(l, a, why)
	r.Note(l.Index, t.Outcome, a, why)
	return a != Speaks || l.Failed, nil
}

// Launch makes one launch. An end whose numbers are wanted has ended well before: one failure among many launches is
// passed over; an end that keeps failing cannot serve as a reference.
func (r *Run) Launch(id string, why bisect.Purpose) (Trial, error) {
	const tries = 3
	for n := 1; ; n++ {
		t, err := r.Ledger.Launch(r.Ctx, r.Question, id, why)
		if err != nil || t.Class == bisect.OK || !r.Question.Rules().Timed || why != bisect.EndGood && why != bisect.EndBad {
			return t, err
		}
		if n == tries {
			what := fmt.Sprintf("launching %s (%s) again", bisect.ShortID(id), why)
			return t, &bisect.InfraError{What: what, Err: fmt.Errorf("it ended well before and failed %d times in a row now: %s", tries, t.Describe())}
		}
	}
}

// take adds a launch to the belief, or sets its commit aside.
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

// Note gathers the launches of a commit into one judgement, and reports the one before it.
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
	if r.Visit.N > 0 && r.Visit.At != i {
		r.report()
	}
	r.Visit = Visit{i, r.Visit.N + 1, o}
	if !r.Question.Rules().Timed { // each launch is a judgement
		r.report()
	}
}

// report tells what the belief makes of the commit launched last.
func (r *Run) report() {
	v := r.Visit
	if r.Visit = (Visit{}); v.N > 0 {
		r.Account.Judged(bisect.Step{Commit: r.Span.Id(v.At), Role: bisect.RoleSearch, Verdict: r.Question.Verdict(r, v), Remaining: Remaining(r), Belief: believed(r)})
	}
}

// Launches that failed in another way: one may be the machine's doing, as a time-out is on one that is loaded.
const (
	maxOther = 3 // of a commit set it aside for good
	maxVain  = 4 // made again in vain are enough: these commits do fail
)

// again launches a commit once more that failed in another way and would tell the suspects apart.
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

// Over says why nothing more may be launched, or "".
func (r *Run) Over() string {
	if spent(r) {
		r.Account.Finding.Spent = true
		return "the budget is used up"
	}
	switch rules := r.Question.Rules(); {
	case r.Vain >= rules.Vain && rules.Timed:
		return fmt.Sprintf("the times of %d launches in a row could not be compared: the device is held back or shared", r.Vain)
	case r.Vain >= rules.Vain:
		return fmt.Sprintf("%d launches in a row told nothing about the complaint", r.Vain)
	case r.Ledger.Launches >= r.Most, r.Ledger.Launches-r.From >= rules.Launches:
		return fmt.Sprintf("%d launches did not settle it", r.Ledger.Launches-r.From)
	}
	return ""
}

// Cut reports whether an error is that of a launch which the budget cut off, and notes it in the finding. If the ends
// have not been told apart yet, it becomes the answer about them.
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

// What is said where the budget is used up before it is clear whether the ends differ.
const (
	SpentAtEnds = "the budget was used up before it was clear whether the ends differ"
	GoOn        = "kbisect run --resume --budget 10m goes on where this stopped"
)

// Begin makes the belief of the run from the launches that still count.
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

// DistrustKeys is for two commits of equal inputs that behave differently: something else than the declared inputs
// matters, and every commit becomes a candidate of its own.
func (r *Run) DistrustKeys(id string) {
	if r.Unlearn(fmt.Sprintf("commits that change no file which was opened behave differently, such as %s", bisect.ShortID(id))) {
		return
	}
	r.Contradicted(fmt.Sprintf("commits of equal inputs behave differently, such as %s: the paths given leave out something that build or run read, so every commit was searched\nhint: add what is missing to paths (--path)", bisect.ShortID(id)))
	r.Span.forgetKeys()
	r.Count()
}

// Contradicted begins another round: the launches of the search are doubted as a whole, and everything is built clean
// from now on. The launches of the ends and from clean builds stay.
func (r *Run) Contradicted(why string) {
	r.Rounds++
	r.Account.Warn(why)
	timed := r.Question.Rules().Timed
	r.Ledger.void(func(t Trial) bool {
		return r.Span.holds(t.Candidate.Commit) && t.Purpose == bisect.Searching || timed && !t.Clean
	})
	if r.Search.Redo != nil {
		r.Search.Redo()
	}
}

// TakeTime forgets the trials that were in a hurry, those that passed too, lest the passes be left without
// the failures; from now on none is.
func (r *Run) TakeTime(why string) {
	r.Account.Warn(why)
	r.Ledger.Patient = true
	r.Ledger.void(func(t Trial) bool { return t.Hurry != "" })
	for i := range r.Span.Within { // what they made of the range goes, too
		r.Span.Within[i] = true
	}
	r.Span.Clear()
	r.Begin(r.Question.Belief(r))
}

// BlindEnds is for ends of equal inputs that differ.
func (r *Run) BlindEnds() {
	if bad := r.Span.Bad(); r.Span.Blind && r.Span.Commits[bad].Key != "" {
		r.DistrustKeys(r.Span.Id(bad))
	}
}

// GiveUp ends the run with what is known, unless trials that were stopped early are to blame:
// then they are made again with the whole limit, and it is not done.
func (r *Run) GiveUp(why string) (done bool) {
	if !r.Account.Finding.Spent && r.Unlearn("") {
		return false
	}
	if !r.Account.Finding.Spent && !r.Ledger.Patient && r.Ledger.alwaysEarly() {
		r.TakeTime("the search came to no proof and rests on trials that were stopped before their limit: those are made again with the whole limit")
		return false
	}
	if !r.Account.Finding.Spent {
		r.Account.Warn("no commit is proven: " + why)
	}
	r.Account.Inconclusive(r)
	return true
}

func indices(suspects []bisect.Suspect) (out []int) {
	for _, s := range suspects {
		out = append(out, s.Index)
	}
	slices.Sort(out)
	return out
}

// Within prepares a run between two commits of the range; lo may be GoodEnd. Launches made so far serve it as evidence.
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
	in.narrow(r.Ledger.learned.untouched)
	in.Clear()
	sub = NewRun(r.Ctx, r.Search, r.Ledger, in)
	sub.Inner, sub.Most, sub.Account.onStep = true, r.Most, r.Account.relay
	return sub, index
}
