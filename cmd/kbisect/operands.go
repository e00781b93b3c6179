package main

import (
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// operands divides what follows the options of a command at the user's --: what comes behind it is a
// command to run, nil where there is no --.
func operands(c *cli.Context) (words, command []string, err error) {
	all := c.Args().Slice()
	i := slices.Index(all, "--")
	switch {
	case i < 0:
		return all, nil, nil
	case i == len(all)-1:
		return nil, nil, exit.Usagef("there is no command after --")
	}
	return all[:i], all[i+1:], nil
}
