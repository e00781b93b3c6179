package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// simulateCommand plays the real search against a simulated device, whose culprit is known; package fixtures/simulate
// scores the answers. The --trials here are whole searches, not launches.
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

// simulateAction plays every rule of a specification on the same simulated devices, so that their scores can be
// compared. The key axis of the file decides which of the two kinds of specification it is.
func simulateAction(c *cli.Context) error {
	words, trials := c.Args().Slice(), c.Int("trials")
	switch {
	case len(words) > 1:
		return exit.Usagef("simulate takes one specification, not also %q", words[1])
	case trials < 0 || trials > simulate.Most || trials == 0 && c.IsSet("trials"):
		return exit.Usagef("--trials %d: 1 to %d are played", trials, simulate.Most)
	case c.Bool("example") && len(words) == 1 && words[0] == policy.AxisFlags:
		return report.WriteJSON(c.App.Writer, simulate.DefaultSetSpec())
	case c.Bool("example"):
		return report.WriteJSON(c.App.Writer, simulate.DefaultSpec())
	case len(words) == 0:
		return exit.Usagef("one specification is needed\nhint: kbisect simulate --example prints one")
	}
	data, err := os.ReadFile(words[0])
	if err != nil {
		return exit.Usage(err)
	}
	var axis struct{ Axis string }
	if json.Unmarshal(data, &axis) == nil && axis.Axis == policy.AxisFlags {
		s, err := simulate.ReadSetSpec(data)
		s.Trials = cmp.Or(trials, s.Trials)
		return play(c, err, s.Rules, func(rule string) (simulate.SetScore, error) {
			score, err := simulate.SimulateSets(c.Context, s, rule)
			return score, exit.Usage(err)
		}, func(x simulate.SetScore) float64 { return x.DeviceSeconds }, func(w io.Writer, scores []simulate.SetScore) error { return writeSetScores(w, s, scores) })
	}
	s, err := simulate.ReadSpec(data)
	s.Trials = cmp.Or(trials, s.Trials)
	return play(c, err, s.Rules, func(name string) (simulate.Score, error) {
		rule, err := simulatedRule(name)
		if err != nil {
			return simulate.Score{}, exit.Usage(err)
		}
		return simulate.Simulate(c.Context, s, name, rule)
	}, func(x simulate.Score) float64 { return x.DeviceSeconds }, func(w io.Writer, scores []simulate.Score) error { return writeScores(w, s, scores) })
}

// play scores each rule of a specification and prints the scores as JSON or as a table. invalid is the error of
// reading the specification, or nil; it is passed in so that both kinds of specification report it in the same words.
// seconds is the simulated device time of a score.
func play[T any](c *cli.Context, invalid error, rules []string, score func(rule string) (T, error), seconds func(T) float64, table func(io.Writer, []T) error) error {
	file := c.Args().First()
	if invalid != nil {
		return exit.Usagef("%s: %w\nhint: kbisect simulate --example shows every key", file, invalid)
	}
	scores := []T{}
	for _, rule := range rules {
		x, err := score(rule)
		if err != nil {
			return err
		}
		if v := seconds(x); math.IsInf(v, 0) || math.IsNaN(v) { // they can be neither added up nor written as JSON
			return exit.Usagef("%s: the times of the simulated launches are not finite\nhint: make the seconds, steps and noise smaller", file)
		}
		scores = append(scores, x)
	}
	if c.Bool("json") {
		return report.WriteJSON(c.App.Writer, scores)
	}
	return table(c.App.Writer, scores)
}

// simulatedRule is the search of this program, called through find.Culprits as kbisect run calls it, or a rival method
// from the literature.
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
		// A simulated device with several slots wants to hear what comes next, as the slots of a session do.
		if x, ok := s.(interface{ Batch([]bisect.Request) }); ok {
			b.AtOnce, b.Batch = d.Devices, x.Batch
			if d.Devices > 1 && !d.Jobs {
				b.Devices = slices.Repeat([]string{"simulated"}, d.Devices)
			}
		}
		if d.Hang != nil {
			b.Find = bisect.Timeout
		}
		return find.Culprits(ctx, &b)
	}), nil
}

// writeScores prints the scores of searches of a history: shares of all trials, means of launches and builds for each
// trial, and the simulated device seconds. Wall time is added if several devices were simulated.
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
	for _, x := range scores {
		if _, err := fmt.Fprintf(w, "\n%s: %s at a time, %.0f s of wall time a search", x.Rule, words.Count(x.DevicesUsed, "device"), x.WallSeconds); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

// writeSetScores prints the scores of searches of flags, likewise.
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
