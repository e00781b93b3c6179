package judge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// unmeasured is for ends that end well where a slow metric is wanted and neither sends one.
func (p *Plain) unmeasured(e bisect.Ends, g, b bisect.Outcome) bisect.Ends {
	if p.Find == bisect.Slow && len(p.Metrics) > 0 {
		e.Why = fmt.Sprintf("both ends end well, and neither sent a value of %s", p.Metrics[0].Name)
		if why := unlike(p.Metrics, g, b); why != "" {
			e.Why = "both ends end well, and " + why
		}
		e.Hint = "send samples on KBISECT_FD, or choose one of " + strings.Join(metric.SentByBoth(g, b), ", ") + " with --metric"
	}
	return e
}

// unlike says why values that at least one end sent cannot be compared; "" when neither sent any.
func unlike(ms []metric.Metric, g, b bisect.Outcome) string {
	for _, m := range ms {
		sides := [2]string{"the good end", "the bad end"}
		for side, o := range []bisect.Outcome{g, b} {
			if named := slices.ContainsFunc(o.Series, func(s bisect.Series) bool { return s.Metric == m.Name }); named && len(metric.Cases(m, o)) == 0 {
				return fmt.Sprintf("%s of %s is not above 0, as a ratio needs it", m.Name, sides[side])
			}
		}
		switch a, c := metric.Cases(m, g), metric.Cases(m, b); {
		case len(a) > 0 && len(c) == 0:
			return "only the good end sent values of " + m.Name
		case len(c) > 0 && len(a) == 0:
			return "only the bad end sent values of " + m.Name
		case len(a) > 0 && metric.InCommon(a, c) == nil:
			return fmt.Sprintf("the ends have no case of %s in common: %s at the good end, %s at the bad one", m.Name, lists(a, 3), lists(c, 3))
		}
	}
	return ""
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
			what := fmt.Sprintf("launching %s (%s) again", bisect.ShortID(c.Commit), why)
			return o, &bisect.InfraError{What: what, Err: fmt.Errorf("it ended well before and failed %d times in a row now: %s", tries, o.Describe())}
		}
	}
}
