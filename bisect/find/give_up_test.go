package find_test

import (
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// slower makes a launch take longer by a factor.
func slower(o bisect.Outcome, factor float64) bisect.Outcome {
	for i, s := range o.Series {
		o.Series[i].Values = append([]float64(nil), s.Values...)
		for k := range s.Values {
			o.Series[i].Values[k] *= factor
		}
	}
	return o
}

// flat is a search of a history without a step, whose launches change may disturb.
func flat(t *testing.T, seed uint64, change func(bisect.Request, int, bisect.Outcome) bisect.Outcome) (*simulate.Device, *[]bisect.Request, bisect.Sampler) {
	t.Helper()
	spec, err := simulate.ReadSpec([]byte(`{"preset":"quiet","culprit":"none","commits":40}`))
	if err != nil {
		t.Fatal(err)
	}
	d := simulate.NewDevice(spec, seed)
	var made []bisect.Request
	return d, &made, sampler(func(r bisect.Request) (bisect.Outcome, error) {
		o, err := d.Sample(t.Context(), r)
		if err == nil {
			o = change(r, len(made), o)
		}
		made = append(made, r)
		return o, err
	})
}

// Ends that differ by chance in their first launches and not in later ones have no culprit: that is said,
// with no list of suspects.
func TestSlowdownSaysThatADifferenceWasNotConfirmed(t *testing.T) {
	refuted := map[bool]int{} // by more launches of the search, and by the ends looked at anew
	for seed := range uint64(16) {
		factor := []float64{1.03, 1.04}[seed%2]
		d, _, s := flat(t, seed, func(r bisect.Request, n int, o bisect.Outcome) bisect.Outcome {
			if r.Purpose == bisect.EndBad && n < 12 {
				return slower(o, factor)
			}
			return o
		})
		b := slowdown(d, s)
		b.Options.Effect = 0.03
		f, err := find.Culprits(t.Context(), b)
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		if f.Result != bisect.NoDifference || f.Ends.Differ || f.Complaint.Class != "" || len(f.Suspects) > 0 {
			t.Errorf("seed %d: %s, %d suspects, %+v", seed, f.Result, len(f.Suspects), f.Ends)
		}
		if strings.Contains(f.Ends.Why, "was not confirmed: time") {
			refuted[strings.Contains(f.Ends.Why, "by all")]++
		}
	}
	if refuted[true] == 0 || refuted[false] == 0 {
		t.Errorf("refuted: %v", refuted)
	}
}

// A budget that ends before the ends are told apart says nothing of the machine.
func TestSlowdownBlamesTheBudgetForOpenEnds(t *testing.T) {
	d, made, s := flat(t, 1, func(_ bisect.Request, _ int, o bisect.Outcome) bisect.Outcome { return o })
	b := slowdown(d, s)
	b.Spent = func() bool { return len(*made) >= 4 }
	f, err := find.Culprits(t.Context(), b)
	if err != nil || f.Result != bisect.Inconclusive || !f.Spent || !f.Ends.Unclear {
		t.Fatalf("%v %+v", err, f)
	}
	if !strings.HasPrefix(f.Ends.Why, "the budget was used up") || strings.Contains(f.Ends.Why+f.Ends.Hint, "noisy") || !strings.Contains(f.Ends.Hint, "--resume --budget") {
		t.Errorf("%q, hint %q", f.Ends.Why, f.Ends.Hint)
	}
}

// A probe that rose because most of its launches were disturbed, and was launched again, is no level and
// nothing that was fixed.
func TestAllForgetsARiseThatWasRefuted(t *testing.T) {
	looked := 0
	for seed := range uint64(8) {
		risen := ""
		disturbed := 0
		d, _, s := flat(t, seed, func(r bisect.Request, _ int, o bisect.Outcome) bisect.Outcome {
			if r.Purpose == bisect.Searching && risen == "" {
				risen = r.Candidate.Commit
			}
			if r.Candidate.Commit == risen && disturbed < 2 {
				disturbed++
				return slower(o, 1.06)
			}
			return o
		})
		b := slowdown(d, s)
		b.All, b.Options.Effect = true, 0.03
		f, err := find.Culprits(t.Context(), b)
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		for _, st := range f.Steps {
			if st.Role == "to" && st.Commit == risen {
				looked++
			}
		}
		for _, l := range f.Levels {
			if l.Commit == risen && l.Effect.Ratio > 1.02 {
				t.Errorf("seed %d: level %+v", seed, l)
			}
		}
		if len(f.Culprits)+len(f.Fixes) > 0 {
			t.Errorf("seed %d: %+v %+v", seed, f.Culprits, f.Fixes)
		}
	}
	if looked == 0 {
		t.Error("no rise was looked at again")
	}
}
