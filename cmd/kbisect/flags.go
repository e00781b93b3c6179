package main

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
)

// durationValue is the value of an option that takes a duration as kbisect.toml does. The library's own DurationFlag
// accepts other texts, such as negative ones, and has other error messages.
type durationValue time.Duration

// Set implements flag.Value.
func (v *durationValue) Set(s string) error {
	d, err := config.ParseDuration(s)
	*v = durationValue(d)
	return err
}

// String implements flag.Value.
func (v *durationValue) String() string { return time.Duration(*v).String() }

// durationFlag is an option that takes a duration. standard is its default in words, which the help shows; the
// value is 0 unless it is given.
func durationFlag(name, usage, standard string) cli.Flag {
	return &cli.GenericFlag{Name: name, Usage: usage, Value: new(durationValue), DefaultText: standard}
}

// duration is the value of a durationFlag; 0 if it was not given.
func duration(c *cli.Context, name string) time.Duration {
	v, ok := c.Generic(name).(*durationValue)
	if !ok {
		return 0
	}
	return time.Duration(*v)
}

// newDisplay shows progress on standard error, as --quiet and --verbose say.
func newDisplay(c *cli.Context) *progress.Display {
	return progress.New(c.App.ErrWriter, globals(c).quiet, globals(c).verbose)
}

// waitValue is a duration that may be left out: --wait alone waits without end, which is stored as a negative value.
type waitValue struct{ durationValue }

// Set implements flag.Value. "true" is what the library passes for an option without a value.
func (v *waitValue) Set(s string) error {
	if s == "true" {
		v.durationValue = -1
		return nil
	}
	return v.durationValue.Set(s)
}

// IsBoolFlag tells the library that the value may be left out. The library then takes a value only in the form
// --wait=30m, so the two words that users type are put together first; see joined.
func (v *waitValue) IsBoolFlag() bool { return true }

// waitFlag is --wait, with or without a duration.
func waitFlag() cli.Flag {
	return &cli.GenericFlag{Name: "wait", Usage: "wait for another kbisect in the repository, at most `DURATION`, such as 30m, where one is given", Value: new(waitValue), DefaultText: "exit 5"}
}

// runGroup is the heading under which the help of run lists an option.
func runGroup(option string) string {
	switch option {
	case "good", "bad", "find-good", "axis", "commit", "first-parent", "path":
		return "Where to search"
	case "find", "phase", "metric", "better", "improvement", "all":
		return "What to look for"
	case "build", "output", "limit", "as", "executor", "keep", "in-worktree", "sandbox", "repeat":
		return "How candidates are built and run"
	case "json", "markdown", "report":
		return "What is written"
	}
	return "How far to go"
}

// grouped puts the options of run under their headings. It changes them and returns them.
func grouped(flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		// Every kind of option has this field, but the library's interface has no method that sets it.
		reflect.ValueOf(f).Elem().FieldByName("Category").SetString(runGroup(f.Names()[0]))
	}
	return flags
}

// optional reports whether the value of an option may be left out, which only that of --wait may.
func optional(f cli.Flag) bool {
	g, ok := f.(*cli.GenericFlag)
	if !ok {
		return false
	}
	_, ok = g.Value.(*waitValue)
	return ok
}

// asFlag is --as SERVER.
func asFlag() cli.Flag {
	return &cli.StringFlag{Name: "as", Usage: "use the rules of `SERVER`: kernelbot limits the build to 120s and the run, with empty caches, to 180s; with kind kernelbot, each stage as its task.yml says"}
}

