package main

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// manual holds a page for each topic: docs/TOPIC.md, whose first line is its title.
//
//go:embed docs/*.md
var manual embed.FS

// topics lists the pages of the manual in the order in which a newcomer needs them, which no directory listing would
// give. Each has a file docs/TOPIC.md.
func topics() []string {
	return []string{"start", "timeouts", "slowdowns", "flags", "ci", "push", "comparing", "why", "projects", "config", "metrics", "protocol",
		"baselines", "trials", "devices", "clusters", "safety", "measured", "exit-codes"}
}

// helpCommand is kbisect help COMMAND, for commands of any depth, and kbisect help TOPIC. It replaces the library's
// own help command, which knows no topics.
func helpCommand() *cli.Command {
	return &cli.Command{Name: "help", Usage: "explain a command, or print a page of the manual: kbisect help topics", ArgsUsage: "[COMMAND | TOPIC]", HideHelpCommand: true, Action: func(c *cli.Context) error {
		words := c.Args().Slice()
		if len(words) == 0 {
			if err := cli.ShowAppHelp(c); err != nil {
				return err
			}
			fmt.Fprintln(c.App.Writer)
			return listTopics(c.App.Writer)
		}
		if len(words) == 1 && words[0] == "topics" {
			return listTopics(c.App.Writer)
		}
		if len(words) == 1 && slices.Contains(topics(), words[0]) {
			page, err := manual.ReadFile("docs/" + words[0] + ".md")
			if err == nil {
				_, err = io.WriteString(c.App.Writer, plain(string(page)))
			}
			return err
		}
		at := findPlace(c.App, words)
		if at.command == nil || len(at.operands) > 0 {
			near := wording.DidYouMean(words[0], append(names(c.App.VisibleCommands()), topics()...))
			return exit.Usagef("unknown command %q%s\nhint: kbisect help lists the commands and topics", strings.Join(words, " "), near)
		}
		return c.App.RunContext(c.Context, slices.Concat([]string{c.App.Name}, words, []string{"--help"}))
	}}
}

// listTopics prints the name and the title of each page, as kbisect help and kbisect help topics show them.
func listTopics(w io.Writer) error {
	fmt.Fprintln(w, "TOPICS (kbisect help TOPIC):")
	for _, name := range topics() {
		if _, err := fmt.Fprintf(w, "   %-12s %s\n", name, title(name)); err != nil {
			return err
		}
	}
	return nil
}

// title is the first line of a page of the manual, without its #; "" if there is no such page.
func title(name string) string {
	page, _ := fs.ReadFile(manual, "docs/"+name+".md")
	first, _, _ := strings.Cut(strings.TrimPrefix(string(page), "# "), "\n")
	return first
}

// plain is a page as a terminal shows it: code blocks are indented by four spaces, and the marks of Markdown that the
// pages use (headings, bold, code) are removed. Tables stay as they are.
func plain(page string) string {
	var b strings.Builder
	block := false
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(line, "```"):
			block = !block
		case block && line != "\n":
			b.WriteString("    " + line)
		case block:
			b.WriteString(line)
		default:
			if strings.HasPrefix(line, "#") {
				line = strings.TrimLeft(line, "# ")
			}
			b.WriteString(strings.NewReplacer("**", "", "`", "").Replace(line))
		}
	}
	return b.String()
}
