package main

import (
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// TestHookLaunchesAlone pushes slow commits that were launched before, and good ones: only what set the two
// against each other decides.
func TestHookLaunchesAlone(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	defer func() { t.Logf("\n%s", h.table) }()
	branch := func(name, level string) {
		h.git("checkout", "-q", "-f", "-b", name, "main")
		h.change(map[string]string{"level": level, "other": name}, name)
	}
	measured := []string{`building and launching`, `regression: B is worse: time \+\d\.\d % \(99 % CI`}
	for _, x := range []struct {
		name string
		args []string
		code int
	}{
		{"measured", []string{"measure", "--launches", "2"}, exit.OK},
		{"searched", []string{"run", "--good", "main", "--find", "wrong"}, exit.NoDifference},
	} {
		branch(x.name, "25\n")
		if out, errs, code := h.kbisect(append(x.args, "--quiet")...); code != x.code {
			t.Fatalf("%q: %d\n%s%s", x.args, code, out, errs)
		}
		said, code := h.push("slower, "+x.name+" before", "--dry-run", "origin", x.name)
		h.wants(said, code, 1, measured...)
	}

	known := []string{`!building and launching`, `\(kbisect show 2`}
	branch("gated", "25\n")
	h.kbisect("gate", "--quiet")
	said, code := h.push("slower, by a gate", "--dry-run", "origin", "gated")
	h.wants(said, code, 1, append(known, `regression: time \+8\.\d % \(99 % CI`)...)
	branch("let-pass", "23.0\n")
	h.must("gate", "--quiet")
	said, code = h.push("good, by a gate", "--dry-run", "origin", "let-pass")
	h.wants(said, code, 0, append(known, `passes: no change of 3 %`)...)
	branch("improved", "20\n")
	h.must("run", "--good", "main", "--improvement", "--no-explain", "--no-hunks", "--quiet")
	said, code = h.push("found, but for the better", "--dry-run", "origin", "improved")
	h.wants(said, code, 0, `building and launching`, `passes: B is better`)

	branch("parent", "23.0\n")
	h.git("branch", "child")
	h.git("checkout", "-q", "child")
	h.change(map[string]string{"level": "25\n"}, "slow")
	h.must("run", "--good", "main", "--no-explain", "--no-hunks", "--quiet")
	said, code = h.push("slow, by a search", "--dry-run", "origin", "child")
	h.wants(said, code, 1, append(known, `regression: `)...)
	branch("well", "25\n")
	h.git("branch", "ill")
	h.git("checkout", "-q", "ill")
	h.change(map[string]string{"wrong": "x"}, "wrong")
	h.must("run", "--good", "main", "--no-explain", "--no-hunks", "--quiet")
	said, code = h.push("good, by a search for what is wrong", "--dry-run", "origin", "well")
	h.wants(said, code, 1, measured...)
	said, code = h.push("wrong, by a search", "--dry-run", "origin", "ill")
	h.wants(said, code, 1, append(known, `regression: .*wrong`)...)
}
