package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// TestInitReadsTheProblem: what is wrong with it is said at once.
func TestInitReadsTheProblem(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		taskYML: "Next: read it, then kbisect try",
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

// TestInitAsks: whether a configuration is wanted without a repository is a question at a terminal and an error elsewhere.
func TestInitAsks(t *testing.T) {
	t.Parallel()
	const config = "kbisect.toml"
	outside := t.TempDir()
	repo := newRepo(t)
	for name, c := range map[string]struct {
		question, keys string // of a terminal; "": there is none
		want           string // of what is said, or of the configuration
		code           int
	}{
		"outside a repository": {"", "", "no git repository at ", exit.UsageError},
		"no":                   {"[y/N]", "\n", "hint: git init", exit.UsageError},
		"interrupted":          {"[y/N]", "\x03", "", exit.Interrupted},
		"end of input":         {"[y/N]", "\x04", "nothing was written", exit.UsageError},
		"yes":                  {"[y/N]", "y\n", "written for a project", exit.OK},
	} {
		cmd := exec.Command("kbisect", "init")
		cmd.Dir, cmd.Env = outside, repo.env()
		var said string
		var code int
		if c.question == "" {
			out, _ := cmd.CombinedOutput()
			said, code = string(out), cmd.ProcessState.ExitCode()
		} else {
			x := startOnTerminal(t, cmd, 80, 24)
			x.expect(c.question)
			x.send(c.keys)
			said, code = x.wait()
		}
		text, err := os.ReadFile(filepath.Join(outside, config))
		if (err == nil) != (c.code == exit.OK) {
			t.Errorf("%s: %v", name, err)
		}
		os.Remove(filepath.Join(outside, config))
		if code != c.code || !strings.Contains(said+string(text), c.want) {
			t.Errorf("%s: exit %d, no word of %q\n%s%s", name, code, c.want, said, text)
		}
	}
}
