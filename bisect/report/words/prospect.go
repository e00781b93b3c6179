package words

import (
	"fmt"
	"math"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// Prospect says what is known early of a search that costs too much: head is what it would take, hints are what can be
// found anyway and which metrics might do.
func Prospect(p bisect.Prospect) (head string, hints []string) {
	wanted := "finding a change of " + Percent(p.Change)
	if p.Seen {
		wanted = "finding what changed it by about " + Percent(p.Change)
	}
	takes := "would take more launches than a search makes"
	if p.Launches > 0 {
		takes = fmt.Sprintf("would take about %s (%s)", about(p.Launches, "more launch"), duration(p.Seconds))
	}
	head = fmt.Sprintf("`%s` varies by %s from launch to launch: %s %s", p.Metric, Percent(p.Noise), wanted, takes)
	within := "in " + about(p.Within, "launch")
	if p.Left > 0 {
		head += fmt.Sprintf("; the budget leaves %s", duration(p.Left))
		within = "within the budget"
	}
	if p.Findable > 0 {
		hints = append(hints, fmt.Sprintf("%s, only changes of about %s or more can be found", within, Percent(p.Findable)))
	} else {
		hints = append(hints, within+", no change can be found")
	}
	for _, q := range p.Quieter {
		how := fmt.Sprintf("differs by %s", Change(q.Ratio))
		if !q.Differs {
			how = "may differ"
		}
		hints = append(hints, fmt.Sprintf("--metric %s: it varies by %s in the same launches, %s between the ends, and would take about %s", q.Metric, Percent(q.Noise), how, about(q.Launches, "launch")))
	}
	return head, hints
}

// about is a number of things that is known to two digits at most.
func about(n float64, thing string) string {
	step := math.Pow(10, max(0, math.Floor(math.Log10(max(1, n)))-1))
	return Count(int(math.Round(n/step)*step), thing)
}

// duration is a time of which minutes, or hours, are precise enough.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 90*time.Minute:
		return fmt.Sprintf("%.3g h", d.Hours())
	case d >= 90*time.Second:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
