package compare

import (
	"fmt"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// missing lists the numbers that A gives and B does not, where Every asks for an answer for each number: a case that
// is gone is not a case that is well.
func (r *run) missing() []Contrast {
	if !r.Every || r.contrasts == nil {
		return nil
	}
	var out []Contrast
	for _, m := range r.Metrics {
		if m.OfProcess() {
			continue
		}
		seen := compared(r.contrasts, m)
		for _, l := range r.kept {
			if l.side != 0 {
				continue
			}
			for _, one := range metric.Cases(m, l.o) {
				if !seen[one] {
					seen[one] = true
					out = append(out, r.lacking(metric.Channel{Metric: m, Case: one}))
				}
			}
		}
	}
	return out
}

// compared are the cases of a metric for which there is a contrast, by itself or as the only case.
func compared(contrasts []*contrast, m metric.Metric) map[string]bool {
	out := map[string]bool{}
	for _, c := range contrasts {
		if c.channel.Metric == m && (!c.channel.All || len(c.cases) == 1) {
			out[c.caseName()] = true
			if was := c.channel.Was(); was != "" {
				out[was] = true
			}
		}
	}
	return out
}

// lacking describes a number that only A gives, and says what B does instead.
func (r *run) lacking(c metric.Channel) Contrast {
	none := Interval{math.NaN(), math.NaN(), math.NaN()}
	x := Contrast{
		Metric: c.Metric, Case: c.Case, Answer: Open, Ratio: none, Bound: none,
		P: math.NaN(), Adjusted: math.NaN(), Doubt: math.NaN(), Smallest: math.NaN(),
	}
	var values [2][]float64
	var last [2]bisect.Outcome
	named := 0
	for _, l := range r.kept {
		last[l.side] = metric.NewParts(l.o).Of(c)
		if y, ok := c.Level(l.o); ok {
			values[l.side] = append(values[l.side], c.Value(y))
			if l.side == 0 {
				x.Unit = c.Unit(l.o)
			}
		}
		for _, s := range l.o.Series {
			if l.side == 1 && s.Metric == c.Metric.Name && s.Case == c.Case {
				named++
			}
		}
	}
	clash := metric.Clashes([]metric.Metric{c.Metric}, last, r.names)
	if clash != nil {
		values[1] = nil // the row has one unit
	}
	x.A, x.B = Describe(values[0]), Describe(values[1])
	switch n := len(values[1]); {
	case clash != nil:
		x.Why = clash[0]
	case named == 0:
		x.Why = r.names[1] + " does not report it"
	case n == 0:
		x.Why = r.names[1] + " reports no number of it that can be compared, as those above 0 can"
	default:
		x.Why = fmt.Sprintf("%s reports it in %d of %d launches only", r.names[1], n, r.c.Sides[1].Counted)
	}
	return x
}

// complain makes sure that numbers which B does not give are not let pass with the others: the answer is open unless
// it is worse already.
func (r *run) complain() {
	gone := r.missing()
	if len(gone)+len(r.contrasts) == 0 && r.contrasts != nil {
		r.c.Why = fmt.Sprintf("%s reports no number of %s that can be compared, as those above 0 can", r.names[0], metric.Names(r.Metrics))
	}
	if len(gone) == 0 || r.c.Answer == Worse || r.c.ByClass {
		return
	}
	r.c.Answer = Open
	r.c.Why = fmt.Sprintf("%s: %s", metric.Channel{Metric: gone[0].Metric, Case: gone[0].Case}.Name(), gone[0].Why)
	if n := len(gone) - 1; n > 0 {
		r.c.Why += fmt.Sprintf("; likewise %d more", n)
	}
}
