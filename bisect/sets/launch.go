package sets

import (
	"math"
	"math/big"

	"github.com/kbisect/kbisect/bisect"
)

// turn translates a set of the search into what is on, and back: they differ where the ends are the
// wrong way round.
func (r *run) turn(set Set) Set {
	if r.f.Reversed {
		return r.top.Minus(set)
	}
	return set
}

// launch makes one test and takes in what it showed.
func (r *run) launch(set Set, why Purpose, full bool) (Result, int, error) {
	req := Request{Set: r.turn(set), Purpose: why, Full: full, Past: r.past, Chance: r.chance(set, why)}
	key := string(why) + " " + req.Set.Key()
	req.Nth = r.nth[key]
	req.Clean = why == Certify && req.Nth == 0 // later ones find it built
	r.nth[key]++
	if r.Spent != nil && why != EndGood && why != EndBad && r.Spent() {
		return Result{}, 0, errSpent
	}
	if err := r.ctx.Err(); err != nil {
		return Result{}, 0, err
	}
	res, err := r.Oracle.Test(r.ctx, req)
	if err != nil {
		return Result{}, 0, err
	}
	row := r.record(Test{Request: req, Result: res})
	r.mem.add(set, res, row)
	if !full {
		r.price(res)
	}
	if r.PassCost > 0 { // the ends are known
		r.tell()
	}
	return res, row, nil
}

// chance is that of a failure: mostly a set does as it did before, and as what is known of others says.
func (r *run) chance(set Set, why Purpose) float64 {
	const (
		alike   = 0.05 // chance that the expected does not come
		certify = 0.1  // a set without one of the atoms that were found needed
	)
	switch a, _, ok := r.mem.infer(set); {
	case ok && a == Fail:
		return 1 - alike
	case ok:
		return alike
	case why == Prefix:
		return r.odds
	case why == Certify || why == Keeping:
		return certify
	}
	return 0.5
}

// record writes a row of the ledger.
func (r *run) record(t Test) int {
	r.f.Tests = append(r.f.Tests, t)
	if r.OnTest != nil {
		r.OnTest(t)
	}
	return len(r.f.Tests) - 1
}

// mean is a mean price in the making.
type mean struct{ sum, logs, n float64 }

func (m mean) plus(x float64) mean { return mean{m.sum + x, m.logs + math.Log(max(x, 1e-6)), m.n + 1} }

// usual is the geometric mean, of which what was expected is one: a single dear set says little of the others.
func (m mean) usual(expected float64) float64 {
	return math.Exp((math.Log(max(expected, 1e-6)) + m.logs) / (m.n + 1))
}

func (m mean) or(expected float64) float64 {
	if m.n > 0 {
		expected = m.sum / m.n
	}
	return max(expected, 1e-6)
}

// price learns what answers cost, and for how many launches a test counts.
func (r *run) price(res Result) {
	m := r.cost[res.Answer]
	r.cost[res.Answer] = m.plus(res.Seconds)
	r.weighs = r.weighs.plus(float64(votes(res)))
}

// prices are the means so far, before the first answer what was expected; other is the answer that is
// expected where it is no failure.
func (r *run) prices(other Answer) prices {
	return prices{r.cost[Fail].or(r.FailCost), r.cost[other].or(r.PassCost)}
}

// ask returns the answer to a set: what is known, what follows from it, or else what tests show.
func (r *run) ask(set Set, why Purpose) (Answer, error) {
	for tries := 0; ; tries++ {
		a, from, ok := r.mem.infer(set)
		if ok && !from.Equal(set) {
			r.noteInferred(set, from, a, why)
		}
		if ok {
			return a, nil
		}
		if tries > mostVotes { // neither answer gets ahead
			return Unresolved, nil
		}
		if err := r.calibrate(set); err != nil {
			return "", err
		}
		if _, _, err := r.launch(set, why, false); err != nil {
			return "", err
		}
	}
}

// test returns the answer of a test of this very set: that another set builds says nothing about it.
func (r *run) test(set Set, why Purpose) (Answer, error) {
	a, ok := r.mem.at(set).answer()
	if ok {
		return a, nil
	}
	res, _, err := r.launch(set, why, false)
	return res.Answer, err
}

// noteInferred writes an inferred answer into the ledger, once.
func (r *run) noteInferred(set, from Set, a Answer, why Purpose) {
	key := set.Key() + string(a)
	if r.noted[key] {
		return
	}
	r.noted[key] = true
	r.record(Test{Request: Request{Set: r.turn(set), Purpose: why}, Result: Result{Answer: a}, Inferred: true, From: r.turn(from)})
}

