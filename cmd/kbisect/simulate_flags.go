package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

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
		scores = append(scores, score)
	}
	if o.json {
		return writeIndented(c.App.Writer, scores)
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
