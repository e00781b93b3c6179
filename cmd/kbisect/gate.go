package main

import (
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/gate"
)

// gateCommand compares HEAD with its merge base, for CI; package gate does the work. A gate that cannot begin still
// writes the files that were asked for, see toldError.
func gateCommand() *cli.Command {
	return &cli.Command{
		Name:      "gate",
		Usage:     "pass or fail a branch on performance: HEAD against its merge base",
		ArgsUsage: "[-- COMMAND ARGS]",
		Description: "Builds HEAD and its merge base with --base and launches them in turn on one device, in one job, until\n" +
			"it is clear for every metric and case whether HEAD is worse: numbers from another day or machine cannot\n" +
			"fail a build. The error rate holds for all numbers together. If the inputs are equal, nothing is launched.\n\n" +
			"Without --base: the target branch that GITHUB_BASE_REF or CI_MERGE_REQUEST_TARGET_BRANCH_NAME names,\n" +
			"else origin/HEAD, origin/main, origin/master, main, master. Without -- COMMAND, kbisect.toml in the\n" +
			"work tree says how to build and run.\n\n" +
			"--accept REASON records what the last gate of HEAD found worse, or measures it where there was none, in\n" +
			config.AcceptedName + ", to be committed with the change; it lets this branch pass, up to the limit written\n" +
			"there (the upper end of the interval), and no later one.\n\n" +
			"Where GITHUB_ACTIONS is set: a step summary, one annotation, and the outputs result (error where the gate ends in 2 or 5), ratio and culprit.\n\n" +
			"Exit codes: 0 pass, 1 regression, 2 usage, 3 cannot tell, 5 machine problem, 130 interrupted.",
		OnUsageError:    func(c *cli.Context, err error, sub bool) error { return toldError(c, usageError(c, err, sub)) },
		HideHelpCommand: true,
		Flags: append(slices.Concat(trialFlags(), formatFlags(), judgeFlags()),
			&cli.StringFlag{Name: "base", Usage: "the target branch, `REV`", DefaultText: "see above"},
			&cli.BoolFlag{Name: "bisect", Usage: "if there is a regression, find the commit", DisableDefaultText: true},
			&cli.StringFlag{Name: "accept", Usage: "accept the regression and record it with a `REASON`"},
			&cli.StringFlag{Name: "cannot-tell", Usage: "if there is no verdict, `fail` (exit 3) or pass (exit 0, with a warning)", Value: "fail"},
			&cli.StringFlag{Name: "junit", Usage: "write a JUnit report to `FILE`"},
			&cli.StringFlag{Name: "sarif", Usage: "write a SARIF log to `FILE`"},
		),
		Action: gateAction,
	}
}

// toldError writes the files of a CI job for a gate that cannot begin, such as one with a mistyped option, and returns
// err: a job without a JUnit file looks as if it had passed.
func toldError(c *cli.Context, err error) error {
	readGateFiles(c).Fail(err, exitCode(c.Context, err), newDisplay(c), version())
	return err
}

// gateAction reads the options that only a gate has. Package gate is given exitCode because its files name the exit
// code, which only this package can tell from an error. A mistake in the words before -- also writes these files.
func gateAction(c *cli.Context) error {
	words, command, err := operands(c)
	if err != nil {
		return toldError(c, err)
	}
	e := envOf(c, command)
	return gate.Run(c.Context, e, gate.Options{
		Base: c.String("base"), Bisect: c.Bool("bisect"), Accept: c.String("accept"), Accepts: c.IsSet("accept"), CannotTell: c.String("cannot-tell"),
		Files: readGateFiles(c), Env: os.Getenv,
	}, words, func(err error) int { return exitCode(c.Context, err) })
}

// readGateFiles are the files that the user asked for, and those that a GitHub job names in its environment.
func readGateFiles(c *cli.Context) gate.Files {
	f := gate.Files{JUnit: c.String("junit"), Markdown: c.String("markdown"), HTML: c.String("report"), SARIF: c.String("sarif")}
	if v := os.Getenv("GITHUB_ACTIONS"); v != "" && v != "false" {
		f.GitHub, f.Summary, f.Outputs = true, os.Getenv("GITHUB_STEP_SUMMARY"), os.Getenv("GITHUB_OUTPUT")
	}
	return f
}
