package session

import (
	"testing"

	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/store"
)

func TestCompareCode(t *testing.T) {
	for result, want := range map[string]int{
		string(compare.Worse): 1, string(compare.Better): 0, string(compare.Alike): 0, string(compare.Open): 3,
		store.Interrupted: exit.Interrupted, store.Infra: exit.Machine,
	} {
		if got := CompareCode(result); got != want {
			t.Errorf("%s: %d", result, got)
		}
	}
}
