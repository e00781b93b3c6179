package main

import (
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/doctor"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// noiseFlags are the options of doctor --noise, which launches here.
func noiseFlags() []cli.Flag {
	return append(slices.DeleteFunc(trialFlags(), func(f cli.Flag) bool { return f.Names()[0] == "executor" }),
		&cli.BoolFlag{Name: "noise", Usage: "measure how noisy this machine is, and what a search could find on it", DisableDefaultText: true},
		&cli.StringFlag{Name: "good", Usage: "the revision `REV` to launch", Value: "HEAD"},
		&cli.IntFlag{Name: "launches", Usage: "number of launches, `N`", Value: 30},
		&cli.StringFlag{Name: "save", Usage: "write the series to `FILE` as CSV: index, at_s, seconds_wall, metric, case, value"},
	)
}

// noiseAction launches one revision again and again.
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

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "check compilers, devices and configuration, and say what to fix", ArgsUsage: "[--executor | --noise [-- COMMAND ARGS]]",
		Description: "Looks at compilers, devices, caches, store and hooks; exit 5 when something is in the way.\n" +
			"--executor checks the scheduler of [executor] in kbisect.toml instead, by a job.\n" +
			"--noise launches one revision again and again instead, and says how much launches scatter, what is wrong\n" +
			"with the machine where something is, and how small a slowdown a search would find here at what price.",
		HideHelpCommand: true,
		Flags:           append(noiseFlags(), &cli.BoolFlag{Name: "executor", Usage: "check where trials run as jobs: the scheduler, the shared folder, a device", DisableDefaultText: true}),
		Action: func(c *cli.Context) error {
			words, command, err := operands(c)
			if err != nil {
				return err
			}
			if len(words) > 0 {
				return exit.Usagef("doctor takes no arguments, not %q", words)
			}
			if c.Bool("noise") {
				return noiseAction(c, command)
			}
			for _, f := range noiseFlags() {
				if name := f.Names()[0]; c.IsSet(name) {
					return exit.Usagef("--%s belongs to doctor --noise\nhint: kbisect doctor --help", name)
				}
			}
			if command != nil {
				return exit.Usagef("a command belongs to doctor --noise\nhint: kbisect doctor --noise -- COMMAND")
			}
			check := doctor.Run
			if c.Bool("executor") {
				check = doctor.Executor
			}
			if !check(c.Context, c.App.Writer, version(), globals(c).dir, globals(c).config) {
				return exit.With(exit.Machine, nil)
			}
			return nil
		},
	}
}