// count adds up the ledger.
func (r *run) count() {
	c := &r.f.Counts
	for _, t := range r.f.Tests {
		switch {
		case t.Inferred:
			c.Inferred++
			continue
		case t.Purpose == Recorded:
			continue
		case t.Answer == Pass:
			c.Pass++
		case t.Answer == Fail:
			c.Fail++
		default:
			c.Unresolved++
		}
		c.Tests++
		c.Seconds += t.Seconds
	}
	c.LeastTests = len(r.f.Minimal) + len(r.f.Safe)
	p := r.prices(Pass)
	for _, g := range r.f.Minimal {
		k := g.Atoms.Len()
		c.LeastSeconds += p.fail + float64(k)*p.pass
		if c.LeastBits == 0 {
			n := new(big.Float).SetInt(new(big.Int).Binomial(int64(r.top.Len()), int64(k)))
			exp := n.MantExp(nil)
			f, _ := new(big.Float).SetMantExp(n, -exp).Float64()
			c.LeastBits = int(math.Ceil(float64(exp) + math.Log2(max(f, 0.5))))
		}
	}
}

// ends tests both ends; false when there is nothing to search.
func (r *run) ends() (bool, error) {
	good, err := r.end(Set{}, EndGood, Pass)
	if err != nil {
		return false, err
	}
	bad, err := r.end(r.top, EndBad, Fail)
	if err != nil {
		return false, err
	}
	for _, top := range r.otherTops() {
		if good.Answer != Pass || bad.Answer == Fail {
			break
		}
		r.top = top
		if bad, err = r.end(top, EndBad, Fail); err != nil {
			return false, err
		}
	}
	switch {
	case good.Answer == Unresolved || bad.Answer == Unresolved:
		r.f.Result = bisect.Inconclusive
		r.warn("an end could not be tested: nothing on is %s, everything on is %s\nhint: leave the value that does not build out (bad = \"...\"), or say by excludes what does not go together", good.Answer, bad.Answer)
		return false, nil
	case good.Answer == bad.Answer:
		r.f.Result = bisect.NoDifference
		word := "shows the complaint"
		if good.Answer == Pass {
			word = "passes"
		}
		r.warn("everything on %s, and so does nothing on: there is no difference to search for", word)
		return false, nil
	case good.Answer == Fail:
		if ok, err := r.turnRound(); err != nil || !ok {
			return false, err
		}
		good, bad = bad, good
	}
	r.mem.end(Set{}, Pass)
	r.mem.end(r.top, Fail)
	if bad.Class == bisect.Slow { // each test is of many launches
		r.weighs = mean{}.plus(mostWeight)
	}
	if r.FailCost <= 0 {
		r.FailCost = bad.Seconds
	}
	if r.PassCost <= 0 {
		r.PassCost = good.Seconds
	}
	return true, nil
}

// otherTops lists what else could be on at most, where some changes exclude others: for each change that
// the bad end leaves out, a set that holds it.
func (r *run) otherTops() []Set {
	if len(r.Bad) > 0 {
		return nil
	}
	var out []Set
	covered := r.top
	for _, i := range r.space.Whole().Minus(r.top).Atoms() {
		if covered.Has(i) {
			continue
		}
		set := r.space.Close(Of(i))
		for _, k := range r.space.order {
			if more := r.space.Close(set.Or(Of(k))); r.space.whole.Has(k) && r.space.Valid(more) {
				set = more
			}
		}
		if r.space.Valid(set) {
			out, covered = append(out, set), covered.Or(set)
		}
	}
	return out
}

// end tests one end; one that is not as expected is tested again until two tests agree. The bad end must
// pass five times, and ten where it failed once: its complaint may not come every time.
func (r *run) end(set Set, why Purpose, expected Answer) (Result, error) {
	count := map[Answer]int{}
	enough := map[Answer]int{Pass: 2, Fail: 2, Unresolved: 2}
	if expected == Fail {
		enough[Pass] = 5
	}
	for {
		res, _, err := r.launch(set, why, true)
		if err != nil {
			return res, err
		}
		count[res.Answer]++
		if expected == Fail && count[Fail] > 0 {
			enough[Pass] = 10
		}
		if n := count[res.Answer]; n >= enough[res.Answer] || r.repeats < 2 || res.Answer == expected && len(count) == 1 {
			return res, nil
		}
	}
}

// turnRound goes on with the ends exchanged: what is searched for are atoms whose absence fails.
func (r *run) turnRound() (bool, error) {
	for _, c := range r.space.conflicts {
		if c.In(r.space.whole) {
			r.warn("nothing on shows the complaint and everything on does not: with changes that exclude each other that is not searched\nhint: exchange the two ends")
			r.f.Result = bisect.Inconclusive
			return false, nil
		}
	}
	space, err := r.space.reversed()
	if err != nil {
		return false, err
	}
	r.space = space
	r.f.Reversed = true
	r.warn("the ends are the wrong way round: nothing on shows the complaint and everything on does not; what follows names the changes whose absence brings it")
	old := r.mem
	r.mem = newMemory(old.once)
	for _, e := range old.list {
		res := r.f.Tests[e.row].Result
		r.mem.add(r.top.Minus(e.set), res, e.row)
	}
	return true, nil
}
