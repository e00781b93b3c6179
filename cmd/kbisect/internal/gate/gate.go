// Package gate passes or fails a branch: it compares HEAD with its merge base, in one job on one device ([Run]). It
// chooses the base, honours accepted regressions, names the commit to blame, and writes the files that CI systems
// read ([Files]). The comparison itself is bisect/compare's and the rendering bisect/report's: this package must
// not judge numbers, and it must not read back a sentence that it wrote.
package gate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Kind is the kind under which the store keeps the session of a gate.
const Kind = "gate"

// request is what one gate is asked for, with the two commits that it compares. After readRequest only the acceptances
// in it change: they note which of them were used.
type request struct {
	into       string // the base branch, as the user, the CI or the repository names it
	base, head string // ids of the merge base and of HEAD
	pairs      int    // of launches, one of each commit; 0: as many as it takes
	bisect     bool   // search for the commit that introduced a regression
	reason     string // for accepting regressions; "": accept none
	tolerant   bool   // pass if the gate cannot tell
	accepted   *acceptances
	files      Files
	warnings   []string
}

// Options are what the command line and the CI say to a gate beyond what every command takes.
type Options struct {
	Base       string // branch that HEAD is to be merged into; "": as the CI says, or the default branch
	Bisect     bool   // find the commit of a regression
	Accept     string // the reason for accepting regressions
	Accepts    bool   // --accept was given, even with an empty reason
	CannotTell string // result where the gate cannot tell: fail or pass
	Files      Files
	Env        func(string) string // environment of the CI job
}

// Run compares HEAD with its merge base with the base branch, reports, and writes the files that were asked for. It
// also writes them for a gate that ends in an error, so that a CI shows why. words are the arguments, of which a
// gate takes none. A regression is an error too, without a text: errors carry the exit code, and code reads it from
// any error.
func Run(ctx context.Context, e session.Env, o Options, words []string, code func(error) int) error {
	written := false
	err := run(ctx, e, o, words, &written)
	if !written {
		o.Files.Fail(err, code(err), e.Display, e.Version)
	}
	return err
}

// run is Run; written says afterwards whether the files have been written.
func run(ctx context.Context, e session.Env, o Options, words []string, written *bool) error {
	if len(words) > 0 {
		return exit.Usagef("gate compares HEAD with its merge base and takes no revisions (got %q)\nhint: name the branch to merge into with --base REV, put a command after --, or compare any two revisions with kbisect compare A B", words)
	}
	var x request
	return session.Launch(ctx, e, Kind, func(repo *source.Repo) (p *policy.Policy, err error) {
		if x, p, err = readRequest(ctx, e.Request, o, repo); err != nil {
			return nil, err
		}
		// A nil policy ends [session.Launch] before it opens the store: the gate has its answer without a launch.
		why, err := x.idle(repo, p)
		if err != nil {
			return nil, err
		}
		if why != "" {
			*written = true
			return nil, x.pass(e, repo, p, why)
		}
		if ok, err := x.acceptMeasured(e, repo, p, written); ok || err != nil {
			return nil, err
		}
		p.Warnings = append(p.Warnings, x.warnings...)
		session.WarnUncommitted(ctx, repo, p, "HEAD")
		return p, nil
	}, func(t *session.Session) error { return gate(ctx, t, e, x, written) })
}

// readRequest checks the whole request before anything is written or launched, so that a typing error does not show
// only after an hour of launches. All its errors are the user's.
func readRequest(ctx context.Context, q *policy.Request, o Options, repo *source.Repo) (x request, p *policy.Policy, err error) {
	x = request{pairs: q.Pairs, bisect: o.Bisect, reason: strings.TrimSpace(o.Accept), files: o.Files}
	switch o.CannotTell {
	case "fail":
	case "pass":
		x.tolerant = true
	default:
		return x, nil, exit.Usagef("--cannot-tell %s: expected fail or pass", o.CannotTell)
	}
	if q.PairsSet && x.pairs < compare.MinPairs {
		return x, nil, exit.Usagef("--pairs %d: a gate needs at least %d", x.pairs, compare.MinPairs)
	}
	if err := x.checkAccept(o, repo); err != nil {
		return x, nil, err
	}
	if err := x.files.check(); err != nil {
		return x, nil, err
	}
	if p, err = policy.ForTrials(q, repo); err != nil {
		return x, nil, err
	}
	if err := p.ReadJudgement(q); err != nil {
		return x, nil, err
	}
	if err := x.chooseEnds(ctx, repo, o.Base, o.Env); err != nil {
		return x, nil, err
	}
	if x.accepted, err = readAccepted(repo, x.base, x.head); err != nil {
		return x, nil, err
	}
	x.warnings = append(x.warnings, x.accepted.warnings...)
	p.Good, p.Bad = x.base, x.head
	return x, p, policy.EndsOf(p, repo).Check(ctx)
}

