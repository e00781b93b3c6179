package find_test

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
)

// What came, was reverted and came again leaves commits of equal inputs on both sides of each change. The answer is
// one of the changes, as if inputs were not known.
func TestChangesThatComeAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inputs := rapid.SliceOfN(rapid.IntRange(0, 4), 2, 14).Draw(t, "inputs of the good end and the commits after it")
		bad := rapid.SliceOfN(rapid.Bool(), 5, 5).Draw(t, "bad inputs")
		bad[inputs[0]], bad[inputs[len(inputs)-1]] = false, true
		if inputs[0] == inputs[len(inputs)-1] {
			t.Skip("equal ends")
		}
		cs := line(len(inputs) - 1)
		isBad := func(i int) bool { return bad[inputs[i+1]] } // -1 is the good end
		for i := range cs {
			cs[i].Key, cs[i].Neutral = key(inputs[i+1], inputs[0]), inputs[i+1] == inputs[i]
		}
		s := &truth{bad: isBad}
		f, err := s.find(t, cs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Result != bisect.Found || len(f.Culprits) != 1 {
			t.Fatalf("%s after %d launches: %q", f.Result, s.launches, f.Warnings)
		}
		i := slices.IndexFunc(cs, func(c bisect.Commit) bool { return c.ID == f.Culprits[0].Commit })
		if !isBad(i) || isBad(i-1) || !f.Culprits[0].Confirmed || s.launches > 80 {
			t.Fatalf("c%d after %d launches: %+v", i, s.launches, f.Culprits[0])
		}
	})
}

// key is the key of inputs, "good" of those of the good end.
func key(inputs, good int) string {
	if inputs == good {
		return "good"
	}
	return strconv.Itoa(inputs)
}
