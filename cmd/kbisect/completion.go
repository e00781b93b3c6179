package main

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/source"
)

// completionScripts holds a script for each shell, named after it, that binds its completion key to kbisect complete.
//
//go:embed completion
var completionScripts embed.FS

// completionCommand prints the script of a shell. The scripts know none of kbisect's commands and options: they ask
// completeCommand at every key press, so an installed script stays right when kbisect is updated.
func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a completion script for a shell", ArgsUsage: "bash|zsh|fish",
		Description: "bash:  source <(kbisect completion bash)   in ~/.bashrc\n" +
			"zsh:   source <(kbisect completion zsh)   in ~/.zshrc, below compinit\n" +
			"fish:  kbisect completion fish > ~/.config/fish/completions/kbisect.fish\n\n" +
			"Commands, options, revisions and topics of help are completed, in the repository at -C.",
		Action: func(c *cli.Context) error {
			script, err := completionScripts.ReadFile("completion/" + c.Args().First())
			if c.NArg() != 1 || err != nil {
				return exit.Usagef("completion is for bash, zsh or fish, not %q\nhint: kbisect completion --help", c.Args().Slice())
			}
			_, err = c.App.Writer.Write(script)
			return err
		},
	}
}

// completeCommand answers the scripts. Its arguments are the name of the shell and then the words before the cursor
// or, for bash, the whole line up to the cursor, since bash splits words at : and = as well.
func completeCommand() *cli.Command {
	return &cli.Command{
		Name: "complete", Usage: "what a word could become", ArgsUsage: "SHELL WORD...", Hidden: true, SkipFlagParsing: true, HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if c.NArg() < 2 {
				return exit.Usagef("complete takes a shell and the words so far")
			}
			shell, words := c.Args().First(), c.Args().Tail()
			if shell == "bash" {
				words = splitLine(words[0])[1:]
			}
			last := len(words) - 1 // the word at the cursor, which may be empty
			at := findPlace(c.App, words[:last])
			return writeCompletions(c.App.Writer, shell, words[last], at.completions(words[last]))
		},
	}
}

// completion is one word that could stand at the cursor, and what it is about; "" if there is nothing to say.
type completion struct{ word, about string }

// fileNames is a line that tells the shell's script to complete file names itself, which shells do better. No command
// or option begins with a colon.
const fileNames = ":files"