// idle says why nothing needs to be launched: HEAD is the merge base, or both have the same inputs of build and run. It
// is "" if they differ. An error is the user's.
func (x *request) idle(repo *source.Repo, p *policy.Policy) (string, error) {
	if x.base == x.head {
		return fmt.Sprintf("no change: HEAD (%s) is its own merge base with %s", bisect.ShortID(x.head), x.into), nil
	}
	base, err := repo.Key(x.base, p.Paths)
	if err != nil {
		return "", exit.Usage(err)
	}
	head, err := repo.Key(x.head, p.Paths)
	if err != nil || base != head {
		return "", exit.Usage(err)
	}
	what := "the files"
	if len(p.Paths) > 0 {
		what = strings.Join(p.Paths, ", ")
	}
	return fmt.Sprintf("equal inputs: %s are the same at HEAD and at its merge base with %s", what, x.into), nil
}

// pass reports a gate that passes without a launch, and why.
func (x *request) pass(e session.Env, repo *source.Repo, p *policy.Policy, why string) error {
	t := &session.Session{Repo: repo, Policy: p, Display: e.Display}
	doc := report.Gate{
		Schema: report.GateSchema, Result: report.GatePass, Into: x.into, NotLaunched: &why,
		Base: session.NameCandidate(t, "merge base with "+x.into, x.base), Head: session.NameCandidate(t, "HEAD", x.head),
		Accepted: x.accepted.report(), Changed: []report.Place{},
		Compared: report.Compared{
			Effect: p.Judge.Effect, ErrorRate: p.Judge.Error, Contrasts: []report.Contrast{},
			Devices: []string{}, Warnings: append(append([]string{}, t.LaunchWarnings()...), x.warnings...),
		},
	}
	doc.Conclude("")
	return x.show(e, p, &doc)
}

// show writes and prints the document of a gate that launched nothing, and so has no session.
func (x *request) show(e session.Env, p *policy.Policy, doc *report.Gate) error {
	l := report.Ledger{Call: report.NewCall(os.Args, os.Args), Setup: report.Setup{Command: p.Plan.Run}}
	report.Complete(doc, l)
	return cmp.Or(x.files.write(doc, l, e.Display, e.Version), e.Output.Print(doc, l))
}

// experiment is the comparison that a gate rests on. It does not end with the first number that is worse: the others
// get as many pairs again, so that the gate names more than one regression.
func (x *request) experiment(p *policy.Policy, s bisect.Sampler) compare.Experiment {
	return compare.Experiment{
		A: bisect.Candidate{Commit: x.base}, B: bisect.Candidate{Commit: x.head}, Sampler: s, Metrics: p.Judge.Metrics, Effect: p.Judge.Effect, Error: p.Judge.Error, Fallback: p.Fallback(),
		Pairs: x.pairs, Seed: uint64(p.Seed), Every: true, Accepts: x.accepted.allows,
		Names: [2]string{"the merge base", "HEAD"},
	}
}

