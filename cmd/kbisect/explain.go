package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
)

// explainCommand shows how two revisions differ; package explain does the work. It does not decide which one is worse,
// so it has none of the options of a comparison. Its launches are few: they show what happens in a launch, and not how
// much its time varies.
func explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "show why B differs from A: phases, kernels, registers, machine code, profiles",
		ArgsUsage: "A B [-- COMMAND ARGS]",
		Description: "Builds both revisions, launches each several times, reads the device code that was built, and runs each once\n" +
			"more under the profilers that this machine has and allows: torch.profiler for Python programs, Nsight\n" +
			"Compute (ncu) for all. The two or three figures that changed most come first, then one table of A against B.\n" +
			"What could not be examined is listed with the reason. Use kbisect compare to see whether B is slower.\n\n" +
			"Without -- COMMAND, kbisect.toml in the work tree says how to build and run.\n\n" +
			"Exit codes: 0 explained, 2 usage, 3 neither revision could be examined, 5 machine problem, 130 interrupted.",
		HideHelpCommand: true,
		Flags: append(append(append(trialFlags(), formatFlags()...), explainLimitFlag(explain.Limit)),
			&cli.IntFlag{Name: "launches", Usage: "number of launches of each, `N`", Value: 3},
			&cli.BoolFlag{Name: "no-profile", Usage: "do not run profilers", DisableDefaultText: true},
		),
		Action: launching(explain.Compare),
	}
}

// explainLimitFlag is shared by explain, which was asked to profile, and by run, which profiles the culprit on its own
// account and so has a shorter default. usual is the default that the help shows.
func explainLimitFlag(usual time.Duration) cli.Flag {
	return durationFlag("explain-limit", "limit of all profiled launches together, `DURATION`", usual.String())
}
