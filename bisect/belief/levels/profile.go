package levels

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Profile is the levels of some commits, each for itself, with their joint error: no history ties them together.
// Levels are relative to the first commit, which is 0; commits are addressed by their position in At.
type Profile struct {
	At       []int // indices of the commits
	mean     []float64
	cov      [][]float64
	noise    Noise
	launches int // that it was fitted to
}

// Diff is by how much commit At[j] lies above At[i], with its standard deviation.
func (l Profile) Diff(i, j int) (d, sd float64) {
	v := l.cov[i][i] + l.cov[j][j] - 2*l.cov[i][j]
	return l.mean[j] - l.mean[i], math.Sqrt(max(0, v))
}

// Move puts commit At[j] at a step d above At[i], known with a standard deviation of sd. It changes l in place.
func (l Profile) Move(j, i int, d, sd float64) {
	l.mean[j] = l.mean[i] + d
	for k := range l.cov {
		l.cov[j][k] = l.cov[i][k]
		l.cov[k][j] = l.cov[k][i]
	}
	l.cov[j][j] = l.cov[i][i] + sd*sd
}

// FitProfile estimates the levels of the commits at from their launches; others are ignored, censored ones too. Noise
// and drift are those under which the launches are likeliest, with the penalties of score. A launch far from the
// others of its commit is taken for disturbed and counts little. A commit without launches keeps a standard deviation
// of 1.
func FitProfile(at []int, launches []belief.Launch) Profile {
	s := levelSight{at: at}
	for _, l := range launches {
		if k := slices.Index(at, l.Index); k >= 0 && !l.Censored {
			s.launches, s.of = append(s.launches, l), append(s.of, k)
		}
	}
	s.weigh()
	best, score := Noise{}, math.Inf(-1)
	for _, sd := range spreads() {
		for _, r := range drifts {
			n := Noise{SD: sd, Rate: r * sd * sd}
			_, _, logL := s.run(n)
			if p := penalised(logL, sd, r); p > score {
				best, score = n, p
			}
		}
	}
	mean, cov, _ := s.run(best)
	return Profile{at, mean, cov, best, len(s.launches)}
}

// Rest is what the ends differ by besides the step from a culprit's parent to it, a logarithm, with its standard deviation. Few
// launches measured the noise, so sd is such that d/sd is as rare under a normal as d is under Student's t.
func Rest(launches []belief.Launch, parent, culprit, bad int) (d, sd float64) {
	var at []int
	var weights []float64
	for _, x := range []struct {
		at     int
		weight float64
	}{{belief.GoodEnd, -1}, {parent, 1}, {culprit, -1}, {bad, 1}} {
		k := slices.Index(at, x.at)
		if k < 0 {
			k, at, weights = len(at), append(at, x.at), append(weights, 0)
		}
		weights[k] += x.weight
	}
	l, v := FitProfile(at, launches), 0.0
	for i, w := range weights {
		d += w * l.mean[i]
		for k, x := range weights {
			v += w * x * l.cov[i][k]
		}
	}
	if !(v > 0) || d == 0 {
		return d, math.Sqrt(max(0, v))
	}
	free := anyMachine.Worth + float64(l.launches-len(at))
	return d, math.Abs(d) / asNormal(d*d/v, max(1, free))
}

// levelSight is the launches of the commits whose levels are fitted.
type levelSight struct {
	at       []int
	launches []belief.Launch
	of       []int     // position in at of each launch's commit
	clean    []float64 // chance that nothing disturbed the launch
}

// flat is the levels of the launches less by how much their device is slower than the others, by medians.
func (s *levelSight) flat() []float64 {
	y, of, by := make([]float64, len(s.launches)), make([][]float64, len(s.at)), map[int][]float64{}
	for i, l := range s.launches {
		y[i] = l.Y
		of[s.of[i]] = append(of[s.of[i]], l.Y)
	}
	for i, l := range s.launches {
		by[l.Device] = append(by[l.Device], l.Y-metric.Median(of[s.of[i]]))
	}
	if len(by) > 1 {
		for i, l := range s.launches {
			y[i] -= metric.Median(by[l.Device])
		}
	}
	return y
}

// weigh sets clean by comparing every launch with the median of its commit.
func (s *levelSight) weigh() {
	by, y := make([][]float64, len(s.at)), s.flat()
	for i := range s.launches {
		by[s.of[i]] = append(by[s.of[i]], y[i])
	}
	dev := make([]float64, len(s.launches))
	var spread []float64
	for i := range s.launches {
		dev[i] = y[i] - metric.Median(by[s.of[i]])
		if len(by[s.of[i]]) > 2 {
			spread = append(spread, math.Abs(dev[i]))
		}
	}
	sd := 0.009
	if len(spread) > 0 {
		sd = max(0.0015, 1.2*1.4826*metric.Median(spread)) // a median of few lies near each of them
	}
	s.clean = make([]float64, len(dev))
	narrow, wide := newBell(sd*sd), newBell(sd*sd+dirtyMean*dirtyMean)
	for i, u := range dev {
		clean, soiled := (1-dirty)*narrow.at(u), dirty*soil(u, wide)
		s.clean[i] = max(1e-3, clean/(clean+soiled))
	}
}

// run is a Kalman filter (judge.md 2) whose state is the level of every commit but the first, in its place, and the
// drift of every device: of the first in place 0, of the others behind the commits.
func (s levelSight) run(n Noise) (mean []float64, cov [][]float64, logL float64) {
	m := len(s.at)
	place := map[int]int{} // of the drift of a device
	for _, l := range s.launches {
		if _, ok := place[l.Device]; !ok {
			place[l.Device] = 0
			if len(place) > 1 {
				place[l.Device] = m
				m++
			}
		}
	}
	mean, cov = make([]float64, m), make([][]float64, m)
	for i := range cov {
		cov[i] = make([]float64, m)
		cov[i][i] = 1
	}
	ph := make([]float64, m)
	now := map[int]float64{}
	for i, l := range s.launches {
		drift := place[l.Device]
		if _, ok := now[drift]; !ok {
			now[drift], mean[drift] = l.At, l.Y
		}
		k := s.of[i]
		cov[drift][drift] += n.Rate * max(0, l.At-now[drift])
		now[drift] = l.At
		y := mean[drift]
		for j := range ph {
			ph[j] = cov[j][drift]
			if k > 0 {
				ph[j] += cov[j][k]
			}
		}
		v := ph[drift] + n.SD*n.SD/s.clean[i]
		if k > 0 {
			y, v = y+mean[k], v+ph[k]
		}
		nu := l.Y - y
		logL += logNormal(nu, v)
		for a := range ph {
			g := ph[a] / v
			mean[a] += g * nu
			for b := range ph {
				cov[a][b] -= g * ph[b]
			}
		}
	}
	mean[0] = 0
	for j := range cov {
		cov[0][j], cov[j][0] = 0, 0
	}
	return mean[:len(s.at)], cov[:len(s.at)], logL
}
