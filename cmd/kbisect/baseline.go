package main

import (
	"cmp"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/render"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/store"
)

// recording is the kind of session that a baseline is kept as: its finding is the document, its launches are
// the evidence. An imported one has no launches.
const recording = "baseline"

// importedStatus is the status of the session of a baseline that came from a file.
const importedStatus = "imported"

func baselineCommand() *cli.Command {
	return &cli.Command{
		Name:  "baseline",
		Usage: "commits that are known to be good, with what they measured",
		Description: "A baseline is what run goes back to when no --good is named, and what a push of the same inputs passes by.\n" +
			"It holds for the device that it was measured on: elsewhere it is a hint, never a verdict.",
		OnUsageError: usageError, HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownBelow(c)
			}
			return cli.ShowSubcommandHelp(c)
		},
		Subcommands: everywhere(
			&cli.Command{
				Name: "record", Usage: "launch a revision and, if it is good, remember it", ArgsUsage: "[REV] [-- COMMAND ARGS]",
				Description: "Launches REV (default HEAD), each launch a fresh process. Unless every launch ends well it is refused.\n\n" +
					"Exit codes: 0 recorded, 2 usage, 3 refused: it is not good, 5 machine trouble, 130 interrupted.",
				OnUsageError: usageError, HideHelpCommand: true, Action: recordBaseline,
				Flags: append(trialFlags(),
					&cli.IntFlag{Name: "launches", Usage: "launch it `N` times", Value: 5},
					&cli.StringFlag{Name: "note", Usage: "`TEXT` to keep with it"},
				),
			},
			&cli.Command{Name: "list", Usage: "the baselines, the newest first", OnUsageError: usageError, Action: listBaselines},
			&cli.Command{
				Name: "show", Usage: "one baseline: the newest, or that of a revision or an id", ArgsUsage: "[REV|ID]", OnUsageError: usageError,
				HideHelpCommand: true, Action: showBaseline,
				Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "the baseline as JSON on standard output", DisableDefaultText: true}},
			},
			&cli.Command{
				Name: "export", Usage: "write one baseline to FILE, - for standard output", ArgsUsage: "FILE [REV|ID]", OnUsageError: usageError,
				HideHelpCommand: true, Action: exportBaseline,
			},
			&cli.Command{
				Name: "import", Usage: "read a baseline that was exported elsewhere", ArgsUsage: "FILE", OnUsageError: usageError,
				HideHelpCommand: true, Action: importBaseline,
			},
		),
	}
}

func recordBaseline(c *cli.Context) error {
	return launchOne(c, recording, 2, "two are needed to call it good", "a command follows --", (*trials).record)
}

// record launches, and remembers what is good.
func (t *trials) record(c *cli.Context, rev string) error {
	on := machine.Describe(c.Context, t.gpus.watches, pythonic(t.policy))
	n := c.Int("launches")
	all, err := t.launchAll(c.Context, n, func(i int, o bisect.Outcome) {
		t.ui.Launched(i, n, fmt.Sprintf("launch %-3d %s, %.2f s", i, o.Describe(), o.Wall))
	})
	result, mend := t.ended(c.Context, err)
	if mend == nil {
		mend = t.notFound("at " + wording.Short(t.policy.Good))
	}
	if mend == nil && result == "" {
		mend = t.mustSend(all)
	}
	if mend != nil {
		return t.fail(mend)
	}
	doc := t.measurement(rev, c.String("metric"), all, n, result, err)
	if why := refusal(doc, all, n); why != "" || doc.Result != string(bisect.OK) {
		code := measureCode(doc.Result)
		if code == exit.OK {
			code, doc.Result = exit.Inconclusive, store.Inconclusive
		}
		doc.Verdict = "Refused: " + cmp.Or(why, doc.Verdict)
		return t.conclude(doc.Result, doc.Verdict, code, err, &doc, func() error { return printResult(c.App.Writer, false, &doc, t.ledgerOf(), render.Terminal{}) })
	}
	b := t.baseline(doc, all, on)
	b.Note = c.String("note")
	return t.keepBaseline(c, b)
}

// refusal says why a revision is not good, "" when it is.
func refusal(m report.Measurement, all []bisect.Outcome, asked int) string {
	var s compare.Side
	for _, o := range all {
		s.Note(o)
	}
	switch {
	case m.Result == store.Interrupted || m.Result == store.Infra:
		return ""
	case s.Failed > 0:
		return fmt.Sprintf("it is not good. %s", m.Verdict)
	case len(all) < asked:
		return fmt.Sprintf("the budget was used up after %d of %d launches.", len(all), asked)
	case s.Counted == 0:
		return fmt.Sprintf("none of %d launches gave times that count: %s.", len(all), s.Left[0].Why)
	}
	return ""
}

// keepBaseline writes a baseline into the store, and its commit among the good ones.
func (t *trials) keepBaseline(c *cli.Context, b baseline) error {
	good := store.Good{Commit: b.Commit, When: b.Recorded, Session: b.Session, Detail: fmt.Sprintf("a baseline, %d launches ended well", b.Launches)}
	if err := t.store.RecordGood(good); err != nil {
		return t.fail(exit.With(exit.Machine, err))
	}
	summary := fmt.Sprintf("Recorded: each of %d launches ended well.", b.Launches)
	return t.conclude(string(bisect.OK), summary, exit.OK, nil, b, func() error {
		fmt.Fprintln(c.App.Writer, summary)
		return b.print(c.App.Writer, nil)
	})
}
