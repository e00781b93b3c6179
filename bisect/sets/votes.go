package sets

// undecided is the answer of tests that go on contradicting each other.
const undecided Answer = ""

// votes tests a set until its own tests answer: at least as many as certificates are repeated, and as
// many more as it takes for the doubt that is allowed. What does not build needs no second test.
func (r *run) votes(set Set, why Purpose, doubt float64, full bool) (Answer, Result, error) {
	for range mostVotes {
		if err := r.calibrate(set); err != nil {
			return "", Result{}, err
		}
		a, ok := r.voted(set, doubt)
		if ok && !full {
			return a, Result{}, nil
		}
		res, _, err := r.launch(set, why, full)
		if err != nil {
			return "", res, err
		}
		if full && res.Between {
			return Pass, res, nil
		}
		full = false // one failure at the full limit is proof enough of where it ends
	}
	return undecided, Result{}, nil
}

// calibrate tests everything on some more where tests of a set do not come to an answer: how often what
// is known to be guilty fails says how often another set must be tested.
func (r *run) calibrate(set Set) error {
	const many, fails, tests = 16, 3, 8
	for {
		own, t := r.mem.at(set).seen, r.mem.at(r.top).seen
		done := !r.mem.noisy || own.fail+own.pass < many || t.fail >= fails || t.fail+t.pass >= tests
		if done {
			return nil
		}
		if _, _, err := r.launch(r.top, Rate, false); err != nil {
			return err
		}
	}
}

// voted is the answer that tests of a set have given. One failure is left out: it may be the one of many
// tests that led the search here.
func (r *run) voted(set Set, doubt float64) (Answer, bool) {
	e := r.mem.at(set)
	t := e.seen
	switch {
	case e.undecided > 0 || r.mem.once || t.final == Pass:
		return e.answer()
	case t.final == Fail: // all is known of it but how often it fails
		return Fail, t.fail > r.repeats
	case t.pass >= r.repeats:
		if a, ok := r.mem.surely(t, doubt); ok && a == Pass {
			return Pass, true
		}
	}
	if t.fail--; t.fail < r.repeats {
		return "", false
	}
	a, ok := r.mem.surely(t, mistaken)
	return a, ok && a == Fail
}
