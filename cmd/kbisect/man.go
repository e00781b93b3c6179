package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

func manCommand() *cli.Command {
	return &cli.Command{
		Name: "man", Usage: "print the manual page, of the same text as --help", OnUsageError: usageError,
		Description: "kbisect man | man -l -   reads it here.\n" +
			"kbisect man > /usr/local/share/man/man1/kbisect.1   installs it.",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Usagef("man takes no arguments, not %q\nhint: kbisect help COMMAND explains one command", c.Args().Slice())
			}
			return writeMan(c.App.Writer, c.App)
		},
	}
}

// writeMan writes the manual page of a program in the macros of man(7).
func writeMan(w io.Writer, app *cli.App) error {
	m := &manPage{bufio.NewWriter(w)}
	m.macro("TH", strings.ToUpper(app.Name), "1", "", app.Name+" "+app.Version, "User Commands")
	m.macro("SH", "NAME")
	m.text(app.Name + " - " + app.Usage)
	m.macro("SH", "SYNOPSIS")
	m.macro("B", app.Name)
	m.text("[global options] command [command options]")
	m.macro("SH", "DESCRIPTION")
	m.lines(app.Description)
	m.macro("SH", "GLOBAL OPTIONS")
	m.text("These may stand before the command or behind it.")
	m.flags(app.VisibleFlags())
	m.macro("SH", "COMMANDS")
	m.commands(app.Name, app.Commands)
	return m.Flush()
}

// manPage writes roff.
type manPage struct{ *bufio.Writer }

func (m *manPage) commands(above string, all []*cli.Command) {
	for _, c := range all {
		if c.Hidden {
			continue
		}
		name := above + " " + c.Name
		m.macro("SS", strings.TrimSpace(name+" "+c.ArgsUsage))
		m.text(c.Usage)
		if c.Description != "" {
			m.macro("PP")
			m.lines(c.Description)
		}
		m.flags(c.VisibleFlags())
		m.commands(name, c.Subcommands)
	}
}

// flags lists options as --help does.
func (m *manPage) flags(all []cli.Flag) {
	for _, f := range all {
		name, about, _ := strings.Cut(f.String(), "\t")
		m.macro("TP")
		m.macro("B", name)
		m.text(about)
	}
}

// lines writes paragraphs; a line that holds an example, or is part of a list, stays one.
func (m *manPage) lines(s string) {
	for line := range strings.SplitSeq(s, "\n") {
		switch {
		case line == "":
			m.macro("PP")
			continue
		case strings.HasPrefix(line, "kbisect "), strings.Contains(line, "  "):
			m.macro("br")
		}
		m.text(line)
	}
}

// text writes lines none of which is taken for a macro.
func (m *manPage) text(s string) {
	for line := range strings.SplitSeq(s, "\n") {
		line = roff(line)
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		fmt.Fprintln(m, line)
	}
}

// macro writes a call of a macro with its arguments.
func (m *manPage) macro(name string, arguments ...string) {
	m.WriteString("." + name)
	for _, a := range arguments {
		m.WriteString(` "` + strings.ReplaceAll(roff(a), `"`, `\(dq`) + `"`)
	}
	m.WriteString("\n")
}

// roff escapes what would be typeset as something else: people copy options and quotes from manual pages.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
}
