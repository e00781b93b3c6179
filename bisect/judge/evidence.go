package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// evidence is what launches that fail or pass tell about which commit is to blame, when a bad commit
// fails at some rate and a good one at a lower one, as a rule hardly ever. Both rates are unknown and
// integrated out; see rates.go. It does not depend on the order of the launches.
type evidence struct {
	commits []bisect.Commit
	graph   *bisect.Graph
	prior   []float64
	alike   float64 // prior of "the ends do not differ"
	all     tally
	by      map[int]*tally
	tested  []int          // commits with launches, in the order of the first one
	reach   map[int][]bool // what each of them reaches
}

func newEvidence(commits []bisect.Commit, prior []float64, alike float64) *evidence {
	return &evidence{commits: commits, graph: bisect.NewGraph(commits), prior: prior, alike: alike, by: map[int]*tally{}, reach: map[int][]bool{}}
}

// add takes in one launch of a commit, by its index; below 0 it is good whoever is to blame.
func (e *evidence) add(i int, failed bool) {
	t := tally{passes: 1}
	if failed {
		t = tally{fails: 1}
	}
	e.all = e.all.plus(t)
	if i < 0 {
		return
	}
	if e.by[i] == nil {
		e.by[i], e.reach[i] = &tally{}, bisect.Ancestors(e.commits, i)
		e.tested = append(e.tested, i)
	}
	*e.by[i] = e.by[i].plus(t)
}

// bads are the launches of bad commits, for every commit as the culprit.
func (e *evidence) bads() []tally {
	out := make([]tally, len(e.commits))
	for _, c := range e.tested {
		for k, in := range e.reach[c] {
			if in {
				out[k] = out[k].plus(*e.by[c])
			}
		}
	}
	return out
}

// belief is what the evidence makes of every commit.
type belief struct {
	weight []float64 // probability of each commit to be the culprit
	alike  float64   // probability that the ends do not differ
	bad    []tally   // launches of bad commits, if this commit is the culprit
	all    tally
}

func (e *evidence) belief() belief {
	b := belief{weight: make([]float64, len(e.commits)), bad: e.bads(), all: e.all}
	known := map[tally]float64{}
	logs := make([]float64, 0, len(e.commits)+1)
	for k, t := range b.bad {
		l, ok := known[t]
		if !ok {
			l = logTwo(t, e.all.minus(t))
			known[t] = l
		}
		logs = append(logs, math.Log(e.prior[k])+l)
	}
	mass := 0.0
	for _, p := range e.prior {
		mass += p
	}
	logs = append(logs, math.Log(e.alike/(1-e.alike)*mass)+logAlike(e.all))
	total := logSum(logs)
	for k := range b.weight {
		b.weight[k] = math.Exp(logs[k] - total)
	}
	b.alike = math.Exp(logs[len(b.weight)] - total)
	return b
}

// top is the likeliest culprit.
func (b belief) top() (k int) {
	for i, w := range b.weight {
		if w > b.weight[k] {
			k = i
		}
	}
	return k
}

// rate is how often a launch of a bad commit fails if commit k is the culprit.
func (b belief) rate(k int) float64 {
	bad, good := b.bad[k], b.all.minus(b.bad[k])
	return min(0.99, failNext(func(t tally) float64 { return logTwo(t, good) }, bad))
}

// speaksBad is how much likelier the launches of a commit that does not reach commit k are if it is bad
// than if it is good, as a logarithm, when k is the culprit of all others.
func (b belief) speaksBad(k int, runs tally) float64 {
	bad := b.bad[k]
	good := b.all.minus(bad).minus(runs)
	return logTwo(bad.plus(runs), good) - logTwo(bad, good.plus(runs))
}

// credible lists the likeliest commits that together hold the share p of what is left to commits,
// oldest first.
func (b belief) credible(p float64) []bisect.Suspect {
	var all []bisect.Suspect
	total := 0.0
	for i, w := range b.weight {
		if w > 0 {
			all = append(all, bisect.Suspect{Index: i, Probability: w})
			total += w
		}
	}
	slices.SortStableFunc(all, func(x, y bisect.Suspect) int { return cmp.Compare(y.Probability, x.Probability) })
	sum, n := 0.0, 0
	for n < len(all) && sum < p*total {
		sum += all[n].Probability
		n++
	}
	all = all[:n]
	slices.SortFunc(all, func(x, y bisect.Suspect) int { return cmp.Compare(x.Index, y.Index) })
	return all
}

// peers lists the suspects that no launch so far tells from commit k.
func (e *evidence) peers(k int) []int {
	var out []int
	for i, p := range e.prior {
		if p > 0 && !slices.ContainsFunc(e.tested, func(c int) bool { return e.reach[c][i] != e.reach[c][k] }) {
			out = append(out, i)
		}
	}
	return out
}

// parted reports that some commit that can be launched would tell the members of a set apart.
func (e *evidence) parted(members []int, usable func(int) bool) bool {
	inside := make([]float64, len(e.commits))
	for _, i := range members {
		inside[i] = 1
	}
	for i, n := range e.graph.Masses(inside) {
		if usable(i) && n > 0.5 && n < float64(len(members))-0.5 {
			return true
		}
	}
	return false
}

// forecast is what the next launch of each commit would show and tell.
type forecast struct {
	fail, known           []float64 // chance that it fails; entropy that knowing the culprit would leave
	failGood, knownGood   float64   // the same of the good end
	failAlike, knownAlike float64
}

func (e *evidence) forecast(b belief) forecast {
	n := len(e.commits)
	bad, badH, good, goodH := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	rates := map[tally][2]float64{}
	var f forecast
	for k, w := range b.weight {
		t := b.bad[k]
		r, ok := rates[t]
		if !ok {
			g, fail := b.all.minus(t), tally{fails: 1}
			l := logTwo(t, g)
			r = [2]float64{math.Exp(logTwo(t.plus(fail), g) - l), math.Exp(logTwo(t, g.plus(fail)) - l)}
			rates[t] = r
		}
		bad[k], badH[k] = w*r[0], w*binaryEntropy(r[0])
		good[k], goodH[k] = w*r[1], w*binaryEntropy(r[1])
		f.failGood += good[k]
		f.knownGood += goodH[k]
	}
	r := failNext(logAlike, b.all)
	f.failAlike, f.knownAlike = b.alike*r, b.alike*binaryEntropy(r)
	f.fail, f.known = e.graph.Masses(bad), e.graph.Masses(badH)
	outside, outsideH := e.graph.Masses(good), e.graph.Masses(goodH)
	for i := range f.fail {
		f.fail[i] += f.failGood - outside[i] + f.failAlike
		f.known[i] += f.knownGood - outsideH[i] + f.knownAlike
	}
	f.failGood += f.failAlike
	f.knownGood += f.knownAlike
	return f
}

// of returns the chance that a launch of commit i fails, and the information about the culprit that
// it promises, in nats.
func (f forecast) of(i int) (fail, info float64) {
	fail, known := f.failGood, f.knownGood
	if i >= 0 {
		fail, known = f.fail[i], f.known[i]
	}
	return fail, max(0, binaryEntropy(fail)-known)
}
