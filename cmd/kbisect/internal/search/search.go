// Package search finds the change that causes a fault: along the history of a range, in the flags of one commit, or
// in the hunks between two commits ([Run]). A [Search] is a session with what it has found. It leaves the decisions
// to packages bisect/find and bisect/sets and surrounds them:
//
//	answered, takeOver   what earlier sessions have answered or launched            again.go
//	resume               goes on with an interrupted search                         resume.go
//	findGood, priors     a good end; which commits are the likelier culprits        findgood.go, prior.go
//	foresight, careful   free slots make what will be asked for next                foresight.go
//	setSearch            flags of a commit, hunks of a difference                   sets.go, flags.go, hunks.go
//	drill                the culprit's hunks and the flag that it switches on       drill.go
//	examine              mistakes of the user, and doubts about a finding           doubts.go
//	Input                the facts of the report                                    report.go
//
// It must neither print nor read a command line, and must not judge a launch itself.
package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/fileaccess"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Search is one search: a session, and what it has found besides commits. It is used by one goroutine.
type Search struct {
	session *session.Session
	good    string         // commit id of the good end; "" until it is found
	options search.Options // what is searched for
	// ask puts a question to the user, see session.Env; nil if there is no terminal.
	ask func(ctx context.Context, question string) (answer string, asked bool, err error)

	sets     *setSearch               // of the flags or hunks axis; nil for the history
	hunks    map[string][]report.Hunk // by culprit: what in it is to blame
	unread   int                      // hunks of culprits that were not searched: in files that nothing opened
	switched map[string]string        // by culprit: the flag that it switches on
	table    *report.Table            // why the culprit differs from its parent
}

// Run begins a search, or resumes one, and reports what it finds. It takes no words, since its ends are options.
// Its error carries the exit code.
func Run(ctx context.Context, e session.Env, _ []string) error {
	if e.Request.Resume {
		return resume(ctx, e)
	}
	var rng *source.Range
	return session.Launch(ctx, e, e.Request.Axis, func(repo *source.Repo) (p *policy.Policy, err error) {
		p, rng, err = begin(ctx, e, repo)
		return p, err
	}, func(t *session.Session) error {
		t.Range = rng
		s := Of(t, t.Policy.Judge)
		s.ask = e.Ask
		return s.run(ctx)
	})
}

// begin makes the policy of a new search and its range. The policy is nil without an error if the store had the
// answer, which has been printed then.
func begin(ctx context.Context, e session.Env, repo *source.Repo) (*policy.Policy, *source.Range, error) {
	p, err := read(ctx, e.Request, repo)
	if err != nil {
		return nil, nil, err
	}
	// The store is asked before the history is read, which takes longer and is not needed if the answer is there.
	noted := environment(ctx, e, repo, p)
	defer noted()
	if ok, err := answered(ctx, e, repo, p, noted); ok || err != nil {
		return nil, nil, err
	}
	if e.Request.Bad == "HEAD" {
		session.WarnUncommitted(ctx, repo, p, "the bad end")
	}
	defer e.Stopwatch.Enter("reading the history")()
	rng, err := between(ctx, repo, p)
	return p, rng, err
}

// read makes the policy of a request, with its ends. Its errors are usage errors, or those of reading the store for a
// recorded good end.
func read(ctx context.Context, q *policy.Request, repo *source.Repo) (*policy.Policy, error) {
	p, err := policy.ForSearch(ctx, q, repo)
	if err != nil {
		return nil, err
	}
	switch p.Axis {
	case policy.AxisFlags:
		return p, policy.EndsOf(p, repo).FlagEnds(ctx, q)
	case policy.AxisHunks:
		return p, policy.EndsOf(p, repo).HunkEnds(ctx, q)
	}
	if p.Bad, err = repo.Resolve(ctx, q.Bad); err != nil {
		return nil, exit.Usagef("--bad: %w", err)
	}
	if err := chooseGood(ctx, p, q, repo); err != nil {
		return p, err
	}
	if err := policy.EndsOf(p, repo).FollowRenames(ctx); err != nil {
		return p, err
	}
	ends := []string{p.Good, p.Bad}
	if p.Good == "" { // --find-good has yet to find it
		ends = ends[1:]
	}
	policy.EndsOf(p, repo).AddHeaders(ends...)
	return p, nil
}

