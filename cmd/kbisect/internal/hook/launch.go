package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/store"
)

// launch decides a ref by launching: the pushed commit first, then its base in turn with it, until there is an
// answer or the time is up. The results are kept as a comparison or a measurement, so that the next push of the
// same commits needs no launch. Nothing that goes wrong here is a regression.
func (k *pushCheck) launch(ctx context.Context, x *refCheck, until time.Time) decision {
	p := *k.rules
	p.Warnings = slices.Clone(p.Warnings)
	p.Good, p.Bad = cmp.Or(x.base, x.commit), x.commit
	if err := policy.EndsOf(&p, k.repo).CheckPaths(); err != nil {
		return decision{answer: unchecked, why: wording.Headline(err.Error())}
	}
	if err := devicesFree(k.devices); err != nil {
		return decision{answer: undecided, why: wording.Headline(err.Error())}
	}
	kind := session.Comparing
	if x.base == "" {
		kind = session.Measuring
	}
	t, err := k.opts.Begin(k.repo, &p, kind)
	if err != nil {
		return decision{answer: undecided, why: wording.Headline(err.Error())}
	}
	defer t.Close()
	timed, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := t.Start(timed); errors.Is(err, context.DeadlineExceeded) {
		return k.lateNow()
	} else if err != nil {
		return decision{answer: undecided, why: wording.Headline(err.Error())}
	}
	if !runByHand(t.Store, &p) {
		fmt.Fprintf(k.opts.Messages, "kbisect: this command was never run by hand here: %s\n", commandsOf(p.Plan))
	}
	fmt.Fprintf(k.opts.Messages, "kbisect: building and launching %s %s; the push waits at most %v\n", x.ref.name(), bisect.ShortID(x.commit), k.opts.Deadline)
	// At the deadline another goroutine says what is being done: note keeps it for that.
	report := t.Pipe.Config.OnPhase
	t.Pipe.Config.OnPhase = func(a pipeline.Activity) { k.note(a); report(a) }
	l := launches{base: x.base, commit: x.commit, until: until}
	l.run(timed, t)
	return k.conclude(ctx, x, l, t)
}

// runByHand reports whether a recent session that was not a push ran the same commands: then the user knows them.
func runByHand(st *store.Store, p *policy.Policy) bool {
	all, err := st.Sessions(recentSessions)
	return err == nil && slices.ContainsFunc(all, func(x store.Session) bool {
		var past policy.Policy
		return !slices.Contains(x.Args, "pre-push") && json.Unmarshal(x.Config, &past) == nil && past.Commands() == p.Commands()
	})
}

// commandsOf names what a push runs. The user is told once, because a merged branch may have changed the
// configuration and a hook runs without being asked.
func commandsOf(p kernels.Plan) string {
	var all []string
	for _, argv := range [][]string{p.Build, p.Run} {
		if len(argv) > 0 {
			all = append(all, fmt.Sprintf("%q", argv))
		}
	}
	for _, s := range p.Stages {
		all = append(all, fmt.Sprintf("%q", s.Run))
	}
	return strings.Join(all, ", then ")
}

// note keeps what is being done, which is the reason given if there is no answer in time.
func (k *pushCheck) note(a pipeline.Activity) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doing = fmt.Sprintf("%s of %s", a.Doing, bisect.ShortID(a.Request.Candidate.Commit))
}

// lateNow is [pushCheck.late] for a caller that does not hold the lock.
func (k *pushCheck) lateNow() decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.late()
}

// devicesFree is an error if another process measures on one of the devices. A push does not wait for it.
func devicesFree(uuids []string) error {
	for _, id := range uuids {
		release, err := gpu.TryLock(id)
		if err != nil {
			return err
		}
		release()
	}
	return nil
}

// launches is what launching a pushed commit and its base showed.
type launches struct {
	base, commit string
	until        time.Time
	got          compare.Result
	first        *bisect.Outcome // of the pushed commit; nil if it was not launched or was cut off
	err          error
}

