package page

import (
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// cost is what the launches took, by phase. Candidates are called what; idle says why no device was watched.
func (v view) cost(totals report.Totals, what string, devices []string, idle string) Section {
	s := Section{ID: "cost", Title: "Cost", List: costLines(totals, what, devices, idle)}
	rows := (report.Ledger{Launches: report.Made(v.launches)}).PhaseCosts()
	total := 0.0
	for _, r := range rows {
		total += r.Seconds
	}
	// Launches that ran side by side count in full, so that their sum may exceed the wall time.
	t := Table{Title: "Time by phase, over all launches", Columns: []string{"phase", "time", "share", "longest", "launches", "ended here"}, Right: []string{"time", "share", "longest", "launches", "ended here"}}
	for _, r := range rows {
		share := r.Seconds / max(total, 1e-9)
		ended := ""
		if r.Ended > 0 {
			ended = fmt.Sprint(r.Ended)
		}
		t.Rows = append(t.Rows, []string{r.Phase, words.Seconds(r.Seconds), fmt.Sprintf("%.0f %%", 100*share), words.Seconds(r.Longest), fmt.Sprint(r.Trials), ended})
	}
	s.Tables = []Table{t}
	return s
}

// costLines are the totals.
func costLines(t report.Totals, what string, devices []string, idle string) []string {
	if t.Trials == 0 && t.Wall == 0 {
		return nil
	}
	candidates := words.Count(t.Candidates, what)
	if t.Drilled > 0 {
		candidates += fmt.Sprintf(" and %d more within the culprit", t.Drilled)
	}
	out := []string{
		fmt.Sprintf("%s, %s, %s, %d from the build cache, %s inferred", candidates, words.Count(t.Trials, "launch"), words.Count(t.Builds, "build"), t.CacheHits, words.Count(t.Inferred, "answer")),
		"wall " + words.Seconds(t.Wall) + spent(t),
	}
	if t.Cost != nil {
		out[1] += fmt.Sprintf(", price %.4g", *t.Cost)
	}
	// These are in no total, as they cost nothing this time.
	if t.Reused > 0 {
		out = append(out, words.Count(t.Reused, "launch")+" of earlier sessions taken over (--fresh makes them again)")
	}
	for _, d := range devices {
		out = append(out, "on "+d)
	}
	if len(devices) == 0 && idle != "" {
		out = append(out, "no device was watched: "+idle)
	}
	return out
}

// spent is where the wall time went, the largest parts first; small ones are added up.
func spent(t report.Totals) string {
	// The parts add up to the wall time, so small ones are summed up rather than dropped.
	const small = 0.005 // of the whole
	var parts []string
	rest := 0.0
	for _, s := range t.Spent {
		if s.Seconds < small*t.Wall {
			rest += s.Seconds
			continue
		}
		parts = append(parts, words.Printable(s.Account)+" "+words.Seconds(s.Seconds))
	}
	if len(parts) == 0 {
		return ""
	}
	if rest > 0 {
		parts = append(parts, "other "+words.Seconds(rest))
	}
	return ": " + strings.Join(parts, ", ")
}
