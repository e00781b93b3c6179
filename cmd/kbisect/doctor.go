package main

import (
	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/doctor"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// doctorCommand prints what package doctor finds. It fails only for what this project needs: a missing compiler that
// nothing here uses is shown and is not an error. With --executor it submits a real job, which may wait in a queue, and
// so does that only when asked.
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
			// The findings name every problem, so the error adds only the exit code.
			if !check(c.Context, c.App.Writer, version(), globals(c).dir, globals(c).config) {
				return exit.With(exit.Machine, nil)
			}
			return nil
		},
	}
}
