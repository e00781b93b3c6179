package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/doctor"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// noiseFlags are the options of doctor --noise.
func noiseFlags() []cli.Flag {
	return append(trialFlags(),
		&cli.BoolFlag{Name: "noise", Usage: "launch the good end again and again: how noisy is this machine, and what can be found on it", DisableDefaultText: true},
		&cli.StringFlag{Name: "good", Usage: "the revision `REV` to launch", Value: "HEAD"},
		&cli.IntFlag{Name: "launches", Usage: "launch it `N` times", Value: 30},
		&cli.StringFlag{Name: "save", Usage: "write the series to `FILE` as CSV: index, at_s, seconds_wall, metric, case, value"},
	)
}

func noiseAction(c *cli.Context, command []string) error {
	var save *os.File
	if path := c.String("save"); path != "" { // before an hour is spent on what cannot be kept
		var err error
		if save, err = os.Create(path); err != nil {
			return exit.Usagef("--save: %w", err)
		}
		defer save.Close()
	}
	return doctor.Noise(c.Context, envOf(c, command), c.String("good"), save)
}
