package sets

import "testing"

// Nothing on is all that can be kept here. It passed as an end and never again: it is not confirmed, and the
// search ends.
func TestSafeSetThatStopsPassing(t *testing.T) {
	o := guilty([]int{0}, []int{1}, []int{2})
	search := Search{Space: space(t, plainAtoms(3)), Goal: Keep}
	search.Oracle = oracleFunc(func(r Request) Result {
		res, _ := o.Test(t.Context(), r)
		if r.Purpose == keeping {
			res.Answer = Fail
		}
		return res
	})
	f := find(t, search)
	if len(f.Safe) == 0 || f.Safe[0].Confirmed || !said(f, "it is not confirmed") {
		t.Errorf("keep %+v after %d tests, %q", f.Safe, f.Counts.Tests, f.Warnings)
	}
}
