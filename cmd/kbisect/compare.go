package main

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
	"github.com/kbisect/kbisect/pipeline/store"
)

// pair is two revisions as the command line asks for them, and what else it says.
type pair struct {
	words [2]string // A and B as they were named
	sides [2]bisect.Candidate
	pairs int // of a comparison
}

// compareRevisions launches two revisions in turn until it is clear whether the second is worse.
func compareRevisions(ctx context.Context, e env, words []string) error {
	return launchTwo(ctx, e, words, comparing, readCompare, compareTwo)
}

// launchTwo reads two revisions and begins the job for what is to be done with them. Everything is read
// before anything is made.
func launchTwo(ctx context.Context, e env, words []string, kind string, read func(*policy.Policy, *policy.Request, *pair) error, do func(context.Context, *Session, *policy.Request, pair) error) error {
	repo, err := source.Open(e.Request.Dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	x, p, err := readPair(ctx, e.Request, repo, words, read)
	if err != nil {
		return err
	}
	t, err := beginTrials(e, repo, p, kind)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.begin(ctx); err != nil {
		return err
	}
	return do(ctx, t, e.Request, x)
}

func readPair(ctx context.Context, q *policy.Request, repo *source.Repo, words []string, read func(*policy.Policy, *policy.Request, *pair) error) (x pair, p *policy.Policy, err error) {
	if len(words) != 2 {
		return x, nil, exit.Usagef("%s takes two revisions, A and B, not %d\nhint: kbisect %s HEAD^ HEAD, and a command follows --", q.Name, len(words), q.Name)
	}
	x.words = [2]string(words)
	if p, err = policy.ForTrials(q, repo); err != nil {
		return x, nil, err
	}
	for i, w := range words {
		if x.sides[i], err = p.Candidate(repo, w); err != nil {
			return x, nil, err
		}
	}
	if err := read(p, q, &x); err != nil {
		return x, nil, err
	}
	p.Good, p.Bad = x.sides[0].Commit, x.sides[1].Commit
	return x, p, policy.EndsOf(p, repo).Check(ctx)
}

func readCompare(p *policy.Policy, q *policy.Request, x *pair) error {
	if err := p.ReadJudgement(q); err != nil {
		return err
	}
	if x.pairs = q.Pairs; q.PairsSet && x.pairs < compare.MinPairs {
		return exit.Usagef("--pairs %d: a comparison needs %d at least\nhint: kbisect measure launches one revision as often as you like", x.pairs, compare.MinPairs)
	}
	return nil
}

// compareTwo launches, decides and reports.
func compareTwo(ctx context.Context, t *Session, _ *policy.Request, x pair) error {
	t.ui.Ends = map[bisect.Purpose]string{bisect.EndGood: "A", bisect.EndBad: "B"}
	run := compare.Experiment{
		A: x.sides[0], B: x.sides[1], Sampler: t.memory, Metrics: t.policy.Judge.Metrics, Effect: t.policy.Judge.Effect, Error: t.policy.Judge.Error, Fallback: t.policy.Fallback(),
		Pairs: x.pairs, Seed: uint64(t.policy.Seed), Spent: t.spent,
		OnPair: func(n int, s []compare.Sofar) {
			if n <= 10 || n%5 == 0 || n == x.pairs {
				t.ui.Launched(n, x.pairs, pairLine(n, s, t.policy.Judge.Error))
			}
		},
	}
	got, err := run.Run(ctx)
	result, mend := t.ended(ctx, err)
	if mend != nil {
		return mend
	}
	if mend := t.notFound("for A or for B"); mend != nil {
		return t.fail(mend)
	}
	if result == "" && onlyAFails(got) {
		a, b := got.Sides[0], got.Sides[1]
		got.Answer = compare.Better
		got.Why = fmt.Sprintf("A fails in %d of %d launches, B in none of %d: %s", a.Failed, a.Launches, b.Launches, a.Failure.Describe())
	}
	result = cmp.Or(result, string(got.Answer))
	doc := comparison(t, x, got, result, err)
	return t.conclude(result, doc.Verdict, compareCode(result), err, &doc, func() error { return t.report(&doc) })
}

// onlyAFails reports a comparison without numbers because A does not end well while B does: no regression
// for who compares two candidates. To a gate it is one that has no base.
func onlyAFails(c compare.Result) bool {
	a, b := c.Sides[0], c.Sides[1]
	return c.ByClass && c.Answer == compare.Open && a.Failure != nil && a.Failure.Class != bisect.Skip && b.Failed == 0 && b.Launches > 0
}

// compareCode is the exit code of a comparison.
func compareCode(result string) int {
	switch result {
	case string(compare.Better), string(compare.Alike):
		return exit.OK
	case string(compare.Worse):
		return exit.Regression
	case store.Interrupted:
		return exit.Interrupted
	case store.Infra:
		return exit.Machine
	}
	return exit.Inconclusive
}

// pairLine is one line of progress: the clearest of what is known, with the interval that the answer will rest on.
func pairLine(n int, all []compare.Sofar, errorRate float64) string {
	line := fmt.Sprintf("pair %-3d", n)
	if len(all) == 0 {
		return line + " no number to compare yet"
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

// comparison puts a comparison into the terms of its report.
func comparison(t *Session, x pair, got compare.Result, result string, err error) report.Comparison {
	doc := report.Comparison{
		Schema: report.ComparisonSchema, Session: t.record.ID, Result: result, SameCommit: x.sides[0] == x.sides[1],
		A: side(t, x.words[0], x.sides[0].Commit, got.Sides[0]), B: side(t, x.words[1], x.sides[1].Commit, got.Sides[1]),
		Effect: t.policy.Judge.Effect, ErrorRate: t.policy.Judge.Error, Pairs: got.Pairs, Contrasts: []report.Contrast{},
		BudgetOver: got.Spent, Hopeless: got.Hopeless, Totals: t.totals(), Devices: append([]string{}, t.gpus.names()...),
		Warnings: append(append([]string{}, t.launchWarnings()...), got.Warnings...),
	}
	if err != nil {
		text := err.Error()
		doc.Error = &text
	}
	if got.ByClass {
		doc.Failure = report.NewFailure(cmp.Or(got.Sides[1].Failure, got.Sides[0].Failure))
	}
	for _, k := range got.Contrasts {
		doc.Contrasts = append(doc.Contrasts, reportContrast(k))
	}
	gone := slices.DeleteFunc(gone(t), func(name string) bool {
		return slices.ContainsFunc(got.Contrasts, func(k compare.Contrast) bool { return k.Was == name })
	})
	doc.Verdict = doc.Sentence(got.Why) + goneWords(gone)
	return doc
}

// side names one candidate of a comparison, with its launches.
func side(t *Session, revision, commit string, s compare.Side) report.Candidate {
	c := candidateOf(t, revision, commit)
	c.Launches, c.Counted, c.WarmUps, c.Failure = s.Launches, s.Counted, s.WarmUps, report.NewFailure(s.Failure)
	for _, l := range s.Left {
		c.LeftOut = append(c.LeftOut, report.Excluded{Why: l.Why, Launches: l.N})
	}
	for _, l := range s.Marked {
		c.Marked = append(c.Marked, report.Excluded{Why: l.Why, Launches: l.N})
	}
	return c
}

func reportContrast(k compare.Contrast) report.Contrast {
	out := report.Contrast{
		Metric: k.Metric.Name, AllCases: k.All, Unit: k.Unit, Higher: k.Metric.Higher, Result: string(k.Answer), Pairs: k.Pairs,
		A: reportSummary(k.A), B: reportSummary(k.B), Ratio: estimate(k.Ratio), Shift: estimate(k.Shift), Bound: estimate(k.Bound),
		Cliff: report.Number(k.Cliff), P: report.Number(k.P), Holm: report.Number(k.Adjusted), Doubt: report.Number(k.Doubt),
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

func reportSummary(d compare.Description) report.Summary {
	n := func(v float64) report.Number { return report.Number(v) }
	return report.Summary{N: d.N, Median: n(d.Median), Low: n(d.Low), High: n(d.High), Min: n(d.Min), Max: n(d.Max), Q1: n(d.Q1), Q3: n(d.Q3), Spread: n(d.Spread)}
}

func estimate(i compare.Interval) report.Estimate {
	return report.Estimate{Value: report.Number(i.Value), Low: report.Number(i.Low), High: report.Number(i.High)}
}
