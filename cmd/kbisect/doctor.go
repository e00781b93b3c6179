package main

import (
	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/doctor"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// doctorCommand prints what package doctor finds. Only what this project needs makes it fail.
func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "check compilers, devices and configuration, and say what to fix", ArgsUsage: "[--executor]",
		Description: "Looks at compilers, devices, caches, store and hooks; exit 5 when something is in the way.\n" +
			"--executor checks the scheduler of [executor] in kbisect.toml instead, by a job.",
		HideHelpCommand: true,
		Flags:           []cli.Flag{&cli.BoolFlag{Name: "executor", Usage: "check where trials run as jobs: the scheduler, the shared folder, a device", DisableDefaultText: true}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Usagef("doctor takes no arguments, not %q", c.Args().Slice())
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
