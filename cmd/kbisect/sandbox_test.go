package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/proc"
)

// Candidates that attack the home, the repository, the working folders and kbisect itself: with --sandbox nothing
// happens to these, and the search finds what it looks for.
func TestSandboxedSearch(t *testing.T) {
	if err := proc.CheckSandbox(t.Context(), t.TempDir()); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	t.Parallel()
	const attack = `
echo owned >$HOME/.profile
echo owned >$(cat .git/objects/info/alternates)/../../n
for tree in $PWD/../../*/tree; do test $tree -ef . || echo "exit 1" >$tree/test.sh; done
mv $PWD $PWD/../moved && ln -s $HOME $PWD
mkdir -p sub && rm -r sub && ln -s $HOME sub
setsid sleep 1000 >&- 2>&- 3>&- &
kill -KILL $PPID
`
	for _, c := range []struct {
		name, config string
		options      []string
		holds        bool
	}{
		{"none", "", []string{"--", "./test.sh"}, false},
		{"option", "", []string{"--sandbox", "--build", "cp n built", "--", "./test.sh"}, true},
		{"configuration", "version = 1\n[build]\ncommand = [\"cp\", \"n\", \"built\"]\noutputs = [\"built\"]\n[run]\ncommand = [\"./test.sh\"]\nsandbox = true\n", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRepo(t)
			profile := filepath.Join(r.home, ".profile")
			if err := os.WriteFile(profile, []byte("mine\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			ids := r.history(4, func(int) string { return attack + "test $(cat n) -lt 3" })
			if c.config != "" {
				r.write("kbisect.toml", c.config)
			}
			before := r.snapshot()
			args := append([]string{"--good", ids[0]}, c.options...)
			if !c.holds {
				_, _, _ = r.kbisect(append([]string{"run"}, args...)...)
			} else if d := r.finding(0, args...); len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[2] || !d.Culprits[0].Confirmed {
				t.Errorf("%+v", d.Culprits)
			} else if !slices.ContainsFunc(d.Warnings, func(w string) bool { return strings.Contains(w, "sandbox") }) {
				t.Errorf("the report does not say it: %q", d.Warnings)
			}
			text, err := os.ReadFile(profile)
			if held := err == nil && string(text) == "mine\n" && r.snapshot() == before; held != c.holds {
				t.Errorf("held %t: %q, %v", held, text, err)
			}
		})
	}
}

// Where no sandbox can be made, nothing runs.
func TestSandboxRefused(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	ids := r.history(2, func(i int) string { return "echo >$HOME/ran" })
	const forbid = "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all"
	if out, err := exec.Command("unshare", "-Ur", "sh", "-c", forbid+" true").CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: namespaces cannot be forbidden here: %s", out)
	}
	run := r.command("run", "--sandbox", "--good", ids[0], "--", "./test.sh")
	cmd := exec.Command("unshare", append([]string{"-Ur", "sh", "-c", forbid + ` "$0" "$@"`}, run.Args...)...)
	cmd.Dir, cmd.Env = run.Dir, run.Env
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "max_user_namespaces") || !strings.Contains(string(out), "hint: ") {
		t.Errorf("exit %d: %s", code, out)
	}
	if _, err := os.Stat(filepath.Join(r.home, "ran")); err == nil {
		t.Error("a candidate ran")
	}
}
