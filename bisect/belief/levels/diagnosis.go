package levels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// When a machine counts as unfit to compare times on (judge.md 3, "Environment check"). At most one in twenty jobs on a
// quiet or a typical machine meets any of these; TestSlowdownEnvironment counts them.
const (
	noisySD     = 0.015 // standard deviation of one launch
	disturbed   = 0.10  // share of launches that something disturbed
	climbing    = 0.02  // what the level gains or loses from one end of the job to the other
	drifting    = 0.05  // drift in a second, as a share of the variance of a launch
	serial      = 0.35  // von Neumann's ratio of the good end: 1 means that launches follow no trend
	modesApart  = 5.0   // standard deviations of a launch by which two modes differ
	modesShare  = 0.12  // of the launches that fall into the rarer mode
	fewLaunches = 12    // launches without which nothing is said
	fewRepeats  = 4     // launches of commits that were launched before, without which these are not known to agree
	unsettled   = 4     // the first launches, which set level and step and are not called disturbed
)

// Diagnosis is what the times themselves tell of the machine.
type Diagnosis struct {
	noise    Noise
	launches int
	dirty    float64 // share of the launches that were disturbed
	gain     float64 // of the level over the whole job, by a straight line
	sure     float64 // standard errors by which that differs from 0
	serial   float64 // von Neumann's ratio of the good end's launches; 1 where they are too few
	agree    bool    // the launches of each commit do with each other: what is off the likeliest set are other changes
}

// Diagnose looks at the launches so far, taking the likeliest set for the truth. Of fewer than fewLaunches it says
// nothing.
func Diagnose(m *Belief) Diagnosis {
	s := m.seen(len(m.launches))
	w := Diagnosis{noise: m.noise, launches: len(s.launches), serial: 1}
	if w.launches < fewLaunches {
		return w
	}
	step, _ := m.Step()
	f := newFilter(m.noise)
	var t, y, good []float64
	for i, l := range s.launches {
		f.turn(l.Device)
		soiled := i >= unsettled && f.clean(l, s.bad[i], m.noise) < 0.2
		f.add(l, s.bad[i], m.noise)
		if soiled {
			w.dirty += 1 / float64(w.launches)
			continue
		}
		if s.bad[i] {
			l.Y -= step
		} else if l.Index == belief.GoodEnd {
			good = append(good, l.Y)
		}
		t, y = append(t, l.At), append(y, l.Y)
	}
	w.gain, w.sure = trend(t, y)
	sd, n := within(s.launches)
	w.agree = n >= fewRepeats && sd < noisySD/3
	if len(good) >= fewLaunches {
		w.serial = neumann(good)
	}
	return w
}

// within is the standard deviation of launches of one commit on one device, pooled over all, and its degrees of
// freedom n.
func within(launches []belief.Launch) (sd float64, n int) {
	of := map[[2]int][]float64{}
	for _, l := range launches {
		at := [2]int{l.Index, l.Device}
		of[at] = append(of[at], l.Y)
	}
	sum := 0.0
	for _, y := range of {
		sum, n = sum+squares(y), n+len(y)-1
	}
	return math.Sqrt(sum / float64(max(1, n))), n
}

// clean is the probability that nothing disturbed a launch, given the launches before it.
func (f filter) clean(l belief.Launch, bad bool, n Noise) float64 {
	x := 0.0
	if bad {
		x = 1
	}
	var clean, soiled float64
	for _, g := range f.parts {
		v := g.spread(x) + n.Rate*max(0, l.At-f.at)
		nu := l.Y - g.d - x*g.step
		for mode, share := range [2]float64{1 - n.Share, n.Share} {
			if share > 0 {
				u, v := nu-float64(mode)*n.Mode, v+n.ofMode(mode)
				clean, soiled = clean+g.w*share*normal(u, v), soiled+g.w*share*soil(u, newBell(v+dirtyMean*dirtyMean))
			}
		}
	}
	return (1 - dirty) * clean / ((1-dirty)*clean + dirty*soiled)
}

// trend fits a straight line to y over t: gain is what it rises by from the first to the last, sure by how many
// standard errors its slope differs from 0.
func trend(t, y []float64) (gain, sure float64) {
	n := float64(len(t))
	mt, my := mean(t), mean(y)
	var tt, ty, yy float64
	for i := range t {
		tt, ty, yy = tt+(t[i]-mt)*(t[i]-mt), ty+(t[i]-mt)*(y[i]-my), yy+(y[i]-my)*(y[i]-my)
	}
	if n < 3 || tt == 0 {
		return 0, 0
	}
	slope := ty / tt
	left := max(0, yy-slope*ty) / (n - 2)
	return slope * (t[len(t)-1] - t[0]), math.Abs(slope) / math.Sqrt(left/tt+math.SmallestNonzeroFloat64)
}

// neumann is von Neumann's ratio (1941): the mean square of the differences of neighbours over twice the variance. It
// is about 1 for values in random order and less where they drift.
func neumann(v []float64) float64 {
	var sum float64
	for i := range v[1:] {
		sum += (v[i+1] - v[i]) * (v[i+1] - v[i])
	}
	return sum / float64(len(v)-1) / (2*squares(v)/float64(len(v)-1) + math.SmallestNonzeroFloat64)
}