// requestOf reads the options of a command as plain data; argv is what follows its --. The library returns zero values
// for options that the command does not have, so one function serves all commands.
func requestOf(c *cli.Context, argv []string) *policy.Request {
	g := globals(c)
	takes, _, _ := strings.Cut(c.Command.ArgsUsage, "[-- ")
	if c.Command.Name == "run" { // its ends are options, which ArgsUsage does not show
		takes = "--good REV"
	}
	q := &policy.Request{
		Name: strings.TrimPrefix(c.Command.HelpName, c.App.Name+" "), Usage: strings.TrimSpace(c.Command.Name + " " + takes), Argv: argv, Dir: g.dir, Config: g.config, Quiet: g.quiet, Warnings: c.App.ErrWriter,
		Good: c.String("good"), GoodSet: c.IsSet("good"), Bad: c.String("bad"), BadSet: c.IsSet("bad"), FindGood: c.Bool("find-good"), FirstParent: c.Bool("first-parent"),
		Axis: c.String("axis"), Commit: c.String("commit"), Find: c.String("find"), Phase: c.String("phase"), Metric: c.String("metric"), Better: c.String("better"),
		Improvement: c.Bool("improvement"), All: c.Bool("all"), Paths: c.StringSlice("path"), NoHunks: c.Bool("no-hunks"),
		Budget: duration(c, "budget"), BudgetSet: c.IsSet("budget"), Limit: duration(c, "limit"), GPUs: c.String("gpus"), Jobs: c.Int("jobs"), JobsSet: c.IsSet("jobs"), Seed: c.Int64("seed"),
		As: c.String("as"), Build: c.String("build"), Outputs: c.StringSlice("output"), Keep: c.StringSlice("keep"), InWorktree: c.Bool("in-worktree"), Sandbox: c.Bool("sandbox"), Repeat: c.Int("repeat"), Fast: c.Bool("fast"),
		ExplainLimit: duration(c, "explain-limit"), NoExplain: c.Bool("no-explain"), NoPast: c.Bool("no-past"), NoLearn: c.Bool("no-learn"), Fresh: c.Bool("fresh"), Resume: c.Bool("resume"),
		Effect: c.String("effect"), Error: c.Float64("error"), ErrorSet: c.IsSet("error"), Pairs: c.Int("pairs"), PairsSet: c.IsSet("pairs"), Launches: c.Int("launches"), Profile: !c.Bool("no-profile"),
	}
	q.Bare, _ = c.App.Metadata[bareCommand].(bool)
	q.Executor, _ = c.Value("executor").(string) // doctor has a switch of this name
	if w, ok := c.Generic("wait").(*waitValue); ok {
		q.Wait = time.Duration(w.durationValue)
	}
	return q
}

// The options that several commands share stand here, so that they are explained in the same words everywhere.
func keepFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "keep", Usage: "a file or folder `P` of the work tree, ignored or not committed, that every candidate gets; repeatable"}
}

func inWorktreeFlag() cli.Flag {
	return &cli.BoolFlag{Name: "in-worktree", Usage: "make each candidate a linked work tree of the repository (git worktree), which shares its refs and configuration", DisableDefaultText: true}
}

func sandboxFlag() cli.Flag {
	return &cli.BoolFlag{Name: "sandbox", Usage: "build and launch candidates where they can write only their own folders and reach no network, no other process and no other device", DisableDefaultText: true}
}

func executorFlag() cli.Flag {
	return &cli.StringFlag{Name: "executor", Usage: "make trials here (local), or as jobs of a `KIND` of scheduler: slurm, kubernetes, or command with [executor] in kbisect.toml", DefaultText: "kbisect.toml, else local"}
}

func betterFlag() cli.Flag {
	return &cli.StringFlag{Name: "better", Usage: "`DIRECTION` of the metric, higher or lower", DefaultText: "by its unit"}
}

// trialFlags are the options of every command that launches candidates named by the user.
func trialFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "metric", Usage: "the `NAME` of what is measured: one of kbisect.toml, wall, cpu (processor time), instructions, phase.NAME", DefaultText: "those of kbisect.toml, else time, else wall"},
		betterFlag(),
		durationFlag("budget", "stop after `DURATION`, such as 20m, and report what is known", "none"),
		durationFlag("limit", "limit of a whole trial, `DURATION`, such as 90s", "10m, or kbisect.toml"),
		&cli.StringFlag{Name: "build", Usage: "`SHELL COMMAND` that builds a candidate first"},
		&cli.StringSliceFlag{Name: "output", Usage: "a file or folder `P` that --build creates, kept in the build cache; repeatable"},
		&cli.StringSliceFlag{Name: "path", Usage: "a file or folder `P` that build or run reads; repeatable"},
		keepFlag(), inWorktreeFlag(), sandboxFlag(), executorFlag(), waitFlag(),
	}
}

