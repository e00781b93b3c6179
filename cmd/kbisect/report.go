package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/source"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "the report of a past search, gate or comparison, to look at or for a pull request", ArgsUsage: "[SESSION]", OnUsageError: usageError,
		Description: "SESSION is an id of kbisect sessions, the unique beginning of one, or last; the newest search when left out.\n" +
			"Without options, the report is written as Markdown to standard output. - stands for standard output.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "html", Usage: "write one HTML file to `FILE`, which needs nothing else and makes no requests"},
			&cli.StringFlag{Name: "markdown", Usage: "write Markdown to `FILE`, short enough for a comment on GitHub"},
			&cli.BoolFlag{Name: "json", Usage: "the finding as JSON on standard output", DisableDefaultText: true},
			&cli.BoolFlag{Name: "git-log", Usage: "a log on standard output that git bisect replay takes", DisableDefaultText: true},
		},
		Action: reportAction,
	}
}

func reportAction(c *cli.Context) error {
	if err := reportRequest(c); err != nil {
		return err
	}
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	p, err := openPast(c, repo)
	if err != nil {
		return err
	}
	switch {
	case c.Bool("json"):
		_, err := c.App.Writer.Write(p.document)
		return err
	case c.Bool("git-log"):
		return p.gitLog(c.App.Writer)
	}
	page, err := report.NewPage(p.document, p.input(c.Context))
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	if path := c.String("html"); path != "" {
		if err := writeReport(c, path, func(w io.Writer) error { return report.HTML(w, page) }); err != nil {
			return err
		}
	}
	path := c.String("markdown")
	if path == "" && c.String("html") == "" {
		path = "-"
	}
	if path == "" {
		return nil
	}
	return writeReport(c, path, func(w io.Writer) error { return report.Markdown(w, page, report.MarkdownLimit) })
}

// reportRequest refuses what cannot be meant.
func reportRequest(c *cli.Context) error {
	onStdout := 0
	for _, yes := range []bool{c.Bool("json"), c.Bool("git-log"), c.String("html") == "-", c.String("markdown") == "-"} {
		if yes {
			onStdout++
		}
	}
	files := c.String("html") != "" || c.String("markdown") != ""
	switch {
	case c.NArg() > 1:
		return exit.Usagef("report takes one session, not %q\nhint: options stand before it: kbisect report --html FILE last", c.Args().Slice())
	case onStdout > 1, files && (c.Bool("json") || c.Bool("git-log")):
		return exit.Usagef("--json and --git-log write to standard output alone\nhint: call kbisect report once for each")
	}
	for _, path := range []string{c.String("html"), c.String("markdown")} {
		if err := checkReportPath(path); err != nil {
			return err
		}
	}
	return nil
}

// checkReportPath refuses a report that could not be written, before anything is done for it.
func checkReportPath(path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return exit.Usagef("the report %s: there is a folder of this name\nhint: name a file in it", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return exit.Usagef("the report %s: its folder does not exist\nhint: mkdir -p %s", path, filepath.Dir(path))
	}
	return nil
}

// writeReport makes a report and then writes it, so that none is ever half there for a mistake in it.
func writeReport(c *cli.Context, path string, make func(io.Writer) error) error {
	var b bytes.Buffer
	err := make(&b)
	switch {
	case err != nil:
	case path == "-":
		_, err = c.App.Writer.Write(b.Bytes())
	default:
		err = os.WriteFile(path, b.Bytes(), 0o666)
	}
	if err != nil {
		return exit.With(exit.Machine, fmt.Errorf("the report %s: %w", path, err))
	}
	if path != "-" && !globals(c).quiet {
		fmt.Fprintf(c.App.ErrWriter, "report written to %s\n", path)
	}
	return nil
}

// writeHTML writes the report that run was asked for.
func (j *job) writeHTML(doc []byte, in report.Input) error {
	page, err := report.NewPage(doc, in)
	if err == nil {
		var b bytes.Buffer
		if err = report.HTML(&b, page); err == nil {
			err = os.WriteFile(j.report, b.Bytes(), 0o666)
		}
	}
	if err != nil {
		return fmt.Errorf("the report %s: %w\nhint: the finding is kept; kbisect report --html FILE %s writes it again", j.report, err, j.session.ID)
	}
	j.ui.Say("report written to " + j.report)
	return nil
}
