package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

func simulateCommand() *cli.Command {
	return &cli.Command{
		Name: "simulate", Usage: "estimate what a search could find, how reliably and at what cost, on a simulated device",
		ArgsUsage: "SPEC.json",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "trials", Usage: "play `N` trials, instead of the number in the specification", DefaultText: "as specified"},
			&cli.BoolFlag{Name: "json", Usage: "the scores as JSON", DisableDefaultText: true},
			&cli.BoolFlag{Name: "example", Usage: "print a specification with every key at its default; with the word flags, one of a search of flags", DisableDefaultText: true},
		},
		Action: simulateAction,
	}
}

// simulateAction plays every rule of a specification on the same simulated devices.
func simulateAction(c *cli.Context) error {
	o, err := readSimulation(c)
	if err != nil {
		return err
	}
	if o.example {
		if o.path == policy.AxisFlags {
			return report.WriteJSON(c.App.Writer, simulate.DefaultSetSpec())
		}
		return report.WriteJSON(c.App.Writer, simulate.DefaultSpec())
	}
	data, err := os.ReadFile(o.path)
	if err != nil {
		return exit.Usage(err)
	}
	var axis struct{ Axis string }
	if json.Unmarshal(data, &axis) == nil && axis.Axis == policy.AxisFlags {
		return o.simulateFlags(c, data)
	}
	s, err := o.spec(data)
	if err != nil {
		return err
	}
	scores := []simulate.Score{}
	for _, name := range s.Rules {
		rule, err := simulatedRule(name)
		if err != nil {
			return exit.Usage(err)
		}
		score, err := simulate.Simulate(c.Context, s, name, rule)
		if err != nil {
			return err
		}
		if err := o.finite(score.DeviceSeconds); err != nil {
			return err
		}
		scores = append(scores, score)
	}
	if o.json {
		return report.WriteJSON(c.App.Writer, scores)
	}
	return writeScores(c.App.Writer, s, scores)
}

// simulation is what the command line asks for.
type simulation struct {
	path          string
	trials        int // 0: as the specification says
	json, example bool
}

// readSimulation reads the options and the name of the specification.
func readSimulation(c *cli.Context) (simulation, error) {
	o := simulation{trials: c.Int("trials"), json: c.Bool("json"), example: c.Bool("example")}
	words := c.Args().Slice()
	switch {
	case len(words) > 1:
		return o, exit.Usagef("simulate takes one specification, not also %q", words[1])
	case o.trials < 0 || o.trials > simulate.Most || o.trials == 0 && c.IsSet("trials"):
		return o, exit.Usagef("--trials %d: 1 to %d are played", o.trials, simulate.Most)
	case len(words) == 1:
		o.path = words[0]
	}
	if o.path == "" && !o.example {
		return o, exit.Usagef("one specification is needed\nhint: kbisect simulate --example prints one")
	}
	return o, nil
}

// spec reads the specification.
func (o simulation) spec(data []byte) (simulate.Spec, error) {
	s, err := simulate.ReadSpec(data)
	if err != nil {
		return s, exit.Usagef("%s: %w\nhint: kbisect simulate --example shows every key", o.path, err)
	}
	if o.trials > 0 {
		s.Trials = o.trials
	}
	return s, nil
}

// finite rejects a specification whose times overflow: they can be neither added up nor written as JSON.
func (o simulation) finite(seconds float64) error {
	if math.IsInf(seconds, 0) || math.IsNaN(seconds) {
		return exit.Usagef("%s: the times of the simulated launches are not finite\nhint: make the seconds, steps and noise smaller", o.path)
	}
	return nil
}

// simulatedRule is the search of this program, which is played through its public interface, or a rival.
func simulatedRule(name string) (simulate.Rule, error) {
	if name != "kbisect" {
		return simulate.Rival(name)
	}
	return simulate.Search(func(ctx context.Context, d *simulate.Device, s bisect.Sampler) (bisect.Finding, error) {
		b := search.Search{
			Commits: d.History(), Good: bisect.Candidate{Commit: simulate.ID(0)}, Sampler: s, All: d.All,
			Options: search.Options{
				Find: bisect.Slow, Metrics: []metric.Metric{{Name: "time"}},
				Effect: d.Effect, Error: config.DefaultError,
			},
		}
		if d.Hang != nil {
			b.Find = bisect.Timeout
		}
		return find.Culprits(ctx, &b)
	}), nil
}

// writeScores prints a table for people.
func writeScores(w io.Writer, s simulate.Spec, scores []simulate.Score) error {
	fmt.Fprintf(w, "%d commits, %d trials a rule from seed %d\n\n", s.Commits, s.Trials, s.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rule\tright\twrong\tinconclusive\tlaunches\t95 % need\tdevice\tbuilds\tslowest decision\t")
	for _, x := range scores {
		fmt.Fprintf(t, "%s\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f\t%d\t%.0f s\t%.1f\t%.1f ms\t\n",
			x.Rule, 100*x.Right, 100*x.Wrong, 100*x.Inconclusive, x.LaunchesMean, x.LaunchesP95, x.DeviceSeconds, x.Builds, x.DecisionMax)
	}
	if err := t.Flush(); err != nil || s.Devices == 1 {
		return err
	}
	_, err := fmt.Fprintf(w, "\nplayed on one of %d devices: launches whose times are compared follow each other on one device, so that more of them do not shorten a search; they can serve other searches\n", s.Devices)
	return err
}

// simulateFlags plays a specification whose axis is flags.
func (o simulation) simulateFlags(c *cli.Context, data []byte) error {
	s, err := simulate.ReadSetSpec(data)
	if err != nil {
		return exit.Usagef("%s: %w\nhint: kbisect simulate --example shows every key", o.path, err)
	}
	if o.trials > 0 {
		s.Trials = o.trials
	}
	scores := []simulate.SetScore{}
	for _, rule := range s.Rules {
		score, err := simulate.SimulateSets(c.Context, s, rule)
		if err != nil {
			return exit.Usage(err)
		}
		if err := o.finite(score.DeviceSeconds); err != nil {
			return err
		}
		scores = append(scores, score)
	}
	if o.json {
		return report.WriteJSON(c.App.Writer, scores)
	}
	return writeSetScores(c.App.Writer, s, scores)
}

// writeSetScores prints a table for people.
func writeSetScores(w io.Writer, s simulate.SetSpec, scores []simulate.SetScore) error {
	fmt.Fprintf(w, "%d flags, %d trials a rule from seed %d\n\n", s.Flags, s.Trials, s.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rule\tright\twrong\tinconclusive\ttests\tof these fail\tdevice\tcomplete\tproven wrong\t")
	for _, x := range scores {
		fmt.Fprintf(t, "%s\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f\t%.1f\t%.0f s\t%.1f %%\t%.1f %%\t\n",
			x.Rule, 100*x.Right, 100*x.Wrong, 100*x.Inconclusive, x.TestsMean, x.FailsMean, x.DeviceSeconds, 100*x.Complete, 100*x.CertifiedWrong)
	}
	return t.Flush()
}