// judgeFlags are the options of a command that compares two candidates. They have no value of their own as a default,
// so that those of kbisect.toml count unless an option is given.
func judgeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "effect", Usage: "smallest change to detect, `SHARE`, such as 1%", DefaultText: "kbisect.toml, else 3%"},
		&cli.Float64Flag{Name: "error", Usage: "probability `P` of a wrong answer", DefaultText: "kbisect.toml, else 0.01"},
		&cli.IntFlag{Name: "pairs", Usage: "exactly `N` pairs of launches", DefaultText: "as many as needed"},
	}
}

// operands divides what follows the options of a command at the user's --. What comes after it is a command to run;
// nil if there is no --. All operands of run are its command, as for git bisect run. For the others, a -- with nothing
// after it is a usage error.
func operands(c *cli.Context) (words, command []string, err error) {
	all := c.Args().Slice()
	i := slices.Index(all, "--")
	switch {
	case c.Command.Name == "run" && len(all) > 0:
		return nil, all, nil
	case c.Command.Name == "run":
		return nil, nil, nil
	case i < 0:
		return all, nil, nil
	case i == len(all)-1:
		return nil, nil, exit.Usagef("there is no command after --")
	}
	return all[:i], all[i+1:], nil
}

// bareCommand is the key in the app's metadata that says whether the command of run stands there without a --.
const bareCommand = "bare command"

// permute moves the options of a command before its operands, where the library wants them, so that users may write
// them anywhere before --. Unknown options are left for the library to complain about. The library removes the first
// --, so one is inserted before the operands; the user's own is then still there for operands to find. args is not
// changed.
func permute(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	// First the way down to the command, through global options and the command that it is a sub-command of.
	at, commands, flags := 1, app.Commands, app.Flags
	var command *cli.Command
	args = slices.Clone(args)
	for at < len(args) {
		if n := optionWords(flags, args[at:]); n > 0 {
			one := joined(flags, args[at:at+n])
			args = slices.Replace(args, at, at+n, one...)
			at += len(one)
			continue
		}
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[at]) })
		if i < 0 {
			break
		}
		command = commands[i]
		commands, flags = command.Subcommands, command.Flags
		at++
	}
	if command == nil || command.SkipFlagParsing {
		return args
	}
	// What follows the options of run is the user's command, which has options of its own, so nothing may be moved.
	if command.Name == "run" {
		app.Metadata = map[string]any{bareCommand: at < len(args) && args[at] != "--"}
		return args
	}
	// From here on args[at:] are the options and operands of the command in any order, up to the user's own --.
	var options, operands []string
	rest := args[at:]
	for len(rest) > 0 && rest[0] != "--" {
		n := optionWords(flags, rest)
		if n == 0 {
			operands, rest = append(operands, rest[0]), rest[1:]
			continue
		}
		options, rest = append(options, joined(flags, rest[:n])...), rest[n:]
	}
	if len(operands)+len(rest) > 0 {
		options = append(options, "--")
	}
	return slices.Concat(args[:at], options, operands, rest)
}

// optionWords is how many words the option at the beginning of a list takes, 1 or 2; 0 if the list begins with
// something else, to which a lone - (standard output) belongs. An unknown option takes one. --wait takes the next word
// only if that is a duration, or it would swallow a revision.
func optionWords(flags []cli.Flag, list []string) int {
	word := list[0]
	if len(word) < 2 || word[0] != '-' || word == "--" {
		return 0
	}
	name, _, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
	f := flagNamed(flags, name)
	if _, isBool := f.(*cli.BoolFlag); given || f == nil || isBool || len(list) == 1 {
		return 1
	}
	if optional(f) {
		if _, err := config.ParseDuration(list[1]); err != nil {
			return 1
		}
	}
	return 2
}

// joined is an option and its value as the library reads them: as one word if the value may be left out.
func joined(flags []cli.Flag, words []string) []string {
	if len(words) == 2 && optional(flagNamed(flags, strings.TrimLeft(words[0], "-"))) {
		return []string{words[0] + "=" + words[1]}
	}
	return words
}
