package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/render"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/past"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
)

// reportCommand writes the report of a stored session again, in any format.
func reportCommand() *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write the report of a past session", ArgsUsage: "[SESSION]",
		Description: "SESSION is an id of kbisect sessions, the unique beginning of one, or last; the newest search when left out.\n" +
			"Without options, the report is written as Markdown to standard output. - stands for standard output.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "html", Aliases: []string{"report"}, Usage: "write one HTML file to `FILE`, which needs nothing else and makes no requests"},
			&cli.StringFlag{Name: "markdown", Usage: "write Markdown to `FILE`, short enough for a comment on GitHub"},
			&cli.BoolFlag{Name: "json", Usage: "the finding as JSON on standard output", DisableDefaultText: true},
			&cli.BoolFlag{Name: "git-log", Usage: "a log on standard output that git bisect replay takes", DisableDefaultText: true},
		},
		Action: reportAction,
	}
}

// reportAction writes the report of a stored session. If there is a result, JSON is what was stored, to the byte, so
// that scripts see what the command itself printed; for a session without one it is made from the launches.
func reportAction(c *cli.Context) error {
	files, err := reportRequest(c)
	if err != nil {
		return err
	}
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	p, err := past.Open(c.Context, repo, c.Args().First())
	if err != nil {
		return err
	}
	switch {
	case c.Bool("json") && len(p.Session.Finding) > 0:
		_, err := c.App.Writer.Write(words.JSON(p.Session.Finding)) // as it was kept
		return err
	case c.Bool("json"):
		return report.WriteJSON(c.App.Writer, p.Document)
	case c.Bool("git-log"):
		return p.GitLog(c.Context, c.App.Writer)
	}
	if err := files.write(p.Document, p.Ledger(c.Context), c.App.Writer, sayOn(c)); err != nil {
		return exit.With(exit.Machine, err)
	}
	return nil
}

// reportRequest reads which files are wanted, and refuses combinations that would mix two documents on standard output.
// Without options it is Markdown on standard output.
func reportRequest(c *cli.Context) (formats, error) {
	f := formats{c.String("markdown"), c.String("html")}
	// Two documents on one stream could not be told apart by whatever reads it.
	onStdout := 0
	for _, yes := range []bool{c.Bool("json"), c.Bool("git-log"), f.html == "-", f.markdown == "-"} {
		if yes {
			onStdout++
		}
	}
	switch {
	case c.NArg() > 1:
		return f, exit.Usagef("report takes one session, not %q\nhint: options stand before it: kbisect report --html FILE last", c.Args().Slice())
	case onStdout > 1, f != formats{} && (c.Bool("json") || c.Bool("git-log")):
		return f, exit.Usagef("--json and --git-log write to standard output alone\nhint: call kbisect report once for each")
	}
	if f == (formats{}) {
		f.markdown = "-"
	}
	return f, f.check("html")
}

// formatFlags are the options of every command that has a result to show. Each call returns new ones, since the library
// stores what it has parsed in them.
func formatFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "json", Usage: "the result as JSON on standard output", DisableDefaultText: true},
		&cli.StringFlag{Name: "markdown", Usage: "write the result as Markdown to `FILE`, short enough for a comment on GitHub"},
		&cli.StringFlag{Name: "report", Aliases: []string{"html"}, Usage: "write the result as one HTML file to `FILE`, which needs nothing else and makes no requests"},
	}
}

// formats are the paths of the files that a result is written to besides what is printed; "" is none, and - stands for
// standard output. The zero value writes nothing.
type formats struct{ markdown, html string }

// readFormats are the files that --markdown and --report name; none for a command without these options.
func readFormats(c *cli.Context) formats { return formats{c.String("markdown"), c.String("report")} }

// check finds out before hours of launches whether the files can be written at their end. html is the name that the
// command gives the option for the HTML page, for the message: report calls it --html, all others --report.
func (f formats) check(html string) error {
	return cmp.Or(session.CheckFile("markdown", f.markdown), session.CheckFile(html, f.html))
}

// write writes the files; without any it does nothing. Each is rendered as a whole first, so that an error in rendering
// leaves no half-written file. say is called with a line for each file written.
func (f formats) write(d report.Document, l report.Ledger, stdout io.Writer, say func(string)) error {
	p := page.New(d, l)
	for _, x := range []struct {
		path string
		make func(io.Writer) error
	}{
		{f.markdown, func(w io.Writer) error { return render.Markdown(w, p, render.MarkdownLimit) }},
		{f.html, func(w io.Writer) error { return render.HTML(w, p) }},
	} {
		if x.path == "" {
			continue
		}
		var b bytes.Buffer
		err := x.make(&b)
		switch {
		case err != nil:
		case x.path == "-":
			_, err = stdout.Write(b.Bytes())
		default:
			err = os.WriteFile(x.path, b.Bytes(), 0o666)
		}
		if err != nil {
			return fmt.Errorf("the report %s: %w", x.path, err)
		}
		if x.path != "-" {
			say("report written to " + x.path)
		}
	}
	return nil
}

// sayOn returns a function that prints a line on standard error, or nothing with --quiet. Standard output is for
// results alone.
func sayOn(c *cli.Context) func(string) {
	return func(text string) {
		if !globals(c).quiet {
			fmt.Fprintln(c.App.ErrWriter, text)
		}
	}
}

// terminalOf is what standard output can show: colours, width in columns, and whether --verbose asks for everything. A
// gate's output is mostly read in the log of a CI job, which can show colours without being a terminal.
func terminalOf(c *cli.Context) render.Terminal {
	g := globals(c)
	t := render.Terminal{Colour: g.colour.on(c.App.Writer, os.Getenv, c.Command.Name == "gate"), All: g.verbose}
	if f, ok := words.Raw(c.App.Writer).(*os.File); ok {
		t.Width, _, _ = term.GetSize(int(f.Fd())) // 0, any width, if it is not a terminal
	}
	return t
}

// colour is when to use colours: auto, always or never. The zero value, "", means auto.
type colour string

// Set implements flag.Value.
func (v *colour) Set(s string) error {
	choices := []string{"auto", "always", "never"}
	if !slices.Contains(choices, s) {
		return fmt.Errorf("expected %s", config.OneOf(choices))
	}
	*v = colour(s)
	return nil
}

// String implements flag.Value.
func (v *colour) String() string { return string(*v) }

// on reports whether an output should have colours: it is a terminal, or log is set and the CI system shows colours in
// its logs. NO_COLOR (no-color.org) turns them off unless the user wrote --color always.
func (v colour) on(w io.Writer, env func(string) string, log bool) bool {
	switch {
	case v == "always":
		return true
	case v == "never", env("NO_COLOR") != "", env("TERM") == "dumb":
		return false
	case log && (env("GITHUB_ACTIONS") == "true" || env("GITLAB_CI") == "true"):
		return true
	}
	f, ok := words.Raw(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
