package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Pair is the two revisions of a command line. The words stay with the candidates, because reports and suggested
// commands name a revision as the user did.
type Pair struct {
	Words [2]string // A and B as named on the command line
	Sides [2]bisect.Candidate
	pairs int // of a comparison; 0: as many as it takes
}

// Compare launches two revisions in alternation until it is clear whether the second is worse, or the budget is used
// up. It stores and shows the result; its error carries the exit code.
func Compare(ctx context.Context, e Env, words []string) error {
	return LaunchTwo(ctx, e, words, Comparing, readCompare, compareTwo)
}

// LaunchTwo resolves two revisions and hands a session of this kind to do. read takes what else the command needs from
// the request. It runs before the session is stored, so that its usage errors leave no session behind.
func LaunchTwo(ctx context.Context, e Env, words []string, kind string, read func(*policy.Policy, *policy.Request, *Pair) error, do func(context.Context, *Session, *policy.Request, Pair) error) error {
	var x Pair
	return Launch(ctx, e, kind, func(repo *source.Repo) (p *policy.Policy, err error) {
		x, p, err = ReadPair(ctx, e.Request, repo, words, read)
		return p, err
	}, func(t *Session) error { return do(ctx, t, e.Request, x) })
}

// ReadPair resolves two revisions and makes the policy of a session with them as its ends. Its errors are usage
// errors.
func ReadPair(ctx context.Context, q *policy.Request, repo *source.Repo, words []string, read func(*policy.Policy, *policy.Request, *Pair) error) (x Pair, p *policy.Policy, err error) {
	if len(words) != 2 {
		return x, nil, exit.Usagef("%s takes two revisions, A and B, not %d\nhint: kbisect %s HEAD^ HEAD [-- COMMAND]", q.Name, len(words), q.Name)
	}
	x.Words = [2]string(words)
	if p, err = policy.ForTrials(q, repo); err != nil {
		return x, nil, err
	}
	for i, w := range words {
		if x.Sides[i], err = p.Candidate(ctx, repo, w); err != nil {
			return x, nil, err
		}
	}
	if err := read(p, q, &x); err != nil {
		return x, nil, err
	}
	p.Good, p.Bad = x.Sides[0].Commit, x.Sides[1].Commit
	warnOfHead(ctx, repo, p, words...)
	return x, p, policy.EndsOf(p, repo).Check(ctx)
}

// readCompare takes from the request how small a difference counts, and how many pairs are wanted.
func readCompare(p *policy.Policy, q *policy.Request, x *Pair) error {
	if err := p.ReadJudgement(q); err != nil {
		return err
	}
	if x.pairs = q.Pairs; q.PairsSet && x.pairs < compare.MinPairs {
		return exit.Usagef("--pairs %d: a comparison needs at least %d\nhint: kbisect measure launches one revision any number of times", x.pairs, compare.MinPairs)
	}
	return nil
}

// compareTwo launches, decides and reports. The exit code follows from the result; see [ExitCode].
func compareTwo(ctx context.Context, t *Session, _ *policy.Request, x Pair) error {
	t.Display.Ends = map[bisect.Purpose]string{bisect.EndGood: "A", bisect.EndBad: "B"}
	run := compare.Experiment{
		A: x.Sides[0], B: x.Sides[1], Sampler: t.Memory, Metrics: t.Policy.Judge.Metrics, Effect: t.Policy.Judge.Effect, Error: t.Policy.Judge.Error, Fallback: t.Policy.Fallback(),
		Pairs: x.pairs, Seed: uint64(t.Policy.Seed), Spent: t.Spent,
		OnPair: func(n int, s []compare.Sofar) {
			if n <= 10 || n%5 == 0 || n == x.pairs {
				t.Display.Launched(n, x.pairs, PairLine(n, s, t.Policy.Judge.Error))
			}
		},
	}
	got, err := run.Run(ctx)
	result, userError := t.Ended(ctx, err, "for A or for B")
	if userError != nil {
		return userError
	}
	if result == "" && onlyAFails(got) {
		a, b := got.Sides[0], got.Sides[1]
		got.Answer = compare.Better
		got.Why = fmt.Sprintf("A fails in %d of %d launches, B in none of %d: %s", a.Failed, a.Launches, b.Launches, a.Failure.Describe())
	}
	result = cmp.Or(result, string(got.Answer))
	doc := Comparison(t, x, got, result, err)
	return t.Conclude(Conclusion{Result: result, Summary: doc.Verdict, Code: ExitCode(result), Cause: err, Document: &doc})
}

