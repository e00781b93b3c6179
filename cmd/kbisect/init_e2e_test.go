package main

import (
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// TestInitReadsTheProblem: what is wrong with it is said at once.
func TestInitReadsTheProblem(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		taskYML: "Next: read it, then kbisect run",
		strings.Replace(taskYML, `"source": "eval.py"`, `"source": "../judge.py"`, 1): "The problem cannot be read as it is: ",
		taskYML + "\ttab: 1\n": "hint: fix the file; YAML is indented with spaces",
	} {
		r := newRepo(t)
		r.put(map[string]string{"task.yml": task, "eval.py": "", "submission.py": "#!POPCORN leaderboard x\n"})
		if out, errs, code := r.kbisect("init"); code != exit.OK || !strings.Contains(out, want) {
			t.Errorf("exit %d, no word of %q\n%s%s", code, want, out, errs)
		}
	}
}
