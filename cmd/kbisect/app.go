package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// versionCommand prints what --version does, because the word is what people try first.
func versionCommand() *cli.Command {
	return &cli.Command{Name: "version", Usage: "print the version", Action: func(c *cli.Context) error {
		_, err := fmt.Fprintf(c.App.Writer, "kbisect %s\n", version())
		return err
	}}
}

// globalFlags are the options that may stand before the command or after it. For that, each command has them as well,
// hidden from its help; see globals for how the two are merged. Every call returns new flags, because the library
// stores what it has parsed in them.
func globalFlags(hidden bool) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "C", Usage: "work in the repository at `DIR`", Value: ".", Hidden: hidden},
		&cli.StringFlag{Name: "config", Usage: "read `FILE` instead of the repository's kbisect.toml", Hidden: hidden},
		&cli.BoolFlag{Name: "verbose", Usage: "log each step, and print all that is known of the answer", DisableDefaultText: true, Hidden: hidden},
		&cli.GenericFlag{Name: "color", Usage: "use colours: `WHEN` is auto, always or never", Value: new(colour), DefaultText: "auto: on a terminal, unless NO_COLOR is set", Hidden: hidden},
		&cli.BoolFlag{Name: "quiet", Usage: "print only the result and errors", DisableDefaultText: true, Hidden: hidden},
	}
}

// group is the heading under which the help lists a command; "" for commands that belong under none, such as help,
// man and version.
func group(command string) string {
	switch command {
	case "run", "try", "demo", "explain":
		return "Find"
	case "compare", "gate", "measure", "baseline", "hook":
		return "Compare and gate"
	case "show", "report", "sessions", "history":
		return "Look"
	case "init", "doctor", "cache", "completion", "simulate":
		return "Set up"
	}
	return ""
}

// everywhere gives each command its heading, the global options, and our wording for mistakes. A command that already
// has its own OnUsageError keeps it: gate must also write its CI files. It changes the commands and returns them.
func everywhere(commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category = group(c.Name)
		if c.OnUsageError == nil {
			c.OnUsageError = usageError
		}
		c.Flags = append(c.Flags, globalFlags(true)...)
	}
	return commands
}

// global are the values of the global options. dir is "." without -C, and config is "" without --config: each command
// then looks for kbisect.toml at the top of the work tree.
type global struct {
	dir, config    string
	verbose, quiet bool
	colour         colour
}

// globals reads the global options wherever they were given. If the same option stands before and after the command,
// the innermost one, which is the later one, wins. The two switches, verbose and quiet, count wherever they stand.
func globals(c *cli.Context) global {
	g := global{dir: "."}
	// Lineage begins with the innermost context; going backward lets the innermost overwrite the others.
	for _, ctx := range slices.Backward(c.Lineage()) {
		if ctx.IsSet("C") {
			g.dir = ctx.String("C")
		}
		if ctx.IsSet("config") {
			g.config = ctx.String("config")
		}
		if v, ok := ctx.Generic("color").(*colour); ok && ctx.IsSet("color") {
			g.colour = *v
		}
		g.verbose = g.verbose || ctx.Bool("verbose")
		g.quiet = g.quiet || ctx.Bool("quiet")
	}
	return g
}

// names are those of commands that the help lists.
func names(visible []*cli.Command) (out []string) {
	for _, c := range visible {
		out = append(out, c.Name)
	}
	return out
}

// usageError makes a command's mistakes exit with 2, as all usage errors do, and adds where to read more.
func usageError(c *cli.Context, err error, _ bool) error {
	name := c.Command.HelpName
	if !strings.HasPrefix(name, "kbisect ") {
		name = "kbisect " + name
	}
	return exit.Usagef("%w\nhint: %s --help", optionError(err, c.Command.Flags), name)
}

// optionError rewrites the library's complaint about an option in terms of what the user typed. The library's errors
// have no types, so their texts have to be parsed. One that is not recognised is passed on unchanged: a new version of
// the library can make a message less helpful, but cannot break anything.
func optionError(err error, flags []cli.Flag) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var names []string
		for _, f := range flags {
			names = append(names, f.Names()...)
		}
		name = strings.TrimLeft(name, "-")
		if near := wording.Nearest(name, names); near != "" {
			return fmt.Errorf("there is no option %s; did you mean %s?", dashed(name), dashed(near))
		}
		return fmt.Errorf("there is no option %s", dashed(name))
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Errorf("%s needs a value", dashed(strings.TrimLeft(name, "-")))
	}
	parts := regexp.MustCompile(`^invalid (?:boolean )?value "(.*)" for (?:flag )?-(\S+): (?s:(.*))$`).FindStringSubmatch(text)
	if parts == nil {
		return err
	}
	why := parts[3]
	if why == "parse error" {
		why = takes(parts[2], flags)
	}
	return fmt.Errorf("%s %s: %s", dashed(parts[2]), parts[1], why)
}

// takes says what kind of value an option takes, for options whose parser only reports "parse error".
func takes(name string, flags []cli.Flag) string {
	for _, f := range flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		switch f.(type) {
		case *cli.Float64Flag:
			return "expected a number, such as 0.01"
		case *cli.IntFlag, *cli.Int64Flag:
			return "expected a whole number, such as 5"
		}
	}
	return "the option does not take this"
}

// dashed writes an option as the manual does: one dash before a single letter, two before a word. The library accepts
// either.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// parent makes a command that only groups sub-commands. Called without one, it prints its help.
func parent(c *cli.Command, subcommands ...*cli.Command) *cli.Command {
	c.HideHelpCommand, c.Action, c.Subcommands = true, helpOrUnknown, everywhere(subcommands...)
	return c
}

// helpOrUnknown prints the help of a command, or refuses a word that is not one of its sub-commands. The library calls
// it only if no sub-command has matched.
func helpOrUnknown(c *cli.Context) error {
	if !c.Args().Present() {
		return cli.ShowSubcommandHelp(c)
	}
	word, all := c.Args().First(), names(c.Command.VisibleCommands())
	return exit.Usagef("kbisect %s has no sub-command %q%s\nhint: there are %s; kbisect %[1]s --help", c.Command.Name, word, wording.DidYouMean(word, all), strings.Join(all, ", "))
}