// writeCompletions writes those completions that begin with word, one a line, in the form that the shell's script
// expects.
func writeCompletions(w io.Writer, shell, word string, all []completion) error {
	const most = 200 // a repository may have thousands of tags; a longer list helps nobody
	written := 0
	for _, x := range all {
		if x.word != fileNames && !strings.HasPrefix(x.word, word) || written == most {
			continue
		}
		written++
		line := x.word
		switch {
		case line == fileNames:
		case shell == "bash": // it splits words at these characters, and replaces only the part after the last one
			line = line[strings.LastIndexAny(word, "=:@")+1:]
		case shell == "zsh" && x.about != "":
			line = strings.ReplaceAll(line, ":", `\:`) + ":" + x.about
		case shell == "zsh":
			line = strings.ReplaceAll(line, ":", `\:`)
		case x.about != "":
			line += "\t" + x.about
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// splitLine splits a shell's line at its spaces and removes quotes and backslashes. The last word is the one at the
// cursor, "" after a space; a quote that is still open ends there. There are always at least two words, the first
// being the program's name. Expansions such as $VAR are left as they are: what they stand for is known to the shell
// alone.
func splitLine(line string) []string {
	var words []string
	var word strings.Builder
	// begun tells an empty word in quotes from no word at all; quote is the quote that is open, or 0.
	begun, quote := false, byte(0)
	escaped := false
	for _, b := range []byte(line) { // names of files need not be UTF-8
		switch {
		case escaped:
			word.WriteByte(b)
			escaped = false
		case b == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && b == quote:
			quote = 0
		case quote == 0 && (b == '\'' || b == '"'):
			quote, begun = b, true
		case quote == 0 && (b == ' ' || b == '\t' || b == '\n'):
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			word.WriteByte(b)
			begun = true
		}
	}
	words = append(words, word.String())
	if len(words) == 1 { // the cursor is at the program's own name
		words = append(words, "")
	}
	return words
}

// place is where a command line has come to, and so what may come next.
type place struct {
	command  *cli.Command // nil: only the program is named
	all      []*cli.Command
	commands []*cli.Command // that may stand here
	flags    []cli.Flag
	option   cli.Flag // whose value comes next, or nil
	operands []string
	behind   bool   // the cursor is behind --, or in the command of run
	dir      string // of the repository
}

// findPlace reads the words after the program's name by the same rules as permute and operands do; a change there
// belongs here too. kbisect help uses it as well, to find the command that is asked about.
func findPlace(app *cli.App, words []string) place {
	p := place{all: app.Commands, commands: app.Commands, flags: app.Flags, dir: "."}
	for len(words) > 0 && words[0] != "--" && !p.behind {
		n := optionWords(p.flags, words)
		if n > 0 {
			p.take(words[:n])
			words = words[n:]
			continue
		}
		word := words[0]
		words = words[1:]
		// After the first operand no word names a command any more, whatever it is.
		i := slices.IndexFunc(p.commands, func(c *cli.Command) bool { return c.HasName(word) })
		if i < 0 || len(p.operands) > 0 {
			p.operands = append(p.operands, word)
			p.behind = p.command != nil && p.command.Name == "run" // as for git bisect run, -- may be left out
			continue
		}
		p.command = p.commands[i]
		p.commands, p.flags = p.command.Subcommands, p.command.Flags
	}
	p.behind = p.behind || len(words) > 0
	return p
}

// take reads one option, which may still lack its value: then that is what is being typed. Of the values only that of
// -C matters, since revisions are completed from the repository there.
func (p *place) take(words []string) {
	name, value, given := strings.Cut(strings.TrimLeft(words[0], "-"), "=")
	f := flagNamed(p.flags, name)
	if _, isBool := f.(*cli.BoolFlag); f == nil || isBool {
		return
	}
	if len(words) == 1 && !given {
		if !optional(f) {
			p.option = f
		}
		return
	}
	if !given {
		value = words[1]
	}
	if name == "C" {
		p.dir = value
	}
}

// flagNamed finds an option by any of its names; nil if there is none.
func flagNamed(flags []cli.Flag, name string) cli.Flag {
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return flags[i]
}

// completions lists what could stand here instead of word. What an option or a command takes is read from its help
// (REV, A B), so that a new option needs no second description here.
func (p place) completions(word string) []completion {
	files := []completion{{word: fileNames}}
	takes := ""
	if p.command != nil {
		takes, _, _ = strings.Cut(p.command.ArgsUsage, "[-- ")
	}
	switch {
	case p.behind:
		return files
	case p.option != nil && strings.Contains(usageOf(p.option), "`REV`"):
		return p.revisions()
	case p.option != nil:
		return files
	case strings.HasPrefix(word, "-"):
		return p.options()
	case p.command != nil && p.command.Name == "help" && len(p.operands) == 0:
		out := commandNames(p.all)
		for _, name := range topics() {
			out = append(out, completion{name, title(name)})
		}
		return out
	case p.command == nil || len(p.commands) > 0:
		return commandNames(p.commands)
	case strings.Contains(takes, "REV") || strings.HasPrefix(takes, "A B"):
		return p.revisions()
	case takes == "" && word == "": // nothing but options can follow
		return p.options()
	}
	return files
}

// commandNames are the commands that the help shows, too.
func commandNames(all []*cli.Command) (out []completion) {
	for _, c := range all {
		if !c.Hidden {
			out = append(out, completion{c.Name, c.Usage})
		}
	}
	return out
}

// options are those of the command and the global ones, which its help does not repeat but each command accepts. The
// library adds --help by itself, and only to the app's own list.
func (p place) options() (out []completion) {
	for _, f := range p.flags {
		out = append(out, completion{dashed(f.Names()[0]), strings.ReplaceAll(usageOf(f), "`", "")})
	}
	if flagNamed(p.flags, "help") == nil {
		out = append(out, completion{"--help", "show help"})
	}
	if len(p.operands) == 0 && p.command != nil && strings.Contains(p.command.ArgsUsage, "-- COMMAND") {
		out = append(out, completion{"--", "a command to run follows"})
	}
	return out
}

// usageOf is what an option is for, with the name of its value in back quotes, as the library marks it.
func usageOf(f cli.Flag) string {
	if d, ok := f.(cli.DocGenerationFlag); ok {
		return d.GetUsage()
	}
	return ""
}

// revisions are HEAD, the branches and the tags; none outside of a repository, since a completion has no place for
// an error.
func (p place) revisions() (out []completion) {
	repo, err := source.Open(p.dir)
	if err != nil {
		return nil
	}
	defer repo.Close()
	names, err := repo.Refs()
	if err != nil {
		return nil
	}
	slices.Sort(names)
	for _, name := range append([]string{"HEAD"}, slices.Compact(names)...) {
		out = append(out, completion{word: name})
	}
	return out
}

// manCommand prints the manual page, which the library makes from the commands' own help, so that the two cannot
// contradict each other. It does not contain the topics of kbisect help.
func manCommand() *cli.Command {
	return &cli.Command{
		Name: "man", Usage: "print the manual page",
		Description: "kbisect man | man -l -   reads it here.\n" +
			"kbisect man > /usr/local/share/man/man1/kbisect.1   installs it.",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Usagef("man takes no arguments, not %q\nhint: kbisect help COMMAND explains one command", c.Args().Slice())
			}
			describe(c.App.Commands)
			page, err := c.App.ToManWithSection(1)
			if err != nil {
				return fmt.Errorf("the manual page: %w", err)
			}
			_, err = io.WriteString(c.App.Writer, page)
			return err
		},
	}
}

// describe copies the description of each command into UsageText, the field that the library prints in a manual page.
// It is done only here: in the help, UsageText would replace the usage line.
func describe(all []*cli.Command) {
	for _, c := range all {
		c.UsageText = c.Description
		describe(c.Subcommands)
	}
}
