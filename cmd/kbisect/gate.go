package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/render"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/source"
)

// gatekeeping is the kind of a gate's session.
const gatekeeping = "gate"

func gateCommand() *cli.Command {
	return &cli.Command{
		Name:      "gate",
		Usage:     "let a branch pass, or not: HEAD against its merge base with the branch that it goes into",
		ArgsUsage: "[-- COMMAND ARGS]",
		Description: "Builds HEAD and its merge base with --base and launches them in turn on one device, in one job, until\n" +
			"it is clear for every metric and case whether HEAD is worse: no number of another day or machine can\n" +
			"fail a build. The error holds for all numbers together. Where inputs are equal nothing is launched.\n\n" +
			"Without --base: the target branch that GITHUB_BASE_REF or CI_MERGE_REQUEST_TARGET_BRANCH_NAME names,\n" +
			"else origin/HEAD, origin/main, origin/master, main, master. Without -- COMMAND, kbisect.toml in the\n" +
			"work tree says how to build and run.\n\n" +
			"--accept REASON records what is worse in " + config.AcceptedName + ", to be committed with the change; it lets this\n" +
			"branch pass, up to the limit written there, and no later one.\n\n" +
			"Where GITHUB_ACTIONS is set: a step summary, one annotation, and the outputs result, ratio and culprit.\n\n" +
			"Exit codes: 0 pass, 1 regression, 2 usage, 3 cannot tell, 5 machine trouble, 130 interrupted.",
		OnUsageError:    usageError,
		HideHelpCommand: true,
		Flags: append(append(trialFlags(), formatFlags()...),
			&cli.StringFlag{Name: "base", Usage: "the branch, `REV`, that HEAD goes into", DefaultText: "as said above"},
			&cli.StringFlag{Name: "effect", Usage: "smallest change worth finding, `SHARE`, such as 1%", DefaultText: "kbisect.toml, else 3%"},
			&cli.Float64Flag{Name: "error", Usage: "chance `P` that the answer is wrong", DefaultText: "kbisect.toml, else 0.01"},
			&cli.IntFlag{Name: "pairs", Usage: "exactly `N` pairs of launches", DefaultText: "as many as it takes"},
			&cli.BoolFlag{Name: "bisect", Usage: "on a regression go on and find the commit of the branch", DisableDefaultText: true},
			&cli.StringFlag{Name: "accept", Usage: "record what is worse as known, with the `REASON`"},
			&cli.StringFlag{Name: "cannot-tell", Usage: "`fail` (exit 3) or pass (exit 0, and said) where nothing can be told", Value: "fail"},
			&cli.StringFlag{Name: "junit", Usage: "write a JUnit report to `FILE`"},
			&cli.StringFlag{Name: "sarif", Usage: "write a SARIF log to `FILE`"},
			&cli.StringFlag{Name: "benchmark", Usage: "write HEAD's numbers to `FILE` for github-action-benchmark"},
		),
		Action: gateAction,
	}
}

// gating is what the command line asks of a gate.
type gating struct {
	into       string // the branch as it was named
	base, head string
	pairs      int
	bisect     bool
	reason     string // for accepting what is worse
	tolerant   bool   // a gate that cannot tell lets pass
	accepted   *acceptances
	files      gateFiles
	warnings   []string
}

func gateAction(c *cli.Context) error {
	words, command, err := operands(c)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return exit.Usagef("gate takes no revisions, not %q: it is about HEAD\nhint: --base REV names the branch that HEAD goes into, and a command follows --; kbisect compare A B takes any two", words)
	}
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	x, p, err := readGate(c, repo, command)
	if err != nil {
		return err
	}
	if why, err := x.idle(repo, p); err != nil || why != "" {
		return x.pass(c, repo, p, why, err)
	}
	t, err := beginTrials(c, repo, p, gatekeeping)
	if err != nil {
		return err
	}
	defer t.close()
	t.policy.Warnings = append(t.policy.Warnings, x.warnings...)
	t.tellDirty(c.Context, "HEAD")
	if err := t.begin(c.Context); err != nil {
		return err
	}
	return t.gate(c, x)
}