// between is the range between the ends. It is nil if another axis is searched, and while the good end has to be
// found.
func between(ctx context.Context, repo *source.Repo, p *policy.Policy) (*source.Range, error) {
	if p.Axis != policy.AxisHistory || p.Good == "" {
		return nil, nil
	}
	rng, err := repo.Range(ctx, p.Good, p.Bad, p.RangeOptions())
	if err != nil {
		return nil, exit.Usage(err)
	}
	return rng, policy.EndsOf(p, repo).CheckNamed()
}

// Ends reads a request for those who look at its ends without a search. The range is nil if no good end is named or
// recorded; the policy then has only a bad end.
func Ends(ctx context.Context, q *policy.Request, repo *source.Repo) (*policy.Policy, *source.Range, error) {
	p, err := read(ctx, q, repo)
	if errors.Is(err, errNoGood) {
		alone := *q
		alone.FindGood = true
		p, err = read(ctx, &alone, repo)
	}
	if err != nil {
		return nil, nil, err
	}
	rng, err := between(ctx, repo, p)
	return p, rng, err
}

// Of is a search in a session that has found nothing yet. options say what is searched for, and may differ from the
// policy's.
func Of(s *session.Session, options search.Options) *Search {
	return &Search{session: s, good: s.Policy.Good, options: options, hunks: map[string][]report.Hunk{}, switched: map[string]string{}}
}

// run searches, closes the pipelines, keeps the finding and writes the report. Its error carries the exit code.
func (s *Search) run(ctx context.Context) error {
	t := s.session
	if err := takeOver(t); err != nil {
		return t.Fail(&bisect.InfraError{What: "reading the store", Err: err})
	}
	leave := t.Stopwatch.Enter("deciding")
	f, err := s.find(ctx)
	leave()
	leave = t.Stopwatch.Enter("clearing up")
	// Before the document is made, which holds what the pipelines warn of at their end and what all launches took.
	t.Display.End()
	if closeErr := t.ClosePipes(); closeErr != nil {
		t.Warn(closeErr.Error())
	}
	leave()
	defer t.Stopwatch.Enter("report")()
	if err == nil {
		err = s.examine(&f)
	}
	if err != nil {
		return t.Fail(err)
	}
	in := s.Input(f)
	doc := report.NewSearch(in)
	if err := s.recordGood(doc); err != nil {
		return t.Fail(exit.With(exit.Machine, err))
	}
	end := session.Conclusion{Result: string(f.Result), Summary: doc.Summary(), Code: session.ExitCode(string(f.Result)), Document: doc, Ledger: &in.Ledger}
	switch f.Result {
	case bisect.Broken:
		end.Cause = f.Err
	case bisect.NoDifference: // good news for a comparison, but not for a search
		end.Code = exit.NoDifference
	}
	return t.Conclude(end)
}

// examine looks for mistakes of the user, which are errors, and adds warnings about what makes a finding doubtful.
func (s *Search) examine(f *bisect.Finding) error {
	t := s.session
	p := t.Policy
	if f.Err != nil && f.Result == bisect.Broken && session.Mistake(f.Err) {
		return f.Err
	}
	if f.Result == bisect.NoDifference {
		if err := session.NotFound(t, "at either end"); err != nil {
			return err
		}
		if p.Judge.Find == "" || p.Judge.Find == bisect.Slow {
			if err := session.Unmeasured(t); err != nil {
				return err
			}
			t.Warn(partlyReported(t)...)
		}
	}
	// If the good end fails because a tool is missing, so would every other commit that the hint could name.
	if f.Ends.OtherGood { // the good end is not good
		f.Ends.Hint = cmp.Or(session.Lacking(t), f.Ends.Hint)
	}
	if f.Result == bisect.NoDifference || f.Complaint.Metric != "" {
		t.Warn(undirected(t)...)
	}
	t.Warn(unknownPhases(p.Judge.Phase, p.Limits.Phases, t.Launches)...)
	if f.Result != bisect.Found && f.Result != bisect.Broken {
		f.Warnings = append(f.Warnings, slowerPhases(p, s.good, t.Launches)...)
	}
	// An exception other than the culprit's may have a culprit of its own, which a search for all of them looks for.
	if !p.All {
		f.Warnings = append(f.Warnings, otherExceptions(p.Bad, t.Launches, f.Culprits)...)
	}
	return nil
}

