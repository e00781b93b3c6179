// Package firsts learns from the ends of a search whether the process that fills the caches of a candidate measures as
// well as a later one, so that a candidate need be launched only once, and whether one that was started early measures
// as an ordinary one does.
package firsts

import (
	"cmp"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// The states of the caches that a launch found, see [bisect.Outcome].
const (
	Cold = "cold"
	Warm = "warm"
)

// Launches are the numbers of both ends, from the process that filled the caches and from later ones. A program that
// warms up before it measures gives the same in both, and then a candidate need not be launched twice. In the
// proof, both sides of the first pair have filled their caches.
type Launches struct {
	Past map[string]bisect.Scatter // of launches in earlier sessions, by name of metric or case; may be nil

	good, bad end
}

// end is what the launches of one end have shown: in launches that filled empty caches (cold), and in later ones.
type end struct{ cold, warm []bisect.Outcome }

// Learn takes in a launch of an end.
func (f *Launches) Learn(r bisect.Request, o bisect.Outcome) {
	e := map[bisect.Purpose]*end{bisect.EndGood: &f.good, bisect.EndBad: &f.bad}[r.Purpose]
	switch {
	case e == nil || o.Class != bisect.OK:
	case o.Caches == Cold:
		e.cold = append(e.cold, o)
	case o.Caches == Warm && o.Unfit == "":
		e.warm = append(e.warm, o)
		if len(o.ColdRun) > 0 {
			e.cold = append(e.cold, bisect.Outcome{Series: o.ColdRun})
		}
	}
}

// Serve reports whether the first process of a candidate gives a metric as well as a later one does. In every case
// in which the ends differ by more than their launches scatter, the first ones may be off by an eighth of the step,
// or by up to a quarter if that is within twice the scatter of the later ones, of which there are few. Where each end
// has one later launch, earlier sessions say how launches scatter; without any, the ends lie far apart, and the two of
// each must agree far better than that.
func (f *Launches) Serve(name string) bool {
	const (
		scatters = 3   // later launches of both ends: two of one end say how far launches scatter
		within   = 3.0 // standard deviations that two launches lie apart at most, by earlier sessions
		far      = 1.0 // of a step, a logarithm
		agree    = 64  // times as far apart are the ends as the two launches of each, where there are no more
	)
	m := metric.Metric{Name: name}
	good, bad := len(f.good.warm), len(f.bad.warm)
	if name == "" || min(len(f.good.cold), len(f.bad.cold), good, bad) == 0 {
		return false
	}
	scarce, stepped := good+bad < scatters, false
	for _, one := range metric.Cases(m, f.good.warm[0]) {
		good, bad := f.good.read(m, one), f.bad.read(m, one)
		scatter, off := max(good.scatter, bad.scatter), max(good.off, bad.off)
		step, few := math.Abs(bad.mean-good.mean), scarce
		if known := cmp.Or(f.Past[metric.Channel{Metric: m, Case: one}.Name()].SD, f.Past[name].SD); few && known > 0 {
			scatter, few = max(scatter, within*known), false
		}
		most := max(step/8, min(2*scatter, step/4))
		if few {
			scatter, most = far, max(far, step)/agree
		}
		stepped = stepped || step > scatter
		if (few || !(step <= scatter)) && !(off <= most) { // or one is not a number
			return false
		}
	}
	return stepped
}

// spread says where the warm launches of an end lie in one case, in logarithms: their mean, their range, and how
// far from the mean the farthest cold one is. It is NaN if a launch lacks the number.
type spread struct{ mean, least, most, scatter, off float64 }

// Alike reports whether a launch of an end that was started early gives the numbers of plain ones: they lie among these, or closer to
// them than a quarter of what plain launches of the two ends differ by, in logarithms. other are those of the other end. Where it
// does not, clear says that plain launches of an end scatter far less than that.
func Alike(early bisect.Outcome, plain, other []bisect.Outcome) (alike, clear bool) {
	const far = 3 // times what they scatter by
	off, step, scatter := 0.0, 0.0, 0.0
	for _, s := range early.Series {
		m := metric.Metric{Name: s.Metric}
		a, b, c := end{warm: []bisect.Outcome{early}}.read(m, s.Case), end{warm: plain}.read(m, s.Case), end{warm: other}.read(m, s.Case)
		if d := math.Abs(b.mean - c.mean); d >= 0 {
			off, step, scatter = max(off, b.least-a.mean, a.mean-b.most), max(step, d), max(scatter, b.scatter, c.scatter)
		}
	}
	return off < step/4, max(len(plain), len(other)) > 1 && off > far*scatter
}

// read is the spread of one case of a metric; "" is the geometric mean over all.
func (e end) read(m metric.Metric, one string) spread {
	level := func(o bisect.Outcome) float64 {
		v, ok := m.Value(bisect.Outcome{Series: o.Series}, one)
		if !ok {
			return math.NaN()
		}
		return math.Log(v)
	}
	least, most, sum := math.Inf(1), math.Inf(-1), 0.0
	for _, o := range e.warm {
		y := level(o)
		least, most, sum = min(least, y), max(most, y), sum+y
	}
	s := spread{mean: sum / float64(len(e.warm)), least: least, most: most, scatter: most - least}
	for _, o := range e.cold {
		s.off = max(s.off, math.Abs(level(o)-s.mean))
	}
	return s
}
