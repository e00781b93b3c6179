package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/hook"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
)

// hookCommand installs and removes the pre-push hook, and is also the command that the hook itself calls. Package hook
// decides whether a push may go on.
func hookCommand() *cli.Command {
	return parent(&cli.Command{
		Name:  "hook",
		Usage: "install a pre-push hook that stops regressions",
		Description: "Before a push, each branch is compared with what the remote has of it: by a comparison, gate or search of\n" +
			"the same two in the store within two seconds, else by building and launching both until the deadline.\n" +
			"A clear regression stops the push (exit 1). What is not decided by the deadline passes, and the command that\n" +
			"decides it is printed.\n" +
			"KBISECT_SKIP=1 git push, or git push --no-verify, pushes without a check.",
	},
		&cli.Command{
			Name: "install", Usage: "install the hook beside what is there", Action: installHook,
			Description: "An existing pre-push hook is kept and called first. Where core.hooksPath is set, as by husky, the lines to\n" +
				"add there are printed instead, exit 2.",
			Flags: []cli.Flag{durationFlag("deadline", "a push may wait `DURATION` for this hook", "30s")},
		},
		&cli.Command{Name: "uninstall", Usage: "remove the hook and put back what was there before", Action: uninstallHook},
		&cli.Command{
			Name: "pre-push", Usage: "what git calls: reads what is pushed on standard input", ArgsUsage: "REMOTE URL", Action: prePush,
			Description: "Exit codes: 0 the push may go on, 1 it brings a regression, 130 interrupted. A problem with the machine, the\n" +
				"store or the configuration never stops a push; it is printed on standard error.",
			Flags: []cli.Flag{durationFlag("deadline", "be done after `DURATION`", "KBISECT_HOOK_DEADLINE, else 30s")},
		},
	)
}

// prePush is what git calls through the hook, with the pushed refs on standard input. It shows no progress, since git
// prints its own on the same terminal. CheckPush begins a session only if the store has no answer, so it is given
// functions that make the policy and the session.
func prePush(c *cli.Context) error {
	skip := os.Getenv("KBISECT_SKIP")
	stopped, err := hook.CheckPush(c.Context, hook.PushOptions{
		// The deadline counts from here: the user waits from the moment git starts the hook.
		Began: time.Now(), Deadline: readDeadline(c), Skip: skip != "" && skip != "0",
		Dir: globals(c).dir, Remote: c.Args().First(), Refs: c.App.Reader, Messages: c.App.ErrWriter,
		Policy: func(repo *source.Repo) (*policy.Policy, error) { return hookPolicy(c, repo) },
		Begin: func(repo *source.Repo, p *policy.Policy, kind string) (*session.Session, error) {
			e := envOf(c, nil)
			e.Display.Quiet = !e.Display.Verbose
			return session.Begin(c.Context, e, repo, p, kind)
		},
	})
	switch {
	case err != nil:
		return exit.With(exit.Interrupted, err)
	case stopped:
		return exit.With(exit.Regression, nil)
	}
	return nil
}

// hookPolicy reads kbisect.toml, without which a push cannot be checked: other commands can take a command after --
// instead, but git passes none to a hook. The error of ForTrials would suggest one, so the missing file is reported
// here.
func hookPolicy(c *cli.Context, repo *source.Repo) (*policy.Policy, error) {
	path := cmp.Or(globals(c).config, filepath.Join(cmp.Or(repo.WorkDir(), globals(c).dir), config.FileName))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("%s does not exist\nhint: kbisect init writes one", path)
	}
	return policy.ForTrials(requestOf(c, nil), repo)
}

// readDeadline is how long a push may wait: the option, the environment variable, or the default. A variable with an
// invalid value gives a warning and does not stop the push; an invalid option was refused when it was parsed.
func readDeadline(c *cli.Context) time.Duration {
	if d := duration(c, "deadline"); d > 0 {
		return d
	}
	text := os.Getenv(hook.DeadlineVariable)
	if text == "" {
		return hook.DefaultDeadline
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		fmt.Fprintf(c.App.ErrWriter, "kbisect: warning: %s: %v; using %v\n", hook.DeadlineVariable, err, hook.DefaultDeadline)
		return hook.DefaultDeadline
	}
	return d
}

// installHook writes the hook or, if another program manages the hooks here, prints the lines to add there and fails:
// a folder of hooks that is committed, or made by husky, is not kbisect's to write to. A missing kbisect.toml does not
// stop the installation, but is pointed out.
func installHook(c *cli.Context) error {
	repo, dir, err := openHooks(c)
	if err != nil {
		return err
	}
	defer repo.Close()
	if file, why := hook.Managed(repo, dir); file != "" {
		fmt.Fprint(c.App.Writer, hook.Snippet)
		return exit.Usagef("nothing was installed: %s\nhint: add the lines above to %s, an executable that begins with #!/bin/sh", why, file)
	}
	binary, err := hook.OwnPath()
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	done, err := hook.At(dir).Install(hook.Script(binary, duration(c, "deadline")))
	if err != nil {
		return exit.Usage(err)
	}
	fmt.Fprint(c.App.Writer, done)
	if repo.WorkDir() != "" {
		if _, err := os.Stat(filepath.Join(repo.WorkDir(), config.FileName)); err != nil {
			fmt.Fprintf(c.App.Writer, "Next: kbisect init, since the hook checks nothing without %s\n", config.FileName)
		}
	}
	return nil
}

// uninstallHook removes the hook and puts back what was there before. A hook that kbisect did not write is left alone.
func uninstallHook(c *cli.Context) error {
	repo, dir, err := openHooks(c)
	if err != nil {
		return err
	}
	defer repo.Close()
	done, err := hook.At(dir).Uninstall()
	if err != nil {
		return exit.Usage(err)
	}
	fmt.Fprint(c.App.Writer, done)
	return nil
}

// openHooks opens the repository and finds its folder of hooks, for a sub-command that takes no arguments. The folder
// is where git looks, which core.hooksPath may change. The caller closes the repository. All errors are usage errors.
func openHooks(c *cli.Context) (repo *source.Repo, dir string, err error) {
	if c.Args().Present() {
		return nil, "", exit.Usagef("hook %s takes no arguments (got %q)", c.Command.Name, c.Args().Slice())
	}
	if repo, err = source.Open(globals(c).dir); err != nil {
		return nil, "", exit.Usage(err)
	}
	if dir, err = hook.Dir(c.Context, repo); err != nil {
		repo.Close()
		return nil, "", exit.Usage(err)
	}
	return repo, dir, nil
}