// Warnings says what the times show: one warning about noise and one about modes, at most.
func (w Diagnosis) Warnings() []string {
	var out, what []string
	n := w.noise
	if w.launches < fewLaunches {
		return nil
	}
	if n.SD > noisySD && !w.agree {
		what = append(what, fmt.Sprintf("launches of one commit vary by %.1f %%", 100*n.SD))
	}
	modes := n.Described(w.launches)
	switch {
	case n.Wide > 0 && modes != "" && !w.agree:
		what = append(what, modes)
	case n.Wide == 0 && w.dirty > disturbed && !w.agree:
		what = append(what, fmt.Sprintf("something disturbed %.0f %% of the launches", 100*w.dirty))
	}
	switch {
	case math.Abs(w.gain) > climbing && w.sure > 4:
		what = append(what, fmt.Sprintf("the level moved by %+.1f %% during the job, as on a machine that warms up or throttles", 100*math.Expm1(w.gain)))
	case n.Rate > drifting*n.SD*n.SD, w.serial < serial:
		what = append(what, "the level drifts between launches")
	}
	if len(what) > 0 {
		out = append(out, "this machine is noisy: "+strings.Join(what, "; ")+"\nhint: close other programs, measure for longer in each launch; kbisect doctor shows what is running")
	}
	if n.Wide == 0 && modes != "" {
		out = append(out, modes+"\nhint: bind the process to one memory node (numactl --cpunodebind), or let each launch measure more than one placement of its data")
	}
	return out
}

// Described says what modes the noise has; "" where it has none that are worth a warning. Among many launches, some noise
// looks like two modes close together.
func (n Noise) Described(launches int) string {
	rarer := min(n.Share, 1-n.Share)
	switch {
	case n.Mode <= max(noisySD, modesApart*n.SD) || rarer <= modesShare || rarer*float64(launches) < 4:
		return ""
	case n.Wide > 0:
		return fmt.Sprintf("%.0f %% of the launches are held up, by %.2g %% in the mean", 100*n.Share, 100*math.Expm1(n.Mode))
	}
	return fmt.Sprintf("launches fall into two modes, %.2g %% apart, %.0f %% into the slower", 100*math.Expm1(n.Mode), 100*n.Share)
}

// spread is the robust standard deviation of levels, from their median absolute deviation.
func spread(y []float64) float64 {
	m := metric.Median(y)
	off := make([]float64, len(y))
	for i, v := range y {
		off[i] = math.Abs(v - m)
	}
	return normalMAD * metric.Median(off)
}

// TwoModes splits the numbers of launches in two where they clearly fall into two groups, each with at least three
// launches and a tenth of all. low and high are the medians of the groups, share is that of the higher one; ok is
// false where there are no such groups.
func TwoModes(values []float64) (low, high float64, share float64, ok bool) {
	v := slices.Sorted(slices.Values(values))
	if len(v) < minModes || !(v[0] > 0) {
		return 0, 0, 0, false
	}
	logs := make([]float64, len(v))
	for i, x := range v {
		logs[i] = math.Log(x)
	}
	at, gap, few := 0, 0.0, max(3, len(v)/10)
	for i := few; i <= len(v)-few; i++ {
		if g := logs[i] - logs[i-1]; g > gap {
			at, gap = i, g
		}
	}
	if at == 0 || gap < 3*max(spread(logs[:at]), spread(logs[at:])) || gap < 0.01 {
		return 0, 0, 0, false
	}
	return metric.Median(v[:at]), metric.Median(v[at:]), float64(len(v)-at) / float64(len(v)), true
}

// checkLevels names the commit whose launches differ most from what the likeliest set predicts. Under the model the
// prediction errors of the filter are independent, so the sum of n standardised ones is normal with variance n. A
// launch may be disturbed by any amount, so each counts for at most two standard deviations; P is corrected for the
// number of commits.
func checkLevels(m *Belief) belief.Misfit {
	const fewest, most = 3, 2.0
	s := m.seen(len(m.launches))
	f := newFilter(m.noise)
	sum, count := map[int]float64{}, map[int]float64{}
	for i, l := range s.launches {
		f.turn(l.Device)
		if i >= unsettled && !m.noise.Modes() {
			x := 0.0
			if s.bad[i] {
				x = 1
			}
			g := f.merged()
			v := g.spread(x) + m.noise.Rate*max(0, l.At-f.at) + m.noise.SD*m.noise.SD
			at := l.Index
			sum[at] += min(most, max(-most, (l.Y-g.d-x*g.step)/math.Sqrt(v)))
			count[at]++
		}
		f.add(l, s.bad[i], m.noise)
	}
	worst := belief.Misfit{P: 1}
	for at, n := range count {
		if p := math.Erfc(math.Abs(sum[at]) / math.Sqrt(2*n)); n >= fewest && (p < worst.P || p == worst.P && at < worst.Index) {
			worst = belief.Misfit{Index: at, P: p}
		}
	}
	worst.P = min(1, worst.P*float64(max(1, len(count))))
	return worst
}
