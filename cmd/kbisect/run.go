package main

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/render"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/search"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/remote"
	"github.com/kbisect/kbisect/pipeline/stopwatch"
)

// runCommand finds culprits, which is what the program is for; package search does it. Its options are grouped in the
// help, because there are too many for one list.
func runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "find the commit, and the lines in it, that caused a failure or a slowdown",
		ArgsUsage: "[-- COMMAND ARGS]",
		Description: "Tests the good and the bad revision, searches the commits between them, and confirms the culprit against\n" +
			"its parents. Failures that occur only sometimes are found too: commits are launched again as often as\n" +
			"needed. With --find timeout, crash, wrong or any, a bad revision that passes is launched up to 20 times\n" +
			"until it fails.\n\n" +
			"With -- COMMAND no configuration is needed: 0 is good, 125 is skip, anything else is bad, and\n" +
			"128 and up is a crash of the candidate; a script written for git bisect run works unchanged.\n" +
			"Without it, kbisect.toml in the work tree says how to build and run.\n\n" +
			"A program can report more on the file descriptor named by KBISECT_FD, one fact per line: phase: NAME,\n" +
			"case: NAME, sample: 46.8 us, metric NAME: VALUE UNIT, check: pass, check: fail WHY, skip: WHY,\n" +
			"infra: WHY.\n\n" +
			"Examples:\n" +
			"  kbisect run --good v1.0 --limit 60s --build make -- ./test.sh   which commit fails\n" +
			"  kbisect run --good v1.0 --find slow                             which commit is slower, by kbisect.toml\n" +
			"  kbisect run --axis flags                                        which flags, and what to keep\n" +
			"  kbisect run --resume                                            go on after an interrupt",
		Flags: grouped(append(formatFlags(), []cli.Flag{
			&cli.StringFlag{Name: "good", Usage: "a good revision, `REV` (default: the newest recorded good ancestor)"},
			&cli.StringFlag{Name: "bad", Usage: "a bad revision, `REV`", Value: "HEAD"},
			&cli.BoolFlag{Name: "find-good", Usage: "find a good revision by walking back from the bad one in doubling steps", DisableDefaultText: true},
			&cli.StringFlag{Name: "axis", Usage: "search the `history`, the flags of kbisect.toml at one commit, or the hunks of --commit or between the revisions", Value: "history"},
			&cli.StringFlag{Name: "commit", Usage: "the commit `REV` whose hunks are searched"},
			&cli.StringFlag{Name: "find", Usage: "what to search for, `CLASS`: slow, timeout, wrong, crash, build or any (default: what the bad revision shows)"},
			&cli.StringFlag{Name: "phase", Usage: "only timeouts in the phase `NAME` count"},
			&cli.StringFlag{Name: "metric", Usage: "search for a slowdown in the metric `NAME`: one of kbisect.toml, wall, cpu (processor time), instructions, phase.NAME"},
			betterFlag(),
			&cli.BoolFlag{Name: "improvement", Usage: "search for what made a metric better instead of worse", DisableDefaultText: true},
			&cli.BoolFlag{Name: "all", Usage: "find every culprit in the range, with its share; also regressions introduced and fixed in between", DisableDefaultText: true},
			&cli.BoolFlag{Name: "first-parent", Usage: "follow only the first parent of merges", DisableDefaultText: true},
			&cli.StringSliceFlag{Name: "path", Usage: "a file or folder `P` that build or run reads; repeatable; commits that do not change any are not built"},
			&cli.BoolFlag{Name: "no-hunks", Usage: "stop at the commit; do not search its hunks", DisableDefaultText: true},
			durationFlag("budget", "stop after `DURATION`, such as 20m, and report what is known", "none"),
			&cli.IntFlag{Name: "jobs", Usage: "build up to `N` candidates at a time, the likely next ones ahead; trials whose times do not matter also run in parallel, one on each device, or N where gpus is none, and must not share a port or a file; 1 runs nothing ahead", DefaultText: "by the number of processors; up to three trials without a build or a device, the proof alone"},
			&cli.StringFlag{Name: "gpus", Usage: "make trials on several devices at a time: `N` that are free, all, or a list such as 0,1; none: use no device", DefaultText: "all trials on the devices of [device]"},
			&cli.Int64Flag{Name: "seed", Usage: "seed `N` of random choices", Value: 1},
			durationFlag("limit", "limit of a whole trial, `DURATION`, such as 90s", "10m, or kbisect.toml"),
			asFlag(),
			keepFlag(), inWorktreeFlag(), sandboxFlag(), executorFlag(), waitFlag(),
			&cli.StringFlag{Name: "build", Usage: "`SHELL COMMAND` that builds a candidate first"},
			&cli.StringSliceFlag{Name: "output", Usage: "a file or folder `P` that --build creates, kept in the build cache; repeatable"},
			&cli.IntFlag{Name: "repeat", Usage: "run each candidate `N` times; one failure counts", Value: 1},
			&cli.BoolFlag{Name: "fast", Usage: "skip the proof: no clean builds, no relaunch of the culprit at its full limit", DisableDefaultText: true},
			explainLimitFlag(explain.CulpritLimit),
			&cli.BoolFlag{Name: "fresh", Usage: "search anew: use no answer and no launch of earlier sessions", DisableDefaultText: true},
			&cli.BoolFlag{Name: "no-past", Usage: "do not use how launches scattered in earlier sessions", DisableDefaultText: true},
			&cli.BoolFlag{Name: "no-learn", Usage: "build commits and search hunks although no build and no launch opened what they change", DisableDefaultText: true},
			&cli.BoolFlag{Name: "no-explain", Usage: "do not explain how the culprit differs from its parent", DisableDefaultText: true},
			&cli.BoolFlag{Name: "resume", Usage: "continue the newest unfinished search, or repeat the newest answer", DisableDefaultText: true},
		}...)),
		Action: launching(search.Run),
	}
}

