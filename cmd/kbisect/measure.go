package main

import (
	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
)

func measureCommand() *cli.Command {
	return &cli.Command{
		Name:      "measure",
		Usage:     "run one revision several times: phases, samples, device state",
		ArgsUsage: "[REV] [-- COMMAND ARGS]",
		Description: "Builds REV (default HEAD) and launches it, each launch a fresh process, and describes what they gave.\n" +
			"To say whether one revision is slower than another, use kbisect compare: it launches them in turn.\n\n" +
			"Without -- COMMAND, kbisect.toml in the work tree says how to build and run.\n\n" +
			"Exit codes: 0 every launch ended well, 2 usage, 3 some launches failed (shown with their phases), 5 machine problem, 130 interrupted.",
		HideHelpCommand: true,
		Flags: append(append(trialFlags(), formatFlags()...),
			asFlag(),
			&cli.IntFlag{Name: "launches", Usage: "number of launches, `N`", Value: 5},
		),
		Action: launching(session.Measure),
	}
}