// find searches along the axis that the policy names. Of a history it then explains the culprit and searches its
// hunks.
func (s *Search) find(ctx context.Context) (bisect.Finding, error) {
	switch s.session.Policy.Axis {
	case policy.AxisFlags:
		s.sets = newSetSearch(s.session)
		return s.sets.flags(ctx)
	case policy.AxisHunks:
		goal := sets.Keep
		if s.session.Policy.All {
			goal = sets.All
		}
		s.sets = newSetSearch(s.session)
		f, err := s.sets.between(ctx, goal)
		s.blameHunks(&f, s.sets.found)
		return f, err
	}
	f, err := s.History(ctx)
	if err == nil && s.unreported(&f) {
		f, err = s.History(ctx)
	}
	if err != nil || f.Result != bisect.Found {
		return f, err
	}
	s.explain(ctx, &f)
	if !s.session.Policy.NoHunks {
		s.drill(ctx, &f)
	}
	return f, nil
}

// unreported handles metrics that the good end reports and the bad end does not. It reports true if the search has to be
// repeated: one for wrong results, in which a launch that lacks such a metric counts as wrong from now on. Any
// other gets a warning.
func (s *Search) unreported(f *bisect.Finding) bool {
	if f.Result != bisect.NoDifference || s.session.Policy.Improvement {
		return false
	}
	// What a build reports goes with its kernel.
	sent := slices.DeleteFunc(slices.Clone(s.session.Policy.Judge.Metrics), func(m metric.Metric) bool { return m.Exact })
	lost := metric.LostBetween(sent, session.Passed(s.session, bisect.EndGood), session.Passed(s.session, bisect.EndBad))
	if len(lost) == 0 {
		return false
	}
	if s.session.Policy.Judge.Find != bisect.Wrong {
		f.Warnings = append(f.Warnings, fmt.Sprintf("the bad end does not report %s, which the good end does\nhint: --find wrong finds the commit that removed it", lost[0]))
		return false
	}
	s.session.Warn(fmt.Sprintf("a launch that does not report %s counts as wrong: the good end reports it, the bad end does not", lost[0]))
	// The launches are kept as they were made. Only what the search sees of them changes, so that none is made again.
	s.session.Memory.Sees = func(o bisect.Outcome) bisect.Outcome { return metric.Missed(o, lost) }
	return true
}

// History finds the good end if none is given, and then the culprit. It begins again, with all launches kept, if a
// commit turns out not to be what the range was made of, or if launches side by side turn out to disturb each
// other.
func (s *Search) History(ctx context.Context) (bisect.Finding, error) {
	t := s.session
	for {
		// A search is repeated without a new plan when launches side by side disagreed, and with one when the range
		// was wrong.
		plan, f, err := s.plan(ctx)
		care := &careful{session: t}
		for again := plan != nil; again && err == nil; {
			ahead := foresight{session: t, batch: &[]bisect.Request{}}
			plan.Sampler, plan.Batch = care, func(next []bisect.Request) { *ahead.batch = next }
			stop := ahead.history(*plan)
			f, err = find.Culprits(ctx, plan)
			t.Pipe.Ahead(nil) // ends builds that only this search would have asked for
			if err = errors.Join(err, stop()); err == nil {
				again, err = care.again(f, plan.Commits)
			}
		}
		if misled, vouchErr := s.misled(ctx, f); !misled {
			return f, errors.Join(err, vouchErr)
		}
		t.Warn("the commit-graph or a kept fingerprint is wrong: the range was made again from the commits alone\nhint: git commit-graph verify")
		t.Range = nil
	}
}

// misled looks at the commits that a finding rests on and reports that one is not what the range was made of. The
// range comes from git's commit-graph and from kept digests, which may be wrong; this reads the commits themselves.
func (s *Search) misled(ctx context.Context, f bisect.Finding) (_ bool, err error) {
	t := s.session
	if t.Repo == nil { // its commits are not read from one
		return false, nil
	}
	for _, c := range f.Culprits {
		if err == nil && t.Range != nil {
			err = source.Vouch(ctx, t.Repo, t.Range, c.Commit)
		}
	}
	return source.Misled(t.Repo), err
}

