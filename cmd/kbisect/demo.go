package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/doctor"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/fixtures"
)

// demoCommand shows the program on a history with a planted fault, by calling its own commands as a user would. The
// exit code is that of the search.
func demoCommand() *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "make a repository with a planted failure and search it",
		Description: "On cpu the failure is planted and found in half a minute. On cuda and torch nothing is planted:\n" +
			"what the machine shows is the answer, and it takes a few minutes. With cuda-small and\n" +
			"slow-build it is a CUDA kernel that slowed down and then hits its limit, and one whose build takes minutes.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "on", Usage: "what the kernels run on: `cpu`, cuda or torch", Value: "cpu"},
			&cli.StringFlag{Name: "dir", Usage: "make the repository in `DIR` and keep it (default: a temporary folder, removed afterwards)"},
			&cli.BoolFlag{Name: "only-make", Usage: "make the repository in --dir and stop", DisableDefaultText: true},
			&cli.BoolFlag{Name: "json", Usage: "the finding as JSON", DisableDefaultText: true},
		},
		Action: demoAction,
	}
}

// planted is a history with something to find, made from a stream of git fast-import (package fixtures).
type planted struct {
	stream []byte   // of git fast-import
	story  string   // one sentence about the history
	needs  []string // checks of kbisect doctor that must pass; none: it runs anywhere
	hunts  []hunt
}

// hunt is one search in a planted history: its kbisect.toml and the options of kbisect run. A history may have several,
// since a failure and a slowdown need different ends.
type hunt struct {
	config  []byte
	options []string
}

// plantedOn is the history for a value of --on, with its searches. An unknown value is a usage error that lists the
// known ones.
func plantedOn(device string) (planted, error) {
	// The round 9 demos are searched twice: for the commit, and for the flags at the bad commit.
	byFlags := []string{"--axis", "flags", "--bad", fixtures.Round9Bad}
	round9 := []string{"--good", fixtures.Round9Good, "--bad", fixtures.Round9Bad}
	switch device {
	case "cpu":
		c := fixtures.Round9Config()
		return planted{fixtures.Round9(), "Round 9: a dual GEMM that ran well at tag round8 hits its limit at HEAD.", nil, []hunt{{c, round9}, {c, byFlags}}}, nil
	case "torch":
		c := fixtures.Round9TorchConfig()
		return planted{fixtures.Round9Torch(), "Round 9: a submission in PyTorch that scored at tag round8, and what became of it.", []string{"devices", "torch"}, []hunt{{c, round9}, {c, byFlags}}}, nil
	case "cuda":
		c := fixtures.Round9CUDAConfig()
		return planted{fixtures.Round9CUDA(), "Round 9: a dual GEMM in CUDA C++ that ran well at tag round8, and what became of it.", []string{"devices", "nvcc"}, []hunt{{c, round9}, {c, byFlags}}}, nil
	case "cuda-small":
		return planted{fixtures.CUDASmall(), "A CUDA kernel that slowed down between v1 and v2 and hits its limit at HEAD.", []string{"devices", "nvcc"}, []hunt{
			{fixtures.CUDASmallSlowConfig(), []string{"--good", fixtures.CUDASmallGood, "--bad", fixtures.CUDASmallBetween}},
			{fixtures.CUDASmallTimeoutConfig(), []string{"--good", fixtures.CUDASmallBetween, "--bad", "HEAD"}},
		}}, nil
	case "slow-build":
		return planted{fixtures.SlowBuild(), "A CUDA kernel whose build took seconds at tag v1 and does not finish at HEAD.", []string{"devices", "nvcc"}, []hunt{
			{fixtures.SlowBuildConfig(), []string{"--good", fixtures.SlowBuildGood, "--bad", "HEAD"}},
		}}, nil
	}
	names := []string{"cpu", "cuda", "torch", "cuda-small", "slow-build"}
	return planted{}, exit.Usagef("demo --on %s: there is no such demo%s\nhint: --on %s", device, wording.DidYouMean(device, names), config.OneOf(names))
}