// launching is the action of a command that launches candidates. do gets the revisions as words, and everything else
// that was given as a session.Env. Report paths that could not be written are refused before the first launch.
func launching(do func(ctx context.Context, e session.Env, words []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if err := readFormats(c).check("report"); err != nil {
			return err
		}
		words, command, err := operands(c)
		if err != nil {
			return err
		}
		return do(c.Context, envOf(c, command), words)
	}
}

// envOf is what a command that launches candidates hands to the packages below: the request, and how progress and
// results are shown. command is what follows its --. Those packages never see the command line or the terminal itself.
func envOf(c *cli.Context, command []string) session.Env {
	display := newDisplay(c)
	// A question needs the terminal for itself, so the progress line is taken away until it is answered.
	asking := func(ctx context.Context, question string) (answer string, asked bool, err error) {
		progress.Without(display, func() { answer, asked, err = ask(ctx, c, question) })
		return answer, asked, err
	}
	// The options are read again in each function, which runs when there is a result: nothing needs to carry them.
	return session.Env{Request: requestOf(c, command), Display: display, Ask: asking, Version: version(), Stopwatch: stopwatch.New("start"), Output: session.Output{
		Stdout: c.App.Writer,
		Print: func(d report.Document, l report.Ledger) error {
			return printResult(c.App.Writer, c.Bool("json"), d, l, terminalOf(c))
		},
		Write: func(d report.Document, l report.Ledger) error {
			return readFormats(c).write(d, l, c.App.Writer, sayOn(c))
		},
	}}
}

// printResult writes a result to w, as JSON or as text. JSON has all that is known; text is laid out for the terminal t
// and shows the details only with --verbose. l holds the launches that d refers to.
func printResult(w io.Writer, asJSON bool, d report.Document, l report.Ledger, t render.Terminal) error {
	if asJSON {
		return report.WriteJSON(w, d)
	}
	return render.Text(w, page.New(d, l), t)
}

// workerCommand is the other side of an executor: a job on another machine calls it, and users do not. Everything about
// the trial is in the file SPEC, so it reads neither kbisect.toml nor the store.
func workerCommand() *cli.Command {
	return &cli.Command{
		Name: "worker", Usage: "make the trial that SPEC describes, as the job of a scheduler", ArgsUsage: "SPEC", Hidden: true,
		Description: "An executor ([executor] in kbisect.toml) submits jobs that call this. The result lies beside SPEC as result.json.",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return exit.Usagef("worker takes one file, SPEC")
			}
			return remote.Work(c.Context, c.Args().First(), version())
		},
	}
}
