package main

import (
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
)

// compareCommand answers whether B is slower than A; session.Compare does the work. As for git diff, the older revision
// comes first: B is judged against A.
func compareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "compare two revisions: is B slower than A, and by how much",
		ArgsUsage: "A B [-- COMMAND ARGS]",
		Description: "Builds both revisions and launches them in turn (A B, B A, ...) on one device until it is clear for every\n" +
			"metric and case whether B is worse, better, or within the smallest change looked for. The answer rests\n" +
			"on exact rank tests of whole launches, and its error holds however many metrics and cases there are.\n" +
			"If one of them fails, that is the answer. A and B may be the same, to see how noisy the machine is.\n\n" +
			"Without -- COMMAND, kbisect.toml in the work tree says how to build and run.\n\n" +
			"Exit codes: 0 no regression, 1 B is worse, 2 usage, 3 cannot tell, 5 machine problem, 130 interrupted.",
		HideHelpCommand: true,
		Flags:           slices.Concat(trialFlags(), formatFlags(), judgeFlags()),
		Action:          launching(session.Compare),
	}
}

// measureCommand describes one revision and passes no verdict; session.Measure does the work. It has no options for
// effect and error, since one revision alone cannot be slower. Its launches are made one after the other, so drift of
// the machine is part of what it shows.
func measureCommand() *cli.Command {
	return &cli.Command{
		Name:      "measure",
		Usage:     "run one revision several times: phases, samples, device state",
		ArgsUsage: "[REV] [-- COMMAND ARGS]",
		Description: "Builds REV (default HEAD) and launches it, each launch a fresh process, and describes what they gave.\n" +
			"To say whether one revision is slower than another, use kbisect compare: it launches them in turn.\n\n" +
			"Without -- COMMAND, kbisect.toml in the work tree says how to build and run.\n\n" +
			"Exit codes: 0 every launch passed, 2 usage, 3 some launches failed (shown with their phases), 5 machine problem, 130 interrupted.",
		HideHelpCommand: true,
		Flags: append(append(trialFlags(), formatFlags()...),
			asFlag(),
			&cli.IntFlag{Name: "launches", Usage: "number of launches, `N`", Value: 5},
		),
		Action: launching(session.Measure),
	}
}