// demoAction makes the repository and searches it with the program's own commands, as a user would.
func demoAction(c *cli.Context) error {
	p, err := plantedOn(c.String("on"))
	if err != nil {
		return err
	}
	dir := c.String("dir")
	if c.Bool("only-make") && dir == "" {
		return exit.Usagef("--only-make needs --dir")
	}
	if !c.Bool("only-make") {
		if err := p.equipped(c.Context, c.String("on")); err != nil {
			return err
		}
	}
	if dir == "" {
		// Deferred, because the hint has to come after the searches and whatever they ended in.
		var remove func()
		if dir, remove, err = machine.Scratch(c.Context); err != nil {
			return exit.With(exit.Machine, err)
		}
		defer func() {
			remove()
			if !c.Bool("json") {
				on := ""
				if device := c.String("on"); device != "cpu" { // the default
					on = " --on " + device
				}
				fmt.Fprintf(c.App.Writer, "\nThe repository was a temporary one. To keep it and look around:\n  kbisect demo%s --dir round9\n", on)
			}
		}()
	} else if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return exit.Usagef("--dir %s is not empty\nhint: name a folder that does not exist yet", dir)
	}
	// The stream fixes authors and dates, so the commits have the same ids on every machine.
	made, err := fixtures.Replay(p.stream, dir)
	if err != nil {
		return fmt.Errorf("making the demo repository: %w", err)
	}
	for i, h := range p.hunts {
		if err := os.WriteFile(p.config(dir, i), h.config, 0o666); err != nil {
			return exit.With(exit.Machine, err)
		}
	}
	fmt.Fprintf(c.App.ErrWriter, "%s\n%d commits in %s\n", p.story, len(made.Order), dir)
	if c.Bool("only-make") {
		return nil
	}
	return p.search(c, dir)
}

// equipped refuses a demo that could not run here, before anything is made. device is the value of --on, for the
// message. A device that other processes use as well will do.
func (p planted) equipped(ctx context.Context, device string) error {
	if len(p.needs) == 0 {
		return nil
	}
	findings := doctor.Findings(ctx, os.TempDir(), p.needs)
	for _, name := range p.needs {
		f := findings[name]
		if f.State == doctor.StateOK || f.State == doctor.StateProblem && name == "devices" { // such as one shared with others
			continue
		}
		return exit.With(exit.Machine, fmt.Errorf("demo --on %s cannot run here: %s: %s\nhint: kbisect doctor lists what works here; kbisect demo needs no device", device, name, f.Found))
	}
	return nil
}

// config is the path of the configuration of search i. The first, and those equal to it, have the usual name.
func (p planted) config(dir string, i int) string {
	if string(p.hunts[i].config) == string(p.hunts[0].config) {
		return filepath.Join(dir, config.FileName)
	}
	return filepath.Join(dir, fmt.Sprintf("kbisect-%d.toml", i+1))
}

// search runs the searches one after the other. Ending without a culprit counts as an answer, and the next search may
// find more; any other error ends the demo. The error returned, and with it the exit code, is that of the first search
// that had one.
func (p planted) search(c *cli.Context, dir string) (first error) {
	for i, h := range p.hunts {
		if i > 0 && !c.Bool("json") {
			fmt.Fprintln(c.App.Writer)
		}
		err := hunted(c, dir, p.config(dir, i), h.options)
		var coded *exit.Error
		if err != nil && !(errors.As(err, &coded) && (coded.Code == exit.Inconclusive || coded.Code == exit.NoDifference)) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// hunted runs one search as a user would, after printing its command line. The printed line leaves out -C and --config,
// which the user would not need in the repository. It needs an app of its own, since the library stores what it has
// parsed in the app.
func hunted(c *cli.Context, dir, config string, options []string) error {
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
