package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/store"
)

// launch builds and launches a pushed commit, then its base in turn with it, until there is an answer or the
// share of the time that this ref has is used up; refs is how many share what is left. What is learnt is kept
// as a comparison, so that the next push of the same commits is decided by it.
func (k *pushCheck) launch(x *ruling, refs int) {
	until, _ := k.ctx.Deadline()
	until = time.Now().Add(time.Until(until) / time.Duration(refs))
	ctx, cancel := context.WithDeadline(k.ctx, until)
	defer cancel()
	if x.least > time.Until(until) {
		k.rule(x, unchecked, fmt.Sprintf("the launches before ended well, and a comparison takes %s at least, which a push does not wait for", span(x.least)), true)
		return
	}
	p := *k.policy
	p.Warnings = slices.Clone(p.Warnings)
	p.Good, p.Bad = cmp.Or(x.base, x.commit), x.commit
	if err := p.checkPaths(k.repo); err != nil {
		k.rule(x, unchecked, headline(err.Error()), false)
		return
	}
	if err := deviceFree(k.devices); err != nil {
		k.rule(x, unchecked, headline(err.Error()), true)
		return
	}
	kind := comparing
	if x.base == "" {
		kind = measuring
	}
	t, err := beginTrials(k.c, k.repo, &p, kind)
	if err != nil {
		k.rule(x, unchecked, headline(err.Error()), true)
		return
	}
	defer t.close()
	t.ui.quiet = !t.ui.verbose
	if err := t.begin(ctx); err != nil {
		why := headline(err.Error())
		if errors.Is(err, context.DeadlineExceeded) {
			why = k.why()
		}
		k.rule(x, unchecked, why, true)
		return
	}
	fmt.Fprintf(k.c.App.ErrWriter, "kbisect: %s %s is built and launched; the push waits until %v at most\n", x.push.name(), short(x.commit), k.deadline)
	told := t.pipe.OnPhase
	t.pipe.OnPhase = func(a pipeline.Activity) { k.activity(a); told(a) }
	l := launched{ruling: x, until: until}
	l.run(ctx, t)
	k.ruleOn(l, t)
}

// makeRoom has the background stop, which a push does not wait for. What it was at stays queued.
func (k *pushCheck) makeRoom() {
	_ = queueOf(k.repo.CommonDir()).stepAside(k.ctx, k.deadline) // if it stays, the launches say what is in the way
}

// activity notes what is being done, for who asks why there is no answer.
func (k *pushCheck) activity(a pipeline.Activity) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doing = fmt.Sprintf("%s of %s", a.Doing, short(a.Request.Candidate.Commit))
}

// deviceFree is an error when somebody measures on one of the devices: a push does not wait for that.
func deviceFree(uuids []string) error {
	for _, id := range uuids {
		release, err := gpu.TryLock(id)
		if err != nil {
			return err
		}
		release()
	}
	return nil
}

// launched is what launching one ref showed.
type launched struct {
	*ruling
	until time.Time
	got   judge.Comparison
	first *bisect.Outcome // of the pushed commit; nil when it did not come to its end
	err   error
}

// run launches the pushed commit first: that it fails says most in the shortest time. The comparison finds
// that launch remembered.
func (l *launched) run(ctx context.Context, t *trials) {
	l.got.Answer = judge.Open
	pushed, purpose := bisect.Candidate{Commit: l.commit}, bisect.EndBad
	if l.base == "" {
		purpose = bisect.EndGood
	}
	o, err := t.memory.Sample(ctx, bisect.Request{Candidate: pushed, Purpose: purpose, Timing: true})
	if err != nil {
		l.err = err
		return
	}
	l.first = &o
	l.got.Sides[1].Note(o)
	if l.base == "" {
		return
	}
	last, longest := time.Now(), time.Duration(0)
	run := judge.Compare{
		A: bisect.Candidate{Commit: l.base}, B: pushed, Sampler: t.memory, Options: t.policy.Judge, Fallback: t.policy.fallback(),
		Seed:  uint64(t.policy.Seed),
		Spent: func() bool { return time.Now().Add(longest).After(l.until) },
		OnPair: func(int, []judge.Sofar) {
			longest = max(longest, time.Since(last))
			last = time.Now()
		},
	}
	got, err := run.Run(ctx)
	if got.Sides[1].Launches == 0 { // the base took all the time
		got.Sides[1] = l.got.Sides[1]
	}
	l.got, l.err = got, err
}

