package bisect

import "testing"

func TestCandidateIsReadBack(t *testing.T) {
	for _, c := range []Candidate{
		{}, {Commit: "abc"}, {Commit: "abc", Assign: "compile=off,graph=1:2"},
	} {
		if back := ParseCandidate(c.String()); back != c {
			t.Errorf("%q: %+v, want %+v", c.String(), back, c)
		}
	}
}
