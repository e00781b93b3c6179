package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/detect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

func initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "write a commented kbisect.toml for the kind of project found here", ArgsUsage: "[FILE]",
		Description: "Looks at the project, or at one FILE of it: a CUDA program (.cu) that one nvcc command builds, with the options\n" +
			"and arguments that its comments name and the time that it prints as its metric, or a script (.py).",
		Flags: []cli.Flag{&cli.StringFlag{Name: "harness", Usage: "create a runnable example that times a kernel properly; `LANGUAGE` is cuda, torch or python"}},
		Action: func(c *cli.Context) error {
			words, _, err := operands(c)
			name := c.String("harness")
			switch {
			case err != nil:
				return err
			case len(words) > 1 || len(words) == 1 && name != "":
				return exit.Usagef("init takes one file at most, and none with --harness, not %q", words)
			case name != "":
				return detect.WriteHarness(c.App.Writer, globals(c).dir, name)
			}
			var path, kind string
			if dir := globals(c).dir; len(words) == 1 {
				path, kind, err = detect.WriteProgram(dir, words[0])
			} else {
				path, kind, err = detect.WriteTop(dir)
			}
			if err != nil {
				return exit.Usage(err)
			}
			fmt.Fprintf(c.App.Writer, "%s written for a project of kind %s\n", path, kind)
			next := "read it"
			if why := unreadableTask(path); why != nil {
				fmt.Fprintf(c.App.Writer, "The problem cannot be read as it is: %v\n", why)
				next = "fix that"
			}
			if text, _ := os.ReadFile(path); bytes.Contains(text, []byte("FILL IN")) {
				next = "fill in what was not found (FILL IN)"
			}
			fmt.Fprintf(c.App.Writer, "Next: %s, then kbisect run --good REV\n", next)
			return nil
		},
	}
}

// unreadableTask is what is wrong with the problem that a configuration names, nil where it names none.
func unreadableTask(path string) error {
	cfg, err := config.Load(path)
	if err != nil || cfg.Kind != config.KindKernelbot {
		return nil // what is not filled in yet is said apart
	}
	_, err = cfg.Project("")
	return err
}
