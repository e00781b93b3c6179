package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/pipeline/source"
)

func hookCommand() *cli.Command {
	return &cli.Command{
		Name:  "hook",
		Usage: "a pre-push hook that stops regressions, within a deadline",
		Description: "Before a push, each branch is set against what the remote has of it: by a comparison, gate or search of the\n" +
			"same two in the store within two seconds, else by building and launching both until the deadline. A clear\n" +
			"regression stops the push (exit 1); whatever is not known by then passes, is said, and is compared in the\n" +
			"background, which steps aside for every push and command that launches something.\n" +
			"KBISECT_SKIP=1 git push, or git push --no-verify, pushes without asking.",
		OnUsageError: usageError, HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownBelow(c)
			}
			return cli.ShowSubcommandHelp(c)
		},
		Subcommands: everywhere(
			&cli.Command{
				Name: "install", Usage: "install the hook beside what is there", OnUsageError: usageError, Action: installHook,
				Description: "A pre-push hook that is there already is kept, and called first. Where something else manages the hooks\n" +
					"(core.hooksPath, husky, lefthook, pre-commit) the lines to add there are printed instead, exit 2.",
				Flags: []cli.Flag{
					durationFlag("deadline", "a push may wait `DURATION` for this hook", "30s"),
					&cli.BoolFlag{Name: "force", Usage: "install although lefthook or pre-commit is configured here", DisableDefaultText: true},
				},
			},
			&cli.Command{Name: "uninstall", Usage: "remove the hook and put back what was there before", OnUsageError: usageError, Action: uninstallHook},
			&cli.Command{
				Name: "pre-push", Usage: "what git calls: reads what is pushed on standard input", ArgsUsage: "REMOTE URL", OnUsageError: usageError, Action: prePush,
				Description: "Exit codes: 0 the push may go on, 1 it brings a regression, 130 interrupted. Trouble of the machine, the store\n" +
					"or the configuration never stops a push; it is said on standard error.",
				Flags: []cli.Flag{durationFlag("deadline", "be done after `DURATION`", "KBISECT_HOOK_DEADLINE, else 30s")},
			},
			&cli.Command{
				Name: "status", Usage: "what was queued for the background, and what came of it", OnUsageError: usageError, Action: hookStatus,
				Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "the queue as JSON on standard output", DisableDefaultText: true}},
			},
			&cli.Command{Name: "work", Usage: "compare what is queued", Hidden: true, OnUsageError: usageError, Action: hookWork},
		),
	}
}

// hookDeadline is how long a push waits unless somebody says otherwise. Servers drop a connection on which
// nothing is said for some minutes, and people lose patience sooner.
const hookDeadline = 30 * time.Second

// deadlineVariable sets the deadline where there is no option.
const deadlineVariable = "KBISECT_HOOK_DEADLINE"

// readDeadline is the deadline of a push. A variable that cannot be read is told, and does not stop the push.
func readDeadline(c *cli.Context) time.Duration {
	if d := duration(c, "deadline"); d > 0 {
		return d
	}
	text := os.Getenv(deadlineVariable)
	if text == "" {
		return hookDeadline
	}
	d, err := parseDuration(text)
	if err != nil {
		fmt.Fprintf(c.App.ErrWriter, "kbisect: warning: %s: %v; %v it is\n", deadlineVariable, err, hookDeadline)
		return hookDeadline
	}
	return d
}

// openHookRepo opens the repository that git works on when it calls a hook: git names it where it is not
// the one around the working directory.
func openHookRepo(dir string) (*source.Repo, error) {
	repo, err := source.Open(dir)
	named := os.Getenv("GIT_DIR")
	if named == "" || dir != "." {
		return repo, err
	}
	for _, other := range []string{os.Getenv("GIT_WORK_TREE"), named} {
		if err == nil && sameFile(repo.GitDir(), named) {
			return repo, nil
		}
		if x, otherErr := source.Open(other); other != "" && otherErr == nil {
			if err == nil {
				repo.Close()
			}
			repo, err = x, nil
		}
	}
	return repo, err
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// gitSays runs git on a repository and returns what it says, without the newline at its end.
func gitSays(ctx context.Context, repo *source.Repo, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir=" + repo.GitDir()}, args...)...)
	cmd.Env = append(plainEnv(os.Environ()), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0")
	if cmd.Dir = repo.GitDir(); repo.WorkDir() != "" {
		cmd.Dir = repo.WorkDir()
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// plainEnv is an environment without the variables by which git, when it calls a hook, leads other gits to
// its repository.
func plainEnv(env []string) (out []string) {
	local := map[string]bool{}
	for _, name := range []string{"ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR", "CONFIG", "CONFIG_COUNT", "CONFIG_PARAMETERS", "DIR", "GRAFT_FILE",
		"IMPLICIT_WORK_TREE", "INDEX_FILE", "INTERNAL_SUPER_PREFIX", "NAMESPACE", "NO_REPLACE_OBJECTS", "OBJECT_DIRECTORY", "PREFIX",
		"QUARANTINE_PATH", "REPLACE_REF_BASE", "SHALLOW_FILE", "WORK_TREE"} {
		local["GIT_"+name] = true
	}
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); !local[name] {
			out = append(out, v)
		}
	}
	return out
}

// ownPath is the path by which kbisect was called: a link that a package manager keeps up to date, rather
// than the file that it leads to today.
func ownPath() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	called, lookErr := exec.LookPath(os.Args[0])
	if lookErr != nil || !sameFile(called, exe) {
		return exe, nil
	}
	return filepath.Abs(called)
}
