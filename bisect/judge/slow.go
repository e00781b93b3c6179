package judge

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/montanaflynn/stats"

	"github.com/kbisect/kbisect/bisect"
)

// level returns the number that stands for one process: the logarithm of the median of its samples,
// averaged over its cases, with the sign turned so that larger is worse.
func (m Metric) level(o bisect.Outcome) (float64, bool) {
	v, ok := m.log(o)
	ok = ok && (o.Unfit == "" || m.Exact)
	if m.Higher {
		v = -v
	}
	return v, ok
}

func (m Metric) log(o bisect.Outcome) (float64, bool) {
	if m.Name == "wall" {
		return math.Log(o.Wall), o.Wall > 0
	}
	if phase, ok := strings.CutPrefix(m.Name, "phase."); ok {
		for _, p := range o.Phases {
			if p.Name == phase && p.Seconds > 0 {
				return math.Log(p.Seconds), true
			}
		}
		return 0, false
	}
	sum, n := 0.0, 0
	for _, s := range o.Series {
		if s.Metric != m.Name {
			continue
		}
		med, err := stats.Median(s.Values)
		if m.Exact && med >= 0 {
			med = max(med, nothing)
		}
		if err != nil || !(med > 0) {
			continue
		}
		sum += math.Log(med)
		n++
	}
	return sum / float64(max(n, 1)), n > 0
}

func median(v []float64) float64 {
	m, err := stats.Median(v)
	if err != nil {
		return math.NaN()
	}
	return m
}

// unmeasured is for ends that end well where a slow metric is wanted and neither sends one.
func (p *Plain) unmeasured(e bisect.Ends, g, b bisect.Outcome) bisect.Ends {
	if p.Find == bisect.Slow && len(p.Metrics) > 0 {
		e.Why = fmt.Sprintf("both ends end well, and neither sent a value of %s", p.Metrics[0].Name)
		if why := unlike(p.Metrics, g, b); why != "" {
			e.Why = "both ends end well, and " + why
		}
		e.Hint = "send samples on KBISECT_FD, or choose one of " + strings.Join(sent(g, b), ", ") + " with --metric"
	}
	return e
}

// unlike says why values that at least one end sent cannot be compared; "" when neither sent any.
func unlike(ms []Metric, g, b bisect.Outcome) string {
	for _, m := range ms {
		sides := [2]string{"the good end", "the bad end"}
		for side, o := range []bisect.Outcome{g, b} {
			if named := slices.ContainsFunc(o.Series, func(s bisect.Series) bool { return s.Metric == m.Name }); named && len(cases(m, o)) == 0 {
				return fmt.Sprintf("%s of %s is not above 0, as a ratio needs it", m.Name, sides[side])
			}
		}
		switch a, c := cases(m, g), cases(m, b); {
		case len(a) > 0 && len(c) == 0:
			return "only the good end sent values of " + m.Name
		case len(c) > 0 && len(a) == 0:
			return "only the bad end sent values of " + m.Name
		case len(a) > 0 && inCommon(a, c) == nil:
			return fmt.Sprintf("the ends have no case of %s in common: %s at the good end, %s at the bad one", m.Name, lists(a, 3), lists(c, 3))
		}
	}
	return ""
}

// sent lists the metrics that both ends have values of.
func sent(g, b bisect.Outcome) []string {
	names := []string{"wall"}
	for _, p := range g.Phases {
		names = append(names, "phase."+p.Name)
	}
	for _, s := range g.Series {
		names = append(names, s.Metric)
	}
	names = slices.DeleteFunc(names, func(n string) bool { _, ok := (Metric{Name: n}).log(b); return !ok })
	slices.Sort(names)
	return slices.Compact(names)
}

func ratio(e *bisect.Effect) string {
	return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Ratio, e.Low, e.High)
}

// steady launches an end that has ended well before. One failure among many launches is set aside;
// an end that keeps failing cannot serve as a reference.
func (p *Plain) steady(ctx context.Context, c bisect.Candidate, why bisect.Purpose) (bisect.Outcome, error) {
	const tries = 3
	for n := 1; ; n++ {
		o, err := p.launch(ctx, c, why)
		if err == nil {
			p.drop(why, o)
		}
		if err != nil || o.Class == bisect.OK {
			return o, err
		}
		if n == tries {
			what := fmt.Sprintf("launching %s (%s) again", c.Commit[:min(10, len(c.Commit))], why)
			return o, &bisect.InfraError{What: what, Err: fmt.Errorf("it ended well before and failed %d times in a row now: %s", tries, o.Describe())}
		}
	}
}
