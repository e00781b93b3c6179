package main

import (
	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/past"
	"github.com/kbisect/kbisect/pipeline/source"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "the report of a past search, gate, comparison, measurement or explanation", ArgsUsage: "[SESSION]", OnUsageError: usageError,
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
		_, err := c.App.Writer.Write(p.Session.Finding) // as it was kept
		return err
	case c.Bool("json"):
		return report.WriteJSON(c.App.Writer, p.Document)
	case c.Bool("git-log"):
		return p.GitLog(c.App.Writer)
	}
	if err := files.write(p.Document, p.Ledger(c.Context), c.App.Writer, sayOn(c)); err != nil {
		return exit.With(exit.Machine, err)
	}
	return nil
}

// reportRequest refuses what cannot be meant.
func reportRequest(c *cli.Context) (formats, error) {
	f := formats{c.String("markdown"), c.String("html")}
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
	return f, f.check()
}
