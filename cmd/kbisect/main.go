// Kbisect finds the change that made a GPU kernel time out, slow down, crash or compute nonsense.
//
// It walks a git history, builds and runs each candidate under limits for every phase, and names the guilty commit, the
// phase, the evidence and the price. The user's work tree, index, HEAD and refs are never touched; kbisect exports
// candidates into folders of its own.
//
// Its manual is the folder docs, a page for each topic: kbisect help topics lists them.
//
// For developers: this package is the command line, the terminal and the exit codes, one file a command. A command
// turns its options into a policy.Request, calls a package below internal with a session.Env, and returns an error that
// carries the exit code ([exitCode]). It must not hold logic that a test would want.
//
// # One search, step by step
//
// How kbisect run --good A --bad B -- ./t.sh works, from the command line to the printed report. Each line names a file
// and the functions to read in it, in order; an arrow is a call. What is called in a line "beside" returns, and can be
// read by itself. TestSpine keeps the list true.
//
//   - `cmd/kbisect/main.go`: `main` → `run` → `newApp` lists the commands
//   - `cmd/kbisect/run.go`: `runCommand` has the options; `launching` → `envOf` reads them, and will print the result
//   - `cmd/kbisect/internal/search/search.go`: `Run` → `run` → `find` → `History`
//   - beside: `cmd/kbisect/internal/search/search.go`: `begin` → `read`, `between`, before anything is launched
//   - beside: `cmd/kbisect/internal/policy/reader.go`: `ForSearch` decides everything about the run
//   - beside: `pipeline/source/repo.go`: `Range` is the commits between the ends
//   - beside: `cmd/kbisect/internal/session/session.go`: `Launch` → `Begin` opens the store; `Start` → `open` opens devices and pipelines
//   - beside: `cmd/kbisect/internal/session/ledger.go`: `remember` sets a memory above slots above pipelines
//   - `bisect/find/find.go`: `Culprits` → `whole` → `ask` launches each end once and chooses the question
//   - `bisect/search/run.go`: `Locate` → `narrow` → `step` → `Try` → `Launch`, the loop
//   - beside: `bisect/belief/failures.go` (or the levels below it; the question chooses): `Next` chooses the next commit, `Decided` ends
//     the search
//   - beside: `bisect/search/question/failure.go`: `Prove` launches the culprit and its parents from clean builds
//   - `bisect/search/ledger.go`: `Launch` → `Sample` keeps every launch
//   - `pipeline/memory/memory.go`: `Sample` stores it, where it is not remembered
//   - `pipeline/slots/slots.go`: `Sample` → `start` makes it in a slot; `session/slots.go` has small wrappers below
//   - `pipeline/pipeline.go`: `Sample` → `once` → `prepare` → `build`, then `once` → `trial` → `launch`
//   - `pipeline/trial/build.go`: `Build` → `export`
//   - beside: `pipeline/workspace/workspace.go`: `Switch` writes the commit into a private export
//   - `pipeline/trial/launch.go`: `Launch` → `run`
//   - beside: `pipeline/workspace/workspace.go`: `Run` starts a process there
//   - beside: `pipeline/proc/run.go`: `Run` enforces its limits and kills its tree
//   - beside: `pipeline/trial/process.go`: `finish`; in which phase a limit was hit says `kernels/protocol/teardown.go`
//   - `pipeline/trial/classify.go`: `classify` decides how it ended
//   - `bisect/report/search.go`: `NewSearch` is the answer as data, the JSON
//   - `cmd/kbisect/run.go`: `printResult`, text or JSON
//   - `bisect/report/page/page.go`: `New` is the answer in sections and words
//   - `bisect/report/render/text.go`: `Text`
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/store"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/urfave/cli/v2"
)

func main() {
	if proc.Warden() { // this process was started by another kbisect to supervise its trials, and has done so
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// SIGPIPE is caught because it would otherwise end the process at the first write to a closed pipe, before the
	// session is stored. The write then fails with EPIPE, see unread.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	go endWithReader(broken, stop)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	// Called and not deferred: os.Exit runs no deferred functions. From here on a second interrupt ends the process.
	stop()
	proc.Close()
	os.Exit(code)
}

// endWithReader calls stop when the reader of standard output or standard error has gone. SIGPIPE alone does not show
// that: it also comes from a pipe to a child process that ended before we wrote to it. It runs until the process ends.
func endWithReader(broken <-chan os.Signal, stop func()) {
	for range broken {
		fds := []unix.PollFd{{Fd: 1}, {Fd: 2}} // standard output and standard error
		if _, err := unix.Poll(fds, 0); err != nil || (fds[0].Revents|fds[1].Revents)&(unix.POLLERR|unix.POLLHUP) != 0 {
			stop()
		}
	}
}

// run is the whole program except for the process itself, so that tests can call it; it returns the exit code.
// Every stream goes through a [words.Writer], because names of candidates, commits and files come from strangers
// and may contain control characters.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(stderr, "kbisect: internal error: %v\n%s\nhint: please report this; the search is kept, kbisect run --resume goes on\n", r, debug.Stack())
			code = exit.Internal
		}
	}()
	stdout, stderr = words.NewWriter(stdout), words.NewWriter(stderr)
	app := newApp(stdin, stdout, stderr)
	err := app.RunContext(ctx, permute(app, args))
	return complain(ctx, err, stderr)
}

