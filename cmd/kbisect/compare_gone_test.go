package main

import (
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// TestCompareNamesWhatIsGone: a comparison that lost a case says so where it says that there is no difference.
func TestCompareNamesWhatIsGone(t *testing.T) {
	t.Parallel()
	r := gated(t)
	r.write("cases", "32=5.0")
	r.commit("a case less")
	out, errs, code := r.kbisect("compare", "main", "topic", "--pairs", "5", "--quiet")
	_, verdict, _ := strings.Cut(out, "✓ ")
	verdict, _, _ = strings.Cut(verdict, "\n")
	if code != exit.OK || !strings.HasPrefix(verdict, "No difference") || !strings.HasSuffix(verdict, "B does not report time of 64, which A does: no verdict on that.") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if list, _, _ := r.kbisect("sessions"); !strings.Contains(list, "B does not report time of 64") {
		t.Errorf("the list says nothing of it:\n%s", list)
	}
	if out, errs, code = r.kbisect("compare", "topic", "main", "--pairs", "5", "--quiet"); code != exit.OK || strings.Contains(out, "does not report") {
		t.Errorf("a case more: exit %d: %s%s", code, out, errs)
	}
}
