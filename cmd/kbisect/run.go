package main

import (
	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/search"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "find the commit that is to blame",
		ArgsUsage: "[-- COMMAND ARGS]",
		Description: "Judges both ends, searches the commits between them, confirms the culprit against its parents.\n" +
			"A failure that shows only in some launches is found as well: commits are then launched again,\n" +
			"as often as it takes. With --find timeout, crash, wrong or any, a bad end that ends well is\n" +
			"launched up to 20 times until it fails.\n" +
			"With -- COMMAND no configuration is needed: 0 is good, 125 is skip, anything else is bad, and\n" +
			"128 and up is a crash of the candidate; a script written for git bisect run works unchanged.\n" +
			"Without it, kbisect.toml in the work tree says how to build and run.\n\n" +
			"A program may say more on the descriptor that KBISECT_FD names, one fact a line: phase: NAME,\n" +
			"case: NAME, sample: 46.8 us, metric NAME: VALUE UNIT, check: pass, check: fail WHY, skip: WHY,\n" +
			"infra: WHY.",
		OnUsageError: usageError,
		Flags: append(formatFlags(), []cli.Flag{ // hidden ones are not in this version, see refuseUnavailable
			&cli.StringFlag{Name: "good", Usage: "the good end, `REV` (default: the newest recorded good ancestor)"},
			&cli.StringFlag{Name: "bad", Usage: "the bad end, `REV`", Value: "HEAD"},
			&cli.BoolFlag{Name: "find-good", Usage: "walk back from the bad end, in doubling steps, to a good one", DisableDefaultText: true},
			&cli.StringFlag{Name: "axis", Usage: "search along `history`, flags (those of kbisect.toml, in one commit) or hunks (of --commit, or between the ends)", Value: "history"},
			&cli.StringFlag{Name: "commit", Usage: "the commit `REV` whose hunks are searched"},
			&cli.StringFlag{Name: "find", Usage: "the complaint `CLASS`: slow, timeout, wrong, crash, build, or any failure (default: what the bad end shows)"},
			&cli.StringFlag{Name: "phase", Usage: "the `NAME` of the phase in which the time-out must be"},
			&cli.StringFlag{Name: "metric", Usage: "the `NAME` of the metric that got slow: one of kbisect.toml, wall, phase.NAME"},
			&cli.BoolFlag{Name: "improvement", Usage: "find what made a metric better, not worse", DisableDefaultText: true},
			&cli.BoolFlag{Name: "all", Usage: "every culprit in the range, not only one, with the share of each; also what was introduced and fixed in between", DisableDefaultText: true},
			&cli.BoolFlag{Name: "first-parent", Usage: "follow only the first parent of merges", DisableDefaultText: true},
			&cli.StringSliceFlag{Name: "path", Usage: "what build and run read, `P`; repeatable; commits that leave it alone are never built"},
			&cli.BoolFlag{Name: "no-hunks", Usage: "stop at the commit: do not look for what in it is to blame", DisableDefaultText: true},
			durationFlag("budget", "stop after `DURATION`, such as 20m, with what is known then", "none"),
			&cli.IntFlag{Name: "jobs", Usage: "build `N` candidates at a time, the likely next ones ahead. Trials that no times are taken of are made at a time, too: one on each device of kbisect.toml, or N on the processors where gpus is none; they must not share a port or a file", DefaultText: "by the number of processors"},
			&cli.Int64Flag{Name: "seed", Usage: "`N` for whatever is drawn at random", Value: 1},
			durationFlag("limit", "the whole trial may take `DURATION`, such as 90s", "10m, or kbisect.toml"),
			asFlag(),
			&cli.StringFlag{Name: "build", Usage: "`SHELL COMMAND` that builds a candidate first"},
			&cli.StringSliceFlag{Name: "output", Usage: "file or folder `P` that --build makes; repeatable; it is kept in the build cache"},
			&cli.IntFlag{Name: "repeat", Usage: "run each candidate `N` times; one failure counts", Value: 1},
			&cli.BoolFlag{Name: "fast", Usage: "name the commit without the proof: no clean builds, and the culprit is not launched again at its full limit", DisableDefaultText: true},
			explainLimitFlag(explain.CulpritLimit),
			&cli.BoolFlag{Name: "no-explain", Usage: "do not say why the culprit differs from its parent", DisableDefaultText: true},
			&cli.BoolFlag{Name: "resume", Usage: "go on with the newest search that did not come to its end, or repeat the newest answer", DisableDefaultText: true},
		}...),
		Action: runAction,
	}
}

func runAction(c *cli.Context) error {
	if err := readFormats(c).check(); err != nil {
		return err
	}
	e := envOf(c, nil)
	e.Request = requestOf(c)
	return search.Run(c.Context, e)
}
