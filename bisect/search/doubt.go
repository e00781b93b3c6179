package search

import (
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// begin makes the belief of the run from the launches that still count.
func (r *run) begin(b belief.Belief) {
	r.b, r.visit = b, visit{}
	for _, t := range r.led.made {
		i, known := r.span.index[t.Candidate.Commit]
		if t.void || !known {
			continue
		}
		switch l, a := r.q.read(t); {
		case a == speaks && (i < 0 || r.span.within[i]):
			l.Index = i
			if i >= 0 {
				r.span.proven[i], r.span.usable[i] = true, true
			}
			r.b.Add(l)
		case a == speaks, a == unfit, i < 0, r.span.isEnd(i), r.span.proven[i]:
		case !t.Clean:
			r.span.usable[i] = false
		}
	}
}

// distrustKeys is for two commits of equal inputs that behave differently: something else than the declared inputs
// matters, and every commit becomes a candidate of its own.
func (r *run) distrustKeys(id string) {
	r.contradicted(fmt.Sprintf("commits of equal inputs behave differently, such as %s: the paths given leave out something that build or run read, so every commit was searched\nhint: add what is missing to paths (--path)", bisect.ShortID(id)))
	r.span.forgetKeys()
	r.out.f.Matter = len(r.span.commits)
}

// contradicted begins another round: the launches of the search are doubted as a whole, and everything is built clean
// from now on. The launches of the ends and from clean builds stay.
func (r *run) contradicted(why string) {
	r.rounds++
	r.out.warn(why)
	_, timed := r.q.(*level)
	r.led.void(func(t Trial) bool {
		return r.span.holds(t.Candidate.Commit) && t.Purpose == bisect.Searching || timed && !t.Clean
	})
	if r.s.Redo != nil {
		r.s.Redo()
	}
}

// takeTime forgets the trials that were in a hurry, those that passed too, lest the passes be left without
// the failures; from now on none is.
func (r *run) takeTime(why string) {
	r.out.warn(why)
	r.led.patient = true
	r.led.void(func(t Trial) bool { return t.Hurry != "" })
	for i := range r.span.within { // what they made of the range goes, too
		r.span.within[i] = true
	}
	r.span.clear()
	r.begin(r.q.belief(r))
}

// blindEnds is for ends of equal inputs that differ.
func (r *run) blindEnds() {
	if bad := r.span.bad(); r.span.blind && r.span.commits[bad].Key != "" {
		r.distrustKeys(r.span.id(bad))
	}
}