// complain prints an error and returns its exit code. An [exit.Error] without a cause means that the output already
// says everything, and prints nothing.
func complain(ctx context.Context, err error, stderr io.Writer) int {
	var coded *exit.Error
	if unread(err) {
		return exit.Unread
	}
	if err != nil && !(errors.As(err, &coded) && coded.Err == nil) {
		fmt.Fprintf(stderr, "kbisect: %s\n", err)
	}
	return exitCode(ctx, err)
}

// unread reports whether an error only says that the reader of our output has gone, as after kbisect sessions | head.
// That is the reader's choice, and nobody is left to read a message. An EPIPE of any other file is a real error.
func unread(err error) bool {
	var on *fs.PathError
	return errors.As(err, &on) && on.Err == syscall.EPIPE && (on.Path == os.Stdout.Name() || on.Path == os.Stderr.Name())
}

// exitCode is the exit code of an error: the one that it carries, or that of its type. An error of an unknown type
// counts as an internal one, so that it is reported. Interrupts come late, because an interrupted command may still end
// with a result or an error of its own.
func exitCode(ctx context.Context, err error) int {
	var (
		coded   *exit.Error
		infra   *bisect.InfraError
		stuck   *proc.StuckError
		busy    *store.BusyError
		config  *config.Error
		command *trial.CommandError
	)
	switch {
	case err == nil:
		return exit.OK
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &config), errors.As(err, &command):
		return exit.UsageError
	case errors.As(err, &infra), errors.As(err, &stuck), errors.As(err, &busy):
		return exit.Machine
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return exit.Interrupted
	}
	return exit.Internal
}

// version is the version of the module as it was built, or "devel". It is stored with every session.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// newApp is the command line: every command with its help, in the order in which the help lists them below their
// headings. Each run needs a new one, since the library stores what it has parsed in it.
func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:  "kbisect",
		Usage: "find the change that made a GPU kernel time out, slow down, crash or compute nonsense",
		Description: "kbisect walks a git history, builds and runs each candidate under limits for every phase,\n" +
			"compares with a known-good baseline, and names the guilty commit, its phase and the evidence.\n" +
			"Start with: kbisect demo, kbisect doctor, kbisect init, or\n" +
			"kbisect run --good v1.0 --limit 60s --build 'make' -- ./test.sh\n\n" +
			"Exit codes: 0 answer found, or no regression; 1 regression found (gate, compare, hook);\n" +
			"2 usage or configuration; 3 inconclusive; 4 both revisions behave the same; 5 machine problem;\n" +
			"70 internal error; 130 interrupted (kbisect run --resume goes on).",
		Version: version(),
		Reader:  stdin, Writer: stdout, ErrWriter: stderr,
		ExitErrHandler:  func(*cli.Context, error) {}, // the library would exit here, before any defer runs
		HideHelpCommand: true,
		Flags:           append(globalFlags(false), cli.HelpFlag), // the library omits it if there is a command help
		OnUsageError: func(c *cli.Context, err error, _ bool) error {
			return exit.Usagef("%w\nhint: kbisect --help", optionError(err, c.App.Flags))
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Usagef("unknown command %q%s\nhint: kbisect --help lists the commands", c.Args().First(), wording.DidYouMean(c.Args().First(), names(c.App.VisibleCommands())))
			}
			return cli.ShowAppHelp(c)
		},
		Commands: everywhere(runCommand(), tryCommand(), compareCommand(), gateCommand(), measureCommand(), explainCommand(), historyCommand(), sessionsCommand(), showCommand(), reportCommand(), initCommand(), doctorCommand(), hookCommand(), baselineCommand(), demoCommand(), cacheCommand(), simulateCommand(), completionCommand(), manCommand(), versionCommand(), helpCommand(), completeCommand(), workerCommand()),
	}
}
