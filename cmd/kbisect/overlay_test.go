package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// TestYoungBenchmark: a benchmark that no commit holds, with a module beside it, measures the package of
// the candidate and not that of the work tree, whose folder Python looks into first.
func TestYoungBenchmark(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: there is no python3; a benchmark that is not committed was not run")
	}
	r := newRepo(t)
	var ids []string
	for i := range 4 {
		add := 1
		if i >= 2 {
			add = 2
		}
		r.put(map[string]string{"pkg/__init__.py": "", "pkg/k.py": fmt.Sprintf("def kernel(x):\n    return x + %d  # %d\n", add, i)})
		ids = append(ids, r.commit(fmt.Sprint("change ", i)))
	}
	r.put(map[string]string{
		"tools/bench.py":  "#!/usr/bin/env python3\nimport os, sys\nsys.path.append(os.getcwd())\nfrom pkg.k import kernel\nimport want\nsys.exit(0 if kernel(1) == want.value else 1)\n",
		"tools/want.py":   "value = 2\n",
		"bench.py":        "import sys\nfrom pkg.k import kernel\nimport want\nsys.exit(0 if kernel(1) == want.value else 1)\n",
		"want.py":         "value = 2\n",
		"kbisect.toml":    "version = 1\npaths = [\"pkg/\", \"bench.py\", \"want.py\"]\n[run]\ncommand = [\"python3\", \"bench.py\"]\n",
		"pkg/stranger.py": "",
	})
	for _, args := range [][]string{{"--", "python3", "bench.py"}, {}} {
		out, errs, code := r.kbisect(append([]string{"run", "--quiet", "--no-hunks", "--good", ids[0]}, args...)...)
		if code != exit.OK || !strings.Contains(out, " makes the run fail") || !strings.Contains(out, "  "+ids[2][:10]+"\n") {
			t.Errorf("%q: exit %d\n%s%s", args, code, out, errs)
		}
		if !strings.Contains(out, "want.py: not committed at HEAD; the version in the work tree is added to every commit that lacks it") || strings.Contains(out, "stranger") {
			t.Errorf("%q: what was lent is not told:\n%s", args, out)
		}
	}
	for rev, want := range map[string]int{ids[0]: exit.OK, ids[3]: exit.Inconclusive} {
		out, errs, code := r.kbisect("measure", rev, "--launches", "1", "--", "./tools/bench.py")
		if code != want {
			t.Errorf("%s: exit %d, want %d\n%s%s", rev, code, want, out, errs)
		}
	}
}

// TestNothingIsLent: what is committed is the candidate's own, and programs are not sources.
func TestNothingIsLent(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.put(map[string]string{"bench.sh": "exit 0\n", "data.txt": "1"})
	r.commit("one")
	r.put(map[string]string{
		"data.txt": "2", "bench.sh": "exit 1\n", "prog": "\x7fELF\x00\x00", "huge.py": strings.Repeat("#", 1<<20+1),
		"kbisect.toml": "version = 1\n[build]\ncommand = [\"sh\", \"-c\", \"cp bench.sh made\"]\noutputs = [\"made\"]\n[run]\ncommand = [\"sh\", \"bench.sh\", \"data.txt\", \"prog\", \"huge.py\", \"made\", \"../x\", \".\"]\n",
		"made":         "echo mine\n",
	})
	out, errs, code := r.kbisect("measure", "HEAD", "--launches", "1")
	if code != exit.OK || strings.Contains(out+errs, "not committed at HEAD") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