// plan is the search of the range, after the good end has been found if none was given. It is nil if there is
// nothing to search for, and then settled is the answer.
func (s *Search) plan(ctx context.Context) (_ *search.Search, settled bisect.Finding, err error) {
	t := s.session
	var looked []search.Trial
	if s.good == "" {
		var f *bisect.Finding
		if looked, f, err = findGood(ctx, s, t.Memory); err != nil {
			return nil, settled, err
		}
		if f != nil {
			return nil, *f, nil
		}
	}
	if t.Range == nil {
		if t.Range, err = t.Repo.Range(ctx, s.good, t.Policy.Bad, t.Policy.RangeOptions()); err != nil {
			return nil, settled, exit.Usage(err)
		}
	}
	commits, matter := toCommits(t.Range, t.Policy.FirstParent)
	if matter == 0 {
		if len(looked) == 0 { // no launch speaks against it
			return nil, nothingMatters(t), nil
		}
		t.Redo() // the ends differ all the same: the paths are wrong, and so are the cache keys made of them
	}
	if session.Disagree(t) { // an earlier attempt has seen it
		if err := session.Separate(t); err != nil {
			return nil, settled, err
		}
	}
	plan := search.Search{
		Commits: commits, Good: bisect.Candidate{Commit: s.good}, GoodKey: t.Range.GoodKey,
		Options: s.options, All: t.Policy.All, Faster: t.Policy.Improvement, Looked: looked, Redo: t.Redo, Ahead: foresight{session: t}.builds,
		OnStep:     func(step bisect.Step) { t.Display.Step(step); s.keepStep(step) },
		Spent:      t.Spent,
		OnProspect: func(p bisect.Prospect) error { return s.expensive(ctx, p) },
		Weigh:      func() []float64 { return priors(ctx, t, commits) }, OnProgress: t.Display.Belief,
		Past: func(c metric.Channel) bisect.Scatter { return t.Policy.Past[c.Name()] },
	}
	plan.Width, plan.More = t.Pipe.Width()
	if t.Policy.Budget > 0 {
		plan.Left = func() float64 { return (t.Policy.Budget - t.Elapsed()).Seconds() }
	}
	plan.AtOnce, plan.Devices = session.Several(t)
	// A device that disagrees with the others is set apart. Devices are numbered from 1 and slots from 0.
	plan.Apart = func(device int) { t.Slots.Leave(device - 1) }
	if t.Cluster == nil && t.Policy.Spread == "" { // what is timed is launched in the first slot
		if len(t.Slots.Each) == 1 { // else another launch may end meanwhile
			plan.Listen = func(heard func(opened []string, after float64)) { pipeline.Listen(t.Pipe, heard) }
		}
		plan.Soon = func(next []bisect.Request) {
			if t.OneByOne {
				next = nil
			}
			pipeline.Soon(t.Pipe, next)
		}
		plan.Eager = pipeline.ManyProcessors()
	}
	if t.Policy.Learn {
		plan.Differs = fileaccess.Differs(ctx, t.Repo, commits, t.Policy.All)
	}
	t.Display.Begin(len(commits), matter)
	return &plan, settled, nil
}

// unanswered is how long a question waits. A user who has left the terminal wanted the search.
const unanswered = 2 * time.Minute

// expensive warns that a search will take long, and how to shorten it. A budget already says how far to go; without one
// the user is asked, if there is one at the terminal. The answer no is returned as context.Canceled, like an interrupt;
// no answer in time means yes.
func (s *Search) expensive(ctx context.Context, p bisect.Prospect) error {
	show := s.session.Display
	head, hints := words.Prospect(p)
	show.Warn(head)
	for _, h := range hints {
		show.Say("  " + h)
	}
	if s.ask == nil || show.Quiet || s.session.Policy.Budget > 0 {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	answer, _, err := s.ask(soon, fmt.Sprintf("Go on? [Y/n] (without an answer, in %s) ", wording.Span(unanswered)))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	case err == nil && strings.HasPrefix(strings.ToLower(answer), "n"):
		return context.Canceled
	}
	return err
}

// nothingMatters is the finding if build and run read the same at both ends: launches could differ only by chance.
func nothingMatters(t *session.Session) bisect.Finding {
	e := bisect.Ends{Why: "no commit in the range changes what build and run read; nothing was launched", Hint: "kbisect compare launches both ends anyway"}
	if paths := t.Policy.Paths; len(paths) > 0 {
		e.Why = fmt.Sprintf("no commit in the range changes a file below the paths (%s); nothing was launched", strings.Join(paths, ", "))
		e.Hint = "paths (--path) must name every input of build and run"
	}
	return bisect.Finding{Result: bisect.NoDifference, Ends: e}
}

// toCommits are the commits of a range as the search takes them, oldest first, and how many of them change an input of
// build or run. With firstParent the other parents of merges are dropped, as if their branches had been squashed.
func toCommits(rng *source.Range, firstParent bool) (out []bisect.Commit, matter int) {
	for _, c := range rng.Commits {
		parents := c.Parents
		if firstParent {
			parents = parents[:min(1, len(parents))]
		}
		out = append(out, bisect.Commit{ID: c.ID, Parents: parents, InRange: c.InRange, Key: c.Key, Neutral: c.Neutral})
		if !c.Neutral {
			matter++
		}
	}
	return out, matter
}