// onlyAFails reports a comparison in which A fails and B always passes, so that there is nothing to measure. Package
// compare leaves that open (Open), because what it means depends on the command: for two candidates it is an
// improvement, but a gate, for which A is the base, has nothing to compare with.
func onlyAFails(c compare.Result) bool {
	a, b := c.Sides[0], c.Sides[1]
	return c.ByClass && c.Answer == compare.Open && a.Failure != nil && a.Failure.Class != bisect.Skip && b.Failed == 0 && b.Launches > 0
}

// PairLine is one line of progress after n pairs: the last metric that is still undecided, or else the first, with the
// interval on which the answer will rest. errorRate is the chance that the interval misses the true ratio.
func PairLine(n int, all []compare.Sofar, errorRate float64) string {
	line := fmt.Sprintf("pair %-3d", n)
	if len(all) == 0 {
		return line + " no metric to compare yet"
	}
	s := all[0]
	open := 0
	for _, x := range all {
		if x.Answer == compare.Open {
			open++
			s = x
		}
	}
	line += fmt.Sprintf(" %s %s", s.Name, words.Interval(s.Bound.Value, s.Bound.Low, s.Bound.High, 1-errorRate))
	if len(all) > 1 {
		line += fmt.Sprintf(", %d of %d metrics undecided", open, len(all))
	}
	return line
}

// Comparison makes the document of a comparison. result is how it ended, which need not be got.Answer: an interrupt
// and a machine problem are results, too. err is what ended it early, if anything did.
func Comparison(t *Session, x Pair, got compare.Result, result string, err error) report.Comparison {
	doc := report.Comparison{
		Schema: report.ComparisonSchema, Session: t.Record.ID, Result: result, SameCommit: x.Sides[0] == x.Sides[1],
		A: Side(t, x.Words[0], x.Sides[0].Commit, got.Sides[0]), B: Side(t, x.Words[1], x.Sides[1].Commit, got.Sides[1]),
		Compared: report.Compared{
			Effect: t.Policy.Judge.Effect, ErrorRate: t.Policy.Judge.Error, Pairs: got.Pairs, Contrasts: []report.Contrast{},
			BudgetOver: got.Spent, Hopeless: got.Hopeless, Totals: t.Totals(), Devices: append([]string{}, t.Devices.Names()...),
			Warnings: append(append([]string{}, t.LaunchWarnings()...), got.Warnings...), Error: report.ErrorText(err),
		},
	}
	if got.ByClass {
		doc.Failure = report.NewFailure(cmp.Or(got.Sides[1].Failure, got.Sides[0].Failure))
	}
	for _, k := range got.Contrasts {
		doc.Contrasts = append(doc.Contrasts, reportContrast(k))
	}
	// A kernel that was only renamed is compared under both names, and is not missing.
	gone := slices.DeleteFunc(gone(t), func(name string) bool {
		return slices.ContainsFunc(got.Contrasts, func(k compare.Contrast) bool { return k.Was == name })
	})
	doc.Conclude(got.Why, goneWords(gone))
	return doc
}

// Side describes one candidate of a comparison and its launches.
func Side(t *Session, revision, commit string, s compare.Side) report.Candidate {
	c := NameCandidate(t, revision, commit)
	c.Launches, c.Counted, c.WarmUps, c.Failure = s.Launches, s.Counted, s.WarmUps, report.NewFailure(s.Failure)
	for _, l := range s.Left {
		c.LeftOut = append(c.LeftOut, report.Excluded{Why: l.Why, Launches: l.N})
	}
	for _, l := range s.Marked {
		c.Marked = append(c.Marked, report.Excluded{Why: l.Why, Launches: l.N})
	}
	return c
}

// reportContrast converts a contrast for a document, in which unknown numbers are null; here they are NaN.
func reportContrast(k compare.Contrast) report.Contrast {
	out := report.Contrast{
		Metric: k.Metric.Name, AllCases: k.All, Unit: k.Unit, Higher: k.Metric.Higher, Result: string(k.Answer), Pairs: k.Pairs,
		A: k.A, B: k.B, Ratio: estimate(k.Ratio), Bound: estimate(k.Bound),
		P: report.Number(k.P), Holm: report.Number(k.Adjusted), Doubt: report.Number(k.Doubt),
		Visible: report.Number(k.Smallest),
	}
	if k.Case != "" {
		out.Case = &k.Case
	}
	if k.Why != "" {
		out.Why = &k.Why
	}
	return out
}

// estimate is an interval in the form of a document.
func estimate(i compare.Interval) report.Estimate {
	return report.Estimate{Value: report.Number(i.Value), Low: report.Number(i.Low), High: report.Number(i.High)}
}
