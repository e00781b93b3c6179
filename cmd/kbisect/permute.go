package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// permute puts the options of a command before its operands, as the library wants them, so that they may
// stand anywhere before "--". What the library does not know it is left to complain about. It takes the
// first "--" away, which therefore comes before the operands; [operands] finds the user's.
func permute(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	at, commands, flags := 1, app.Commands, app.Flags
	var command *cli.Command
	for at < len(args) {
		if n := optionWords(flags, args[at:]); n > 0 {
			at += n
			continue
		}
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[at]) })
		if i < 0 {
			break
		}
		command = commands[i]
		commands, flags = command.Subcommands, command.Flags
		at++
	}
	if command == nil || command.SkipFlagParsing || command.Name == "run" {
		return args
	}
	var options, operands []string
	rest := args[at:]
	for len(rest) > 0 && rest[0] != "--" {
		n := optionWords(flags, rest)
		if n == 0 {
			operands, rest = append(operands, rest[0]), rest[1:]
			continue
		}
		options, rest = append(options, rest[:n]...), rest[n:]
	}
	if len(operands)+len(rest) > 0 {
		options = append(options, "--")
	}
	return slices.Concat(args[:at], options, operands, rest)
}

// optionWords is how many words an option takes at the beginning of a list; 0 where there is none.
func optionWords(flags []cli.Flag, list []string) int {
	word := list[0]
	if len(word) < 2 || word[0] != '-' || word == "--" {
		return 0
	}
	name, _, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if given || i < 0 {
		return 1
	}
	if _, isBool := flags[i].(*cli.BoolFlag); isBool || len(list) == 1 {
		return 1
	}
	return 2
}
