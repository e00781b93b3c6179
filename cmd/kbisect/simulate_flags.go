package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/fixtures"
)

// simulateFlags plays a specification whose axis is flags; ok is false for any other.
func (o simulation) simulateFlags(c *cli.Context) (ok bool, err error) {
	data, err := os.ReadFile(o.path)
	if err != nil {
		return false, usage(err)
	}
	var early struct {
		Axis string `json:"axis"`
	}
	if json.Unmarshal(data, &early) != nil || early.Axis != axisFlags {
		return false, nil
	}
	s, err := fixtures.ReadSetSpec(data)
	if err != nil {
		return true, usagef("%s: %w\nhint: kbisect simulate --example shows every key", o.path, err)
	}
	if o.trials > 0 {
		s.Trials = o.trials
	}
	scores := []fixtures.SetScore{}
	for _, rule := range s.Rules {
		score, err := fixtures.SimulateSets(c.Context, s, rule)
		if err != nil {
			return true, usage(err)
		}
		scores = append(scores, score)
	}
	if o.json {
		return true, writeIndented(c.App.Writer, scores)
	}
	return true, writeSetScores(c.App.Writer, s, scores)
}

// writeSetScores prints a table for people.
func writeSetScores(w io.Writer, s fixtures.SetSpec, scores []fixtures.SetScore) error {
	fmt.Fprintf(w, "%d flags, %d trials a rule from seed %d\n\n", s.Flags, s.Trials, s.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rule\tright\twrong\tinconclusive\ttests\tof these fail\tdevice\tcomplete\tproven wrong\t")
	for _, x := range scores {
		fmt.Fprintf(t, "%s\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f\t%.1f\t%.0f s\t%.1f %%\t%.1f %%\t\n",
			x.Rule, 100*x.Right, 100*x.Wrong, 100*x.Inconclusive, x.TestsMean, x.FailsMean, x.DeviceSeconds, 100*x.Complete, 100*x.CertifiedWrong)
	}
	return t.Flush()
}
