package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/past"
	"github.com/kbisect/kbisect/pipeline/source"
)

// historyCommand shows what the store holds by commit; it launches nothing. Package past reads and groups it. The order
// is that of the commits and not of the sessions, so a change in performance shows at the commit that made it.
func historyCommand() *cli.Command {
	return &cli.Command{
		Name:  "history",
		Usage: "list what has been measured, by commit",
		Description: "Gathers the launches of all searches, comparisons and measurements in this repository along the first\n" +
			"parents of HEAD. Values of different devices, commands or caches are never mixed: each has its own table.\n" +
			"Launches of different days compare loosely, since machines drift: kbisect compare launches in turn.",
		Flags: append(formatFlags(),
			&cli.StringFlag{Name: "metric", Usage: "the `NAME` of the metric: one that launches gave, wall, phase.NAME", DefaultText: "all that were sent, else wall"},
			&cli.StringFlag{Name: "case", Usage: "one case `C`", DefaultText: "the geometric mean over all"},
			&cli.StringFlag{Name: "base", Usage: "compare with the commit `REV`", DefaultText: "the oldest shown"},
			&cli.IntFlag{Name: "limit", Usage: "at most `N` commits, the newest", Value: 30},
			&cli.BoolFlag{Name: "all-commits", Usage: "commits off the first parents of HEAD too, by date", DisableDefaultText: true},
		),
		Action: historyAction,
	}
}

// historyAction prints the history unless it is written to files; with --json it is printed as well. Everything that
// can be wrong with the options is checked before the store is read, which may take a while.
func historyAction(c *cli.Context) error {
	if c.Args().Present() {
		return exit.Usagef("history takes no arguments, not %q\nhint: --metric and --case say what to show, and options stand before arguments", c.Args().Slice())
	}
	if c.Int("limit") < 1 {
		return exit.Usagef("--limit %d: at least one commit is shown", c.Int("limit"))
	}
	files := readFormats(c)
	if err := files.check("report"); err != nil {
		return err
	}
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	want := past.HistoryRequest{Metric: c.String("metric"), Case: c.String("case"), All: c.Bool("all-commits"), Limit: c.Int("limit")}
	if rev := c.String("base"); rev != "" {
		if want.Base, err = repo.Resolve(c.Context, rev); err != nil {
			return exit.Usagef("--base: %w", err)
		}
	}
	st, err := openStore(c)
	if err != nil {
		return err
	}
	defer st.Close()
	doc, err := past.ReadHistory(c.Context, repo, st, want)
	if err != nil {
		return err
	}
	// A history has all its numbers in the document and refers to no launches, so its ledgers hold none.
	err = files.write(&doc, report.Ledger{}, c.App.Writer, sayOn(c))
	if err == nil && (c.Bool("json") || files == formats{}) {
		err = printResult(c.App.Writer, c.Bool("json"), &doc, report.Ledger{Call: report.NewCall(os.Args, os.Args)}, terminalOf(c))
	}
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	return nil
}