// readGate reads the request before anything is made.
func readGate(c *cli.Context, repo *source.Repo, command []string) (x gating, p *policy.Policy, err error) {
	x = gating{pairs: c.Int("pairs"), bisect: c.Bool("bisect"), reason: strings.TrimSpace(c.String("accept")), files: readGateFiles(c, os.Getenv)}
	switch c.String("cannot-tell") {
	case "fail":
	case "pass":
		x.tolerant = true
	default:
		return x, nil, exit.Usagef("--cannot-tell %s: fail or pass is meant", c.String("cannot-tell"))
	}
	if c.IsSet("pairs") && x.pairs < compare.MinPairs {
		return x, nil, exit.Usagef("--pairs %d: a gate needs %d at least", x.pairs, compare.MinPairs)
	}
	if err := x.checkAccept(c, repo, os.Getenv); err != nil {
		return x, nil, err
	}
	if err := x.files.check(); err != nil {
		return x, nil, err
	}
	if p, err = policy.ForTrials(trialRequest(c, command), repo); err != nil {
		return x, nil, err
	}
	if err := p.ReadJudgement(requestOf(c)); err != nil {
		return x, nil, err
	}
	if err := x.chooseEnds(repo, c.String("base"), os.Getenv); err != nil {
		return x, nil, err
	}
	if x.accepted, err = readAccepted(repo, x.base, x.head); err != nil {
		return x, nil, err
	}
	x.warnings = append(x.warnings, x.accepted.warnings...)
	p.Good, p.Bad = x.base, x.head
	return x, p, policy.EndsOf(p, repo).Check(c.Context)
}

