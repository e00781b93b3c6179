package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/fixtures"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "make a repository with a planted Round 9 and run the main job on it", OnUsageError: usageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "on", Usage: "what the kernels run on: `cpu` or cuda", Value: "cpu"},
			&cli.StringFlag{Name: "dir", Usage: "make the repository in `DIR` and keep it (default: a temporary folder, removed afterwards)"},
			&cli.BoolFlag{Name: "only-make", Usage: "make the repository in --dir and stop"},
			&cli.BoolFlag{Name: "json", Usage: "the finding as JSON"},
		},
		Action: demoAction,
	}
}

// planted is a history with something to find.
type planted struct {
	archive []byte
	story   string
	hunts   []hunt
}

// hunt is one search in a planted history.
type hunt struct {
	config    []byte
	good, bad string
	flags     bool // search the flags of the bad end as well
}

func plantedOn(device string) (planted, error) {
	switch device {
	case "cpu":
		return planted{fixtures.Round9(), "Round 9: a dual GEMM that ran well at tag round8 hits its limit at HEAD.", []hunt{
			{config: fixtures.Round9Config(), good: fixtures.Round9Good, bad: fixtures.Round9Bad, flags: true},
		}}, nil
	case "cuda":
		return planted{fixtures.CUDASmall(), "A CUDA kernel that slowed down between v1 and v2 and hits its limit at HEAD.", []hunt{
			{config: fixtures.CUDASmallSlowConfig(), good: fixtures.CUDASmallGood, bad: fixtures.CUDASmallBetween},
			{config: fixtures.CUDASmallTimeoutConfig(), good: fixtures.CUDASmallBetween, bad: "HEAD"},
		}}, nil
	}
	return planted{}, usagef("demo --on %s is not available in this version\nhint: --on cpu, or --on cuda with nvcc and a GPU", device)
}

func demoAction(c *cli.Context) error {
	p, err := plantedOn(c.String("on"))
	if err != nil {
		return err
	}
	dir := c.String("dir")
	if c.Bool("only-make") && dir == "" {
		return usagef("--only-make needs --dir")
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "kbisect-demo-"); err != nil {
			return &codeError{exitMachine, err}
		}
		defer func() {
			os.RemoveAll(dir)
			if !c.Bool("json") {
				fmt.Fprintln(c.App.Writer, "\nThe repository was a temporary one. To keep it and look around:\n  kbisect demo --dir round9")
			}
		}()
	} else if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return usagef("--dir %s is not empty\nhint: name a folder that does not exist yet", dir)
	}
	made, err := fixtures.Replay(p.archive, dir)
	if err != nil {
		return fmt.Errorf("making the demo repository: %w", err)
	}
	for i, h := range p.hunts {
		if err := os.WriteFile(demoConfig(dir, i), h.config, 0o666); err != nil {
			return &codeError{exitMachine, err}
		}
	}
	fmt.Fprintf(c.App.ErrWriter, "%s\n%d commits in %s\n", p.story, len(made.Order), dir)
	if c.Bool("only-make") {
		return nil
	}
	for i, h := range p.hunts {
		if err := hunted(c, dir, demoConfig(dir, i), "--good", h.good, "--bad", h.bad); err != nil {
			return err
		}
		if !h.flags {
			continue
		}
		fmt.Fprintln(c.App.Writer)
		if err := hunted(c, dir, demoConfig(dir, i), "--axis", axisFlags, "--bad", h.bad); err != nil {
			return err
		}
	}
	return nil
}

// demoConfig names the configuration of search i; the first has the usual name.
func demoConfig(dir string, i int) string {
	if i == 0 {
		return filepath.Join(dir, configName)
	}
	return filepath.Join(dir, fmt.Sprintf("kbisect-%d.toml", i+1))
}

// hunted runs one search as a user would.
func hunted(c *cli.Context, dir, config string, options ...string) error {
	args := []string{"kbisect", "-C", dir, "--config", config}
	if globals(c).quiet {
		args = append(args, "--quiet")
	}
	args = append(append(args, "run"), options...)
	if c.Bool("json") {
		args = append(args, "--json")
	}
	fmt.Fprintf(c.App.ErrWriter, "\n$ kbisect run %s\n", strings.Join(options, " "))
	return newApp(c.App.Reader, c.App.Writer, c.App.ErrWriter).RunContext(c.Context, args)
}
