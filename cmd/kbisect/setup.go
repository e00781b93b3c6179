package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "write a commented kbisect.toml for the kind of project found here", OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			path, kind, err := writeConfig(globals(c).dir)
			if err != nil {
				return usage(err)
			}
			fmt.Fprintf(c.App.Writer, "%s written for a project of kind %s\nNext: read it, then kbisect run --good REV\n", path, kind)
			return nil
		},
	}
}

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "what works on this machine, what does not, and what to do about it", OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if !doctor(c.Context, c.App.Writer, globals(c).dir) {
				return &codeError{code: exitMachine}
			}
			return nil
		},
	}
}
