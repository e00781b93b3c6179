package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
)

// baselineCommand has a sub-command for each thing one can do with baselines; package baseline does the work.
func baselineCommand() *cli.Command {
	return parent(&cli.Command{
		Name:  "baseline",
		Usage: "record and list known-good commits with their measurements",
		Description: "run starts from a baseline when --good is not given, and the hook passes a push of the same inputs.\n" +
			"A baseline holds for the device that it was measured on; elsewhere it is only a hint.",
	},
		&cli.Command{
			Name: "record", Usage: "launch a revision and, if it is good, record it", ArgsUsage: "[REV] [-- COMMAND ARGS]",
			Description: "Launches REV (default HEAD), each time in a fresh process. It is recorded only if every launch passes.\n\n" +
				"Exit codes: 0 recorded, 2 usage, 3 refused: it is not good, 5 machine problem, 130 interrupted.",
			HideHelpCommand: true,
			Action: func(c *cli.Context) error {
				return launching(func(ctx context.Context, e session.Env, words []string) error {
					return baseline.Record(ctx, e, words, c.String("note"))
				})(c)
			},
			Flags: append(trialFlags(),
				&cli.IntFlag{Name: "launches", Usage: "number of launches, `N`", Value: 5},
				&cli.StringFlag{Name: "note", Usage: "`TEXT` to keep with it"},
			),
		},
		&cli.Command{Name: "list", Usage: "list the baselines, newest first", Action: listBaselines},
		&cli.Command{
			Name: "show", Usage: "show one baseline: the newest, or that of a revision or id", ArgsUsage: "[REV|ID]",
			HideHelpCommand: true, Action: showBaseline,
			Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "the baseline as JSON on standard output", DisableDefaultText: true}},
		},
		&cli.Command{
			Name: "export", Usage: "write one baseline to FILE, - for standard output", ArgsUsage: "FILE [REV|ID]",
			HideHelpCommand: true, Action: exportBaseline,
		},
		&cli.Command{
			Name: "import", Usage: "read a baseline that was exported elsewhere", ArgsUsage: "FILE",
			HideHelpCommand: true, Action: importBaseline,
		},
	)
}

// exportBaseline writes a baseline to a new file and never over an existing one, which may be the baseline of
// another machine.
func exportBaseline(c *cli.Context) error {
	args, err := plainWords(c, 1, 2)
	if err != nil {
		return err
	}
	b, err := chosenBaseline(c, append(args, "")[1])
	if err != nil {
		return err
	}
	if args[0] == "-" {
		return report.WriteJSON(c.App.Writer, b.Baseline)
	}
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if os.IsExist(err) {
		return exit.Usagef("%s exists; nothing was written", args[0])
	}
	if err != nil {
		return exit.Usage(err)
	}
	err = report.WriteJSON(f, b.Baseline)
	// A full disk may show only when the file is closed.
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return exit.With(exit.Machine, fmt.Errorf("writing %s: %w", args[0], err))
	}
	fmt.Fprintf(c.App.ErrWriter, "%s holds the baseline %s of %s\n", args[0], b.Session, bisect.ShortID(b.Commit))
	return nil
}

// importBaseline keeps a baseline from a file. Its commit has to be in this repository, or nothing could ever be
// compared with it.
func importBaseline(c *cli.Context) error {
	args, err := plainWords(c, 1, 1)
	if err != nil {
		return err
	}
	f, err := os.Open(args[0])
	if err != nil {
		return exit.Usagef("%w\nhint: kbisect baseline export FILE writes one, where it was recorded", err)
	}
	defer f.Close()
	b, err := baseline.Read(f)
	if err != nil {
		return exit.Usagef("%s: %w", args[0], err)
	}
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	if _, err := repo.Resolve(c.Context, b.Commit); err != nil {
		return exit.Usagef("%s: this repository has no commit %s\nhint: git fetch", args[0], b.Commit)
	}
	return baseline.Import(c.Context, c.App.Writer, version(), repo, b)
}

// readBaselines reads the baselines of the repository, newest first. It is a usage error if there are none. They are
// copies, so that the store can be closed here.
func readBaselines(c *cli.Context) ([]baseline.Kept, error) {
	st, err := openStore(c)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	all, err := baseline.List(st)
	if err == nil && len(all) == 0 {
		err = exit.Usagef("no baseline is recorded in this repository\nhint: kbisect baseline record launches HEAD and remembers it")
	}
	return all, err
}

// listBaselines prints a table. It marks baselines of other devices, which are only hints here.
func listBaselines(c *cli.Context) error {
	if c.Args().Present() {
		return exit.Usagef("baseline list takes no arguments, not %q", c.Args().Slice())
	}
	all, err := readBaselines(c)
	if err != nil {
		return err
	}
	here := machine.Here(c.Context)
	t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tCOMMIT\tRECORDED\tLAUNCHES\tMEDIAN\tDEVICE\tNOTE")
	for _, b := range all {
		device := b.Machine.DeviceNames()
		if b.Imported {
			device += ", imported"
		}
		if len(b.Hints(here)) > 0 {
			device += ", only a hint here"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", b.Session, bisect.ShortID(b.Commit), b.Recorded.Local().Format("2006-01-02 15:04"), b.Launches, b.Median(), words.Printable(device), words.Printable(b.Note))
	}
	return t.Flush()
}

// chosenBaseline is the baseline with the given revision or id; "" selects the newest. If none is recorded, the error
// says that and not that the name is unknown.
func chosenBaseline(c *cli.Context, name string) (baseline.Kept, error) {
	all, err := readBaselines(c)
	if err != nil {
		return baseline.Kept{}, err
	}
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return baseline.Kept{}, exit.Usage(err)
	}
	defer repo.Close()
	return baseline.Choose(c.Context, all, repo, name)
}

// showBaseline prints one baseline, as text or as JSON. The text also says what makes it only a hint on this machine;
// JSON is what export writes.
func showBaseline(c *cli.Context) error {
	args, err := plainWords(c, 0, 1)
	if err != nil {
		return err
	}
	b, err := chosenBaseline(c, append(args, "")[0])
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return report.WriteJSON(c.App.Writer, b.Baseline)
	}
	return b.Print(c.App.Writer, b.Hints(machine.Here(c.Context)))
}

// plainWords returns the arguments of a sub-command that takes at least least and at most most of them, and no command
// after --. Any other number is a usage error that shows the usage line.
func plainWords(c *cli.Context, least, most int) ([]string, error) {
	words, command, err := operands(c)
	if err != nil {
		return nil, err
	}
	if command != nil || len(words) < least || len(words) > most {
		return nil, exit.Usagef("usage: kbisect baseline %s %s", c.Command.Name, c.Command.ArgsUsage)
	}
	return words, nil
}
