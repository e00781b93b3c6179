package main

import (
	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/preview"
)

// tryCommand looks at both ends before a search; package preview does the work. It takes the ends as options, as run
// does: the same command line with run instead of try begins the search. Words before -- are refused, because they
// would most likely be revisions.
func tryCommand() *cli.Command {
	return &cli.Command{
		Name: "try", Usage: "run both ends of a search once: what is read, how noisy, what a search would cost", ArgsUsage: "[-- COMMAND ARGS]",
		Description: "Builds and launches the good and the bad revision, three times each where their times matter, and shows what\n" +
			"was understood of them (metric, unit, direction, cases, phases, limits), how small a change the noise lets a\n" +
			"search find, and what that search would cost. Without a good revision, only the bad one is launched.\n\n" +
			"Without -- COMMAND, kbisect.toml in the work tree says how to build and run.\n\n" +
			"Exit codes: 0 there is something to search for, 2 usage or configuration, 4 the revisions do not differ, 5 machine\n" +
			"problem, 130 interrupted.",
		HideHelpCommand: true,
		Flags: append(trialFlags(),
			&cli.StringFlag{Name: "good", Usage: "a good revision, `REV` (default: the newest recorded good ancestor)"},
			&cli.StringFlag{Name: "bad", Usage: "a bad revision, `REV`", Value: "HEAD"},
			&cli.StringFlag{Name: "find", Usage: "what is searched for, `CLASS`: slow, timeout, wrong, crash, build or any (default: what the bad revision shows)"},
			&cli.BoolFlag{Name: "first-parent", Usage: "follow only the first parent of merges", DisableDefaultText: true},
			asFlag(),
			&cli.BoolFlag{Name: "json", Usage: "the result as JSON on standard output", DisableDefaultText: true},
		),
		Action: func(c *cli.Context) error {
			words, command, err := operands(c)
			if err != nil {
				return err
			}
			if len(words) > 0 {
				return exit.Usagef("try takes its revisions by --good and --bad, not %q\nhint: kbisect try --good REV -- COMMAND", words)
			}
			return preview.Run(c.Context, envOf(c, command), c.Bool("json"))
		},
	}
}
