package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/detect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/preview"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// initCommand writes a first kbisect.toml; package detect guesses what belongs in it, and package preview tries it.
func initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "write a short kbisect.toml for the kind of project found here, and try it once", ArgsUsage: "[-- COMMAND ARGS]",
		Description: "Looks at the project, or takes the COMMAND to run. HEAD is then built and launched once; a time\n" +
			"that it prints becomes the metric.",
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "harness", Usage: "create a runnable example that times a kernel properly; `LANGUAGE` is cuda, torch or python"},
			&cli.StringFlag{Name: "build", Usage: "`SHELL COMMAND` that builds for -- COMMAND"},
			&cli.BoolFlag{Name: "no-try", Usage: "only write the file; launch nothing", DisableDefaultText: true},
		},
		Action: initAction,
	}
}

// initAction writes a configuration or an example and says what to do next, above all what is still to be filled
// in. It never overwrites a configuration.
func initAction(c *cli.Context) error {
	files, command, err := operands(c)
	dir, name := globals(c).dir, c.String("harness")
	switch {
	case err != nil:
		return err
	case len(files) > 0:
		return exit.Usagef("init takes no file, not %q\nhint: kbisect init --build 'SHELL COMMAND' -- COMMAND ARGS", files)
	case c.String("build") != "" && command == nil:
		return exit.Usagef("--build belongs to a command\nhint: kbisect init --build 'make' -- ./bench")
	case name != "" && command != nil:
		return exit.Usagef("--harness and a command do not go together")
	}
	// Everything is checked before the first file is written.
	if err := wantRepository(c, dir); err != nil {
		return err
	}
	if name != "" {
		return detect.WriteHarness(c.App.Writer, dir, name)
	}
	var path, kind string
	if command != nil {
		path, kind, err = detect.WriteCommand(dir, c.String("build"), command)
	} else {
		path, kind, err = detect.WriteTop(dir)
	}
	if err != nil {
		return exit.Usage(err)
	}
	fmt.Fprintf(c.App.Writer, "%s written for a project of kind %s\n", path, kind)
	// The most urgent step is named. A file that is not complete, or a problem that cannot be read, is not tried.
	next := "read it"
	if why := unreadableTask(path); why != nil {
		fmt.Fprintf(c.App.Writer, "The problem cannot be read as it is: %v\n", why)
		next = "fix that"
	}
	if text, _ := os.ReadFile(path); bytes.Contains(text, []byte("FILL IN")) {
		next = "fill in what was not found (FILL IN)"
	}
	if next == "read it" && kind != kernels.KindKernelbot && !c.Bool("no-try") {
		if next, err = tryOnce(c, path); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.App.Writer, "Next: %s, then kbisect try --good REV\n", next)
	return nil
}

// tryOnce launches HEAD with the configuration that was written, and makes a time that it prints the metric. What does
// not work yet is printed and does not fail the command, since the configuration is there to be completed. next is
// what the user should do first. The error is that of an interrupt or of writing the metric.
func tryOnce(c *cli.Context, path string) (next string, err error) {
	next = "read it"
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return next, nil // a configuration may come before the repository
	}
	_, err = source.Head(repo)
	repo.Close()
	if err != nil {
		return next, nil // there is no commit yet
	}
	e := envOf(c, nil)
	e.Request.Config = path
	d, output, err := preview.Once(c.Context, e)
	switch {
	case c.Context.Err() != nil:
		return next, err
	case err != nil && d == nil: // nothing was launched: the configuration or the build is wrong
		fmt.Fprintf(c.App.Writer, "Not tried: %v\n", err)
		return "correct it", nil
	}
	fmt.Fprintf(c.App.Writer, "Tried HEAD once: %s\n", d.Describe())
	if !d.Passes() {
		return "correct it", nil
	}
	line, added, err := detect.AddMetric(path, output)
	switch {
	case err != nil:
		return next, exit.Usage(err)
	case added:
		fmt.Fprintf(c.App.Writer, "It prints %q: the metric is read from there.\n", line)
	}
	return next, nil
}

// wantRepository asks whether to write a configuration although there is no repository whose history could be searched.
// Without a terminal to ask at, the missing repository is a usage error, as is the answer no.
func wantRepository(c *cli.Context, dir string) error {
	repo, err := source.Open(dir)
	if err == nil {
		repo.Close()
		return nil
	}
	if !errors.Is(err, source.ErrNoRepository) {
		return exit.Usage(err)
	}
	answer, asked, askErr := ask(c.Context, c, "There is no git repository here, and kbisect searches a history. Write kbisect.toml anyway? [y/N] ")
	switch {
	case askErr != nil:
		return askErr
	case strings.HasPrefix(strings.ToLower(answer), "y"):
		return nil
	case asked:
		return exit.Usagef("nothing was written\nhint: git init, then kbisect init again")
	}
	return exit.Usage(err)
}

// ask puts a question to a user at a terminal. asked is false if input or error output is not one: the question has to
// be seen and the answer to come from a person. The end of ctx is an error; the goroutine that reads stays behind
// then, because a read of a terminal cannot be interrupted.
func ask(ctx context.Context, c *cli.Context, question string) (answer string, asked bool, err error) {
	in, ok := c.App.Reader.(*os.File)
	out, shown := words.Raw(c.App.ErrWriter).(*os.File)
	if !ok || !shown || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return "", false, nil
	}
	fmt.Fprint(c.App.ErrWriter, question)
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n') // the end of the input is an empty answer
		line <- strings.TrimSpace(text)
	}()
	select {
	case <-ctx.Done():
		return "", true, ctx.Err()
	case text := <-line:
		return text, true, nil
	}
}

// unreadableTask is what is wrong with the KernelBot problem that a configuration names; nil if it names none, or if
// the configuration itself is not complete yet. Without this check it would come up only at the first search.
func unreadableTask(path string) error {
	cfg, err := config.Load(path)
	if err != nil || cfg.Kind != kernels.KindKernelbot {
		return nil // what is not filled in yet is said apart
	}
	_, err = cfg.Project("")
	return err
}
