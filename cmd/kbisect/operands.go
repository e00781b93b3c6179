package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// operands reads the arguments of a command with SkipFlagParsing: options may stand anywhere before --,
// and what follows it is a command to run, nil where there is no --.
func operands(c *cli.Context) (words, command []string, err error) {
	rest := c.Args().Slice()
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		switch {
		case word == "--":
			if len(rest) == 0 {
				return nil, nil, usagef("there is no command after --")
			}
			return words, rest, nil
		case word == "--help", word == "-h":
			return nil, nil, errHelp
		case len(word) < 2 || word[0] != '-':
			words = append(words, word)
		default:
			if rest, err = setOption(c, word, rest); err != nil {
				return nil, nil, usageError(c, err, true)
			}
		}
	}
	return words, nil, nil
}

// errHelp says that help was asked for.
var errHelp = fmt.Errorf("help was asked for")

// helped shows the help of a command where that was asked for.
func helped(c *cli.Context, err error) error {
	if err == errHelp {
		return cli.ShowCommandHelp(c.Lineage()[1], c.Command.Name) // of the command above, or the program
	}
	return err
}

// setOption sets one option of a command, and returns what is left when it has taken its value.
func setOption(c *cli.Context, word string, rest []string) ([]string, error) {
	name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
	i := slices.IndexFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil, fmt.Errorf("flag provided but not defined: -%s", name)
	}
	_, isBool := c.Command.Flags[i].(*cli.BoolFlag)
	switch {
	case given:
	case isBool:
		value = "true"
	case len(rest) == 0:
		return nil, fmt.Errorf("flag needs an argument: -%s", name)
	default:
		value, rest = rest[0], rest[1:]
	}
	if err := c.Set(name, value); err != nil {
		return nil, fmt.Errorf("invalid value %q for flag -%s: %w", value, name, err)
	}
	return rest, nil
}
