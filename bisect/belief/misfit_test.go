package belief

import (
	"math"
	"testing"

	"github.com/kbisect/kbisect/bisect"
)

func TestFailuresMisfit(t *testing.T) {
	commits := bisect.Linear("good", "a", "b", "c", "d")
	e := NewFailures(commits, []float64{1, 1, 1, 1}, false)
	for n := range 12 {
		e.Add(Launch{Index: 0})
		e.Add(Launch{Index: 1, Failed: true})
		e.Add(Launch{Index: 3, Failed: true})
		e.Add(Launch{Index: 2, Failed: n%6 == 0}) // bad by its place, and hardly fails
	}
	if x := e.Misfit(1); !x.Misfits() || x.Index != 2 {
		t.Errorf("%+v", x)
	}
	even := NewFailures(commits, []float64{1, 1, 1, 1}, false)
	for n := range 12 {
		for _, i := range []int{1, 2, 3} {
			even.Add(Launch{Index: i, Failed: n%2 == 0})
		}
	}
	if x := even.Misfit(1); x.Misfits() {
		t.Errorf("%+v", x)
	}
}

// Fisher's tea: 3 of 4 against 1 of 4 has the two-sided probability 34/70.
func TestFisher(t *testing.T) {
	if p := fisher(Tally{3, 1}, Tally{1, 3}); math.Abs(p-34.0/70) > 1e-12 {
		t.Errorf("%v", p)
	}
	if p := fisher(Tally{0, 0}, Tally{1, 3}); p != 1 {
		t.Errorf("%v", p)
	}
}