// idle says why nothing has to be launched, or nothing.
func (x *gating) idle(repo *source.Repo, p *policy.Policy) (string, error) {
	if x.base == x.head {
		return fmt.Sprintf("nothing to gate: HEAD (%s) is its own merge base with %s, there is no change", wording.Short(x.head), x.into), nil
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

// pass reports a gate that launches nothing; an error comes back as it is.
func (x *gating) pass(c *cli.Context, repo *source.Repo, p *policy.Policy, why string, err error) error {
	if err != nil {
		return err
	}
	t := &trials{job: &job{repo: repo, policy: p, ui: newDisplay(c)}}
	doc := report.Gate{
		Schema: report.GateSchema, Result: report.GatePass, Into: x.into, NotLaunched: &why, Effect: p.Judge.Effect, ErrorRate: p.Judge.Error,
		Base: t.candidate("merge base with "+x.into, x.base), Head: t.candidate("HEAD", x.head), Contrasts: []report.Contrast{},
		Accepted: x.accepted.report(), Changed: []report.Place{}, Devices: []string{}, Warnings: append(append([]string{}, t.warnings()...), x.warnings...),
	}
	doc.Verdict = doc.Sentence("")
	return cmp.Or(x.files.write(&doc, report.Ledger{}, t.ui), x.print(c, &doc, report.Ledger{}))
}

// print writes the result to standard output.
func (x *gating) print(c *cli.Context, doc *report.Gate, l report.Ledger) error {
	return printResult(c.App.Writer, c.Bool("json"), doc, l, render.Terminal{Colour: coloured(c.App.Writer, os.Getenv)})
}

// comparison is the comparison that a gate rests on.
func (x *gating) comparison(p *policy.Policy, s bisect.Sampler) compare.Experiment {
	return compare.Experiment{
		A: bisect.Candidate{Commit: x.base}, B: bisect.Candidate{Commit: x.head}, Sampler: s, Metrics: p.Judge.Metrics, Effect: p.Judge.Effect, Error: p.Judge.Error, Fallback: p.Fallback(),
		Pairs: x.pairs, Seed: uint64(p.Seed), Every: true, Accepts: x.accepted.lets,
		Names: [2]string{"the merge base", "HEAD"},
	}
}

// gate launches, decides, looks for the culprit and reports.
func (t *trials) gate(c *cli.Context, x gating) error {
	t.ui.Ends = map[bisect.Purpose]string{bisect.EndGood: "base", bisect.EndBad: "HEAD"}
	run := x.comparison(t.policy, t.memory)
	run.Spent = t.spent
	run.OnPair = func(n int, s []compare.Sofar) {
		if n <= 10 || n%5 == 0 || n == x.pairs {
			t.ui.Launched(n, x.pairs, pairLine(n, s, t.policy.Judge.Error))
		}
	}
	got, err := run.Run(c.Context)
	var culprit *report.GateCulprit
	var search *report.GateSearch
	if err == nil && got.Answer == compare.Worse && t.notFound("") == nil {
		culprit, search = t.blame(c.Context, x, got)
	}
	result, mend := t.ended(c.Context, err)
	if mend != nil {
		return mend
	}
	if mend := t.notFound("at HEAD or at its merge base"); mend != nil {
		return t.fail(mend)
	}
	doc := t.gateReport(x, got, cmp.Or(result, gateResult(got.Answer)), err)
	doc.Culprit, doc.Search = culprit, search
	if doc.Result == report.GateRegression && x.reason != "" {
		if err := t.accept(x, got, &doc); err != nil {
			return t.fail(err)
		}
	}
	doc.ExitCode = x.exitCode(doc.Result)
	doc.Verdict = doc.Sentence(gateWhy(got))
	if doc.Result == report.GateOpen && x.tolerant {
		doc.Warnings = append(doc.Warnings, "this gate cannot tell and lets pass, as --cannot-tell pass asks")
	}
	kept := x.files.write(&doc, t.ledgerOf(), t.ui)
	return cmp.Or(t.conclude(doc.Result, doc.Verdict, doc.ExitCode, err, &doc, func() error { return x.print(c, &doc, t.ledgerOf()) }), kept)
}

// gateResult puts an answer into the words of a gate.
func gateResult(a compare.Answer) string {
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

// exitCode is the exit code of a gate.
func (x *gating) exitCode(result string) int {
	switch {
	case result == report.GateOpen && x.tolerant, result == report.GatePass, result == report.GateImprovement:
		return exit.OK
	case result == report.GateRegression:
		return exit.Regression
	}
	return compareCode(result)
}

// gateWhy says why a gate came to a result that rests on no number.
func gateWhy(c compare.Result) string {
	base, head := c.Sides[0], c.Sides[1]
	of := func(s compare.Side) string { return fmt.Sprintf("%d of %d launches", s.Failed, s.Launches) }
	switch {
	case !c.ByClass:
		return wording.Clean(c.Why)
	case c.Answer == compare.Worse:
		return fmt.Sprintf("HEAD fails in %s, the merge base in %s: %s", of(head), of(base), head.Failure.Describe())
	case head.Failed > base.Failed && head.Failure.Class != bisect.Skip:
		return wording.Clean(c.Why)
	case base.Failure != nil && head.Failure != nil:
		return fmt.Sprintf("HEAD fails as the merge base does: %s", head.Failure.Describe())
	case base.Failure != nil:
		return "the merge base fails, so that there is nothing to compare with: " + base.Failure.Describe()
	}
	return "HEAD cannot be tested: " + head.Failure.Describe()
}

// gateReport puts a comparison into the terms of a gate's report.
func (t *trials) gateReport(x gating, got compare.Result, result string, err error) report.Gate {
	c := t.comparison(pair{words: [2]string{"merge base with " + x.into, "HEAD"}, sides: [2]bisect.Candidate{{Commit: x.base}, {Commit: x.head}}}, got, result, err)
	doc := report.Gate{
		Schema: report.GateSchema, Session: &c.Session, Result: result, Into: x.into, Base: c.A, Head: c.B, Failure: c.Failure,
		Effect: c.Effect, ErrorRate: c.ErrorRate, Pairs: c.Pairs, Contrasts: c.Contrasts, Accepted: x.accepted.report(), Changed: []report.Place{},
		BudgetOver: c.BudgetOver, Hopeless: c.Hopeless, Totals: c.Totals, Devices: c.Devices, Warnings: c.Warnings, Error: c.Error,
	}
	for i := range doc.Contrasts {
		doc.Contrasts[i].Result = gateResult(compare.Answer(doc.Contrasts[i].Result))
	}
	if result == report.GateRegression || result == report.GateOpen {
		doc.Changed = t.changed(context.Background(), x.base, x.head)
	}
	return doc
}