// gate launches both commits, decides, looks for the culprit and reports. It sets written before it writes, so that
// the error which carries the exit code of a regression does not make Run write the files again.
func gate(ctx context.Context, t *session.Session, e session.Env, x request, written *bool) error {
	t.Display.Ends = map[bisect.Purpose]string{bisect.EndGood: "base", bisect.EndBad: "HEAD"}
	run := x.experiment(t.Policy, t.Memory)
	run.Spent = t.Spent
	run.OnPair = func(n int, s []compare.Sofar) {
		if n <= 10 || n%5 == 0 || n == x.pairs {
			t.Display.Launched(n, x.pairs, session.PairLine(n, s, t.Policy.Judge.Error))
		}
	}
	got, err := run.Run(ctx)
	var culprit *report.GateCulprit
	var search *report.GateSearch
	// A command that cannot be run fails at HEAD as well as at the base; no commit is to blame for that.
	if err == nil && got.Answer == compare.Worse && session.NotFound(t, "") == nil {
		culprit, search = blame(ctx, t, x, got)
	}
	// Ended closes the pipelines, so that the search for the culprit has to come before it.
	result, userErr := t.Ended(ctx, err, "at HEAD or at its merge base")
	if userErr != nil {
		return userErr
	}
	doc := reportOf(t, x, got, cmp.Or(result, resultOf(got.Answer)), err)
	doc.Culprit, doc.Search = culprit, search
	if doc.Result == report.GateRegression && x.reason != "" {
		if err := accept(x, &doc); err != nil {
			return t.Fail(err)
		}
	}
	doc.ExitCode = x.exitCode(doc.Result)
	// The sentence depends on the result, which accept may have changed.
	doc.Conclude(why(got))
	if doc.Result == report.GateOpen && x.tolerant {
		doc.Warnings = append(doc.Warnings, "cannot tell; passed because of --cannot-tell pass")
	}
	*written = true
	l := t.LedgerOf()
	if doc.Culprit != nil {
		session.Picture(&l, t.Repo, t.Policy.Axis, nil, []string{doc.Culprit.Commit})
	}
	kept := x.files.write(&doc, l, t.Display, e.Version)
	return cmp.Or(t.Conclude(session.Conclusion{
		Result: doc.Result, Summary: doc.Verdict, Code: doc.ExitCode, Cause: err, Document: &doc, Ledger: &l, Show: func() error { return e.Output.Print(&doc, l) },
	}), kept)
}

// resultOf is the result of a gate for the answer of a comparison. An answer that it does not know is "cannot tell", so
// that no branch passes by mistake.
func resultOf(a compare.Answer) string {
	switch a {
	case compare.Worse:
		return report.GateRegression
	case compare.Better:
		return report.GateImprovement
	case compare.Alike:
		return report.GatePass
	case compare.Accepted:
		return report.GateAccepted
	}
	return report.GateOpen
}

// exitCode is the exit code for a result; --cannot-tell pass makes an open one 0.
func (x *request) exitCode(result string) int {
	if result == report.GateOpen && x.tolerant {
		return exit.OK
	}
	return session.ExitCode(result)
}

// why explains a result that rests on how launches ended rather than on numbers.
func why(c compare.Result) string {
	base, head := c.Sides[0], c.Sides[1]
	of := func(s compare.Side) string { return fmt.Sprintf("%d of %d launches", s.Failed, s.Launches) }
	switch {
	case !c.ByClass:
		return words.Printable(c.Why)
	case c.Answer == compare.Worse:
		return fmt.Sprintf("HEAD fails in %s, the merge base in %s: %s", of(head), of(base), head.Failure.Describe())
	case head.Failed > base.Failed && head.Failure.Class != bisect.Skip:
		return words.Printable(c.Why)
	case base.Failure != nil && head.Failure != nil:
		return fmt.Sprintf("HEAD fails in the same way as the merge base: %s", head.Failure.Describe())
	case base.Failure != nil:
		return "the merge base fails, so there is nothing to compare with: " + base.Failure.Describe()
	}
	return "HEAD cannot be tested: " + head.Failure.Describe()
}

// reportOf makes the gate's document from a comparison. result is that of the gate or, if the session ended early,
// of the session. The changed lines are listed only where a person will look for a cause.
func reportOf(t *session.Session, x request, got compare.Result, result string, err error) report.Gate {
	c := session.Comparison(t, session.Pair{Words: [2]string{"merge base with " + x.into, "HEAD"}, Sides: [2]bisect.Candidate{{Commit: x.base}, {Commit: x.head}}}, got, result, err)
	doc := report.Gate{
		Schema: report.GateSchema, Session: &c.Session, Result: result, Into: x.into, Base: c.A, Head: c.B,
		Accepted: x.accepted.report(), Changed: []report.Place{}, Compared: c.Compared,
	}
	for i := range doc.Contrasts {
		doc.Contrasts[i].Result = resultOf(compare.Answer(doc.Contrasts[i].Result))
	}
	if result == report.GateRegression || result == report.GateOpen {
		doc.Changed = changed(context.Background(), t, x.base, x.head)
	}
	return doc
}