// ruleOn answers by what the launches showed, and keeps it.
func (k *pushCheck) ruleOn(l launched, t *trials) {
	late := errors.Is(l.err, context.DeadlineExceeded)
	if late {
		l.got.Spent, l.err = true, nil
	}
	result, mend := t.ended(k.c.Context, l.err)
	if mend == nil {
		if mend = t.notFound("for " + l.push.name()); mend != nil {
			mend = t.fail(mend)
		}
	}
	if mend != nil {
		k.rule(l.ruling, unchecked, headline(mend.Error()), false)
		return
	}
	a, queue := l.answer()
	verdict, err := l.keep(t, result)
	switch {
	case l.err != nil:
		verdict = headline(l.err.Error())
	case l.first == nil:
		verdict = k.why()
	}
	k.rule(l.ruling, a, verdict, queue)
	if err != nil {
		t.ui.warn(headline(err.Error()))
	}
}

// why says why there is no answer yet.
func (k *pushCheck) why() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unfinished()
}

// answer is what the launches lead to: only what is clear stops a push. A commit that has failed as often as
// there was time to launch it, where its base has not, is clear enough.
func (l *launched) answer() (a answer, queue bool) {
	base, pushed := l.got.Sides[0], l.got.Sides[1]
	failing := pushed.Launches > 0 && pushed.Failed == pushed.Launches
	switch {
	case l.err != nil, l.first == nil:
		return unchecked, true
	case failing && l.first.Class == bisect.Skip:
		return unchecked, false
	case l.got.Answer == judge.Open && failing && base.Failed == 0:
		l.got.Answer, l.got.ByClass, l.got.Spent = judge.Worse, true, false
		l.got.Why = fmt.Sprintf("it fails in %d of %d launches%s: %s", pushed.Failed, pushed.Launches, l.ofBase(), l.first.Describe())
	}
	if l.got.Answer == judge.Worse {
		return blocked, false
	}
	return passes, l.got.Answer == judge.Open && l.got.Spent && l.base != ""
}

// ofBase says how the base fared, where the pushed commit failed and there was no time for more.
func (l *launched) ofBase() string {
	switch base := l.got.Sides[0]; {
	case l.base == "":
		return ""
	case base.Launches == 0:
		return ", and there was no time to launch A"
	default:
		return fmt.Sprintf(", A in none of %d", base.Launches)
	}
}

// keep closes the session, and returns its verdict.
func (l *launched) keep(t *trials, result string) (verdict string, err error) {
	quietly := func() error { return nil }
	if l.base == "" {
		var all []bisect.Outcome
		if l.first != nil {
			all = append(all, *l.first)
		}
		doc := t.measurement(short(l.commit), "", all, 1, cmp.Or(result, cutShort(l.first)), l.err)
		return doc.Verdict, t.conclude(doc.Result, doc.Verdict, exitOK, nil, doc, quietly)
	}
	result = cmp.Or(result, string(l.got.Answer))
	x := pair{words: [2]string{short(l.base), short(l.commit)}, sides: [2]bisect.Candidate{{Commit: l.base}, {Commit: l.commit}}}
	doc := t.comparison(x, l.got, result, l.err)
	return doc.Verdict, t.conclude(result, doc.Verdict, exitOK, nil, doc, quietly)
}

// cutShort is the result of a measurement that did not come to its end.
func cutShort(o *bisect.Outcome) string {
	if o == nil {
		return store.Interrupted
	}
	return ""
}
