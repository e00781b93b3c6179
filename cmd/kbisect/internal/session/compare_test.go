package session

import (
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/store"
)

func TestExitCode(t *testing.T) {
	for result, want := range map[string]int{
		string(compare.Worse): 1, string(compare.Better): 0, string(compare.Alike): 0, string(compare.Open): 3,
		string(bisect.OK): 0, string(bisect.Timeout): 3, string(bisect.Found): 0, string(bisect.Inconclusive): 3, report.GatePass: 0,
		store.Interrupted: exit.Interrupted, store.Infra: exit.Machine,
	} {
		if got := ExitCode(result); got != want {
			t.Errorf("%s: %d", result, got)
		}
	}
}