// run launches the pushed commit first: a failure there says the most in the shortest time. The comparison after it
// gets that launch from the sampler's memory.
func (l *launches) run(ctx context.Context, t *session.Session) {
	l.got.Answer = compare.Open
	pushed, purpose := bisect.Candidate{Commit: l.commit}, bisect.EndBad
	if l.base == "" {
		purpose = bisect.EndGood
	}
	o, err := t.Memory.Sample(ctx, bisect.Request{Candidate: pushed, Purpose: purpose, Timing: true})
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
	run := compare.Experiment{
		A: bisect.Candidate{Commit: l.base}, B: pushed, Sampler: t.Memory, Metrics: t.Policy.Judge.Metrics, Effect: t.Policy.Judge.Effect, Error: t.Policy.Judge.Error, Fallback: t.Policy.Fallback(),
		Seed: uint64(t.Policy.Seed),
		// A pair that the deadline would cut off is not begun: its launches would not count.
		Spent: func() bool { return time.Now().Add(longest).After(l.until) },
		OnPair: func(int, []compare.Sofar) {
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

// conclude decides by what the launches showed, and keeps it. Launches that the deadline cut off count as a
// comparison whose budget is used up, and not as an error.
func (k *pushCheck) conclude(ctx context.Context, x *refCheck, l launches, t *session.Session) decision {
	if errors.Is(l.err, context.DeadlineExceeded) {
		l.got.Spent, l.err = true, nil
	}
	result, err := t.Ended(ctx, l.err, "for "+x.ref.name())
	if err != nil {
		return decision{answer: unchecked, why: wording.Headline(err.Error())}
	}
	d := decision{answer: l.answer()}
	if d.why, err = l.keep(t, result); err != nil {
		t.Display.Warn(wording.Headline(err.Error()))
	}
	switch {
	case l.err != nil:
		d.why = wording.Headline(l.err.Error())
	case l.first == nil:
		return k.lateNow()
	}
	return d
}

// answer is what the launches lead to. Only a clear result stops a push. It is clear enough if the pushed commit failed
// each time there was time to launch it and its base never did; the result of the comparison is then changed to say
// so, as it is stored and shown.
func (l *launches) answer() answer {
	base, pushed := l.got.Sides[0], l.got.Sides[1]
	failing := pushed.Launches > 0 && pushed.Failed == pushed.Launches
	switch {
	case l.err != nil, l.first == nil:
		return undecided
	case failing && l.first.Class == bisect.Skip:
		return unchecked
	case l.got.Answer == compare.Open && failing && base.Failed == 0:
		l.got.Answer, l.got.ByClass, l.got.Spent = compare.Worse, true, false
		l.got.Why = fmt.Sprintf("it fails in %d of %d launches%s: %s", pushed.Failed, pushed.Launches, l.ofBase(), l.first.Describe())
	}
	switch {
	case l.got.Answer == compare.Worse:
		return regression
	case l.got.Answer == compare.Open && l.got.Spent && l.base != "":
		return undecided
	}
	return passes
}

// ofBase says how the base fared, for a pushed commit that failed.
func (l *launches) ofBase() string {
	switch base := l.got.Sides[0]; {
	case l.base == "":
		return ""
	case base.Launches == 0:
		return ", and there was no time to launch A"
	default:
		return fmt.Sprintf(", A in none of %d", base.Launches)
	}
}

// keep concludes the session and returns its verdict. It prints nothing; the exit code is the hook's own.
func (l *launches) keep(t *session.Session, result string) (verdict string, err error) {
	noReport := func() error { return nil }
	if l.base == "" {
		var all []bisect.Outcome
		if l.first != nil {
			all = append(all, *l.first)
		} else {
			result = cmp.Or(result, store.Interrupted)
		}
		doc := session.Measurement(t, bisect.ShortID(l.commit), "", all, 1, result, l.err)
		return doc.Verdict, t.Conclude(session.Conclusion{Result: doc.Result, Summary: doc.Verdict, Document: &doc, Show: noReport})
	}
	result = cmp.Or(result, string(l.got.Answer))
	x := session.Pair{Words: [2]string{bisect.ShortID(l.base), bisect.ShortID(l.commit)}, Sides: [2]bisect.Candidate{{Commit: l.base}, {Commit: l.commit}}}
	doc := session.Comparison(t, x, l.got, result, l.err)
	return doc.Verdict, t.Conclude(session.Conclusion{Result: result, Summary: doc.Verdict, Document: &doc, Show: noReport})
}
