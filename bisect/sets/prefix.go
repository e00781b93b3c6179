package sets

import "math"

// shrink finds a minimal guilty set inside within, which fails: the shortest prefix of the atoms that
// fails ends in an atom of it; keep that, and go on below it.
//
// Kept sets are closed and what is required stands in front, so every set tested is valid. What does not
// build is read as a pass: along the prefixes of an order in which what is needed stands in front,
// "builds and fails" stays true once it is.
func (r *run) shrink(within Set) (Set, error) {
	for tries := 1; ; tries++ {
		kept, stray, err := r.descend(within, tries < maxRounds)
		if err != nil || !stray {
			return kept, err
		}
	}
}

// descend is one way down to a guilty set, unless the failure that it rests on turns out a stray one,
// where that is looked at.
func (r *run) descend(within Set, look bool) (kept Set, stray bool, err error) {
	least := r.mem.smallest(within)
	order := r.space.sorted(least)
	missing := sizePrior()
	for len(order) > 0 {
		b := r.believe(missing, order)
		r.hunt = &hunt{kept: kept.Len(), nats: math.Log(float64(len(order) + 1)), more: fitting(beyond(missing), len(order)), among: len(order)}
		p, err := r.boundary(kept, order, b)
		if err != nil || p == 0 {
			return kept, false, err
		}
		if look && p == len(order) {
			if a, err := r.again(kept.Or(Of(order...))); err != nil || a != Fail {
				return nil, true, err
			}
		}
		missing = b.after(p)
		kept = kept.Or(r.space.needs[order[p-1]])
		order = without(order[:p-1], kept)
	}
	return kept, false, nil
}

// again tests a set a second time that failed in one test, which all that was found since rests on: where
// nothing less fails that test may have been a stray one.
func (r *run) again(set Set) (Answer, error) {
	e := r.mem.entries[set.Key()]
	single := !r.mem.once && e != nil && e.final == "" && e.seen == tally{fail: 1}
	if !single {
		return Fail, nil
	}
	res, _, err := r.launch(set, Prefix, false)
	if err == nil && res.Answer == Pass {
		res.Answer, _, err = r.votes(set, Prefix, dismissed, false)
	}
	return res.Answer, err
}

func without(order []int, set Set) []int {
	var left []int
	for _, a := range order {
		if !set.Has(a) {
			left = append(left, a)
		}
	}
	return left
}

func (r *run) believe(missing []float64, order []int) rest {
	s := make([]float64, len(order))
	for k, a := range order {
		s[k] = r.space.atoms[a].Suspicion
	}
	return newRest(missing, s)
}

// round is the search for one atom: the least p for which kept and the first p of order fail.
type round struct {
	*run
	kept   Set
	order  []int
	lo, hi int // p lies between them
	w      []float64
	tests  int
	other  Answer // the last one that was no failure
}

// boundary finds the least p for which kept and the first p atoms fail; all of them do, and kept is
// tested by itself unless it is empty.
func (r *run) boundary(kept Set, order []int, b rest) (int, error) {
	d := &round{run: r, kept: kept, order: order, hi: len(order), other: Pass}
	if len(kept) == 0 {
		d.lo = 1
	}
	d.w = b.positions(d.ruled())
	d.narrow()
	for d.lo < d.hi {
		r.hunt.nats = entropy(d.w[d.lo : d.hi+1])
		m := d.next()
		d.odds = share(d.w[d.lo:d.hi+1], m-d.lo)
		a, err := r.ask(d.set(m), Prefix)
		if err != nil {
			return 0, err
		}
		d.tests++
		if a == Fail {
			d.hi = m
		} else {
			d.lo, d.other = m+1, a
		}
	}
	return d.lo, nil
}

// share is how much of the weights stands up to place m.
func share(w []float64, m int) float64 {
	front, all := 0.0, 0.0
	for i, x := range w {
		if all += x; i <= m {
			front += x
		}
	}
	if all > 0 {
		return front / all
	}
	return 0.5
}

func (d *round) set(p int) Set { return d.kept.Or(Of(d.order[:p]...)) }

// next is the place to test. The cheapest order of tests may be long where luck is bad: beyond three
// times what halving needs at most, the rest is halved.
func (d *round) next() int {
	switch {
	case d.Midpoint && d.lo == 0:
		return 0
	case d.Midpoint || d.tests >= 3*(ceilLog2(d.top.Len())+1):
		return d.lo + middle(d.hi-d.lo+1)
	}
	return d.lo + d.Cuts.at(d.w[d.lo:d.hi+1], d.prices(d.other))
}

// narrow takes in what follows from earlier answers before anything is tested.
func (d *round) narrow() {
	lo, hi := d.lo, d.hi
	for a, b := lo, hi; a < b; { // the longest prefix that is known to pass
		m := a + middle(b-a+1)
		if got, from, ok := d.mem.infer(d.set(m)); ok && got != Fail {
			if a, lo = m+1, m+1; got == Pass && !from.Equal(d.set(m)) {
				d.noteInferred(d.set(m), from, got, Prefix)
			}
		} else {
			b = m
		}
	}
	for a, b := lo, hi; a < b; { // the shortest that is known to fail
		m := a + middle(b-a+1)
		if got, from, ok := d.mem.infer(d.set(m)); ok && got == Fail {
			b, hi = m, m
			if !from.Equal(d.set(m)) {
				d.noteInferred(d.set(m), from, got, Prefix)
			}
		} else {
			a = m + 1
		}
	}
	d.lo, d.hi = lo, hi
}

// ruled marks the atoms that are known not to fail with kept alone.
func (d *round) ruled() []bool {
	ruled := make([]bool, len(d.order))
	if len(d.order) > mostTree {
		return ruled
	}
	for k, a := range d.order {
		got, _, ok := d.mem.infer(d.kept.Or(d.space.needs[a]))
		ruled[k] = ok && got == Pass
	}
	return ruled
}
