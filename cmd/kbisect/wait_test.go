package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// begin starts kbisect and returns when a line on standard error begins with a text.
func (r *repo) begin(text string, args ...string) *exec.Cmd {
	r.t.Helper()
	cmd := r.command(args...)
	pipe, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cmd.Process.Kill() })
	from := bufio.NewReader(pipe)
	for line := ""; !strings.HasPrefix(line, text); {
		if line, err = from.ReadString('\n'); err != nil {
			r.t.Fatalf("kbisect %q: no line begins with %q: %v", args, text, err)
		}
	}
	go from.WriteTo(os.Stderr)
	return cmd
}

// TestWait: a second kbisect in a repository waits for the first one where it is asked to: without end, or as long as
// that was said, and no longer than until it is interrupted.
func TestWait(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	goOn := filepath.Join(r.home, "go")
	r.write("run.sh", "until test -e "+goOn+"; do sleep 0.05; done; test $(cat n) -lt 2\n")
	for _, n := range []string{"1", "2"} {
		r.write("n", n)
		r.commit(n)
	}
	first := r.begin("good end", "run", "--good", "HEAD~1", "--no-hunks", "--no-explain", "--", "sh", "run.sh")
	for want, args := range map[string][]string{
		"hint: --wait waits for it":                                  {"run", "--good", "HEAD~1", "--", "true"},
		"kbisect: waited 0.1s: another run works on this repository": {"measure", "--wait", "100ms", "--", "true"},
	} {
		if _, errs, code := r.kbisect(args...); code != exit.Machine || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d\n%s", args, code, errs)
		}
	}
	const waiting = "waiting: another run works on this repository: process "
	stopped := r.begin(waiting, "run", "--wait", "--good", "HEAD~1", "--", "sh", "run.sh")
	stopped.Process.Signal(syscall.SIGINT)
	stopped.Wait()
	if code := stopped.ProcessState.ExitCode(); code != exit.Interrupted {
		t.Errorf("interrupted: exit %d", code)
	}
	second := r.begin(waiting, "run", "--good", "HEAD~1", "--wait", "1h", "--no-hunks", "--no-explain", "sh", "run.sh")
	third := r.begin(waiting, "run", "--resume", "--wait")
	if err := os.WriteFile(goOn, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, cmd := range map[string]*exec.Cmd{"the first": first, "the second": second, "the one that resumes": third} {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInterruptedStart: a signal ends kbisect while it still reads a history, within a share of what there is to read. The
// signal comes from the git that hands out the commits, at a certain one of them, which then waits until it was seen.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	const commits, at = 4000, 400
	r := newRepo(t)
	var s strings.Builder
	for i := range commits {
		fmt.Fprintf(&s, "commit refs/heads/main\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata 1\nc\nM 100644 inline n\ndata <<E\n%d\nE\n", i+1, 1600000000+i, i)
	}
	r.pipe(s.String(), "fast-import", "--quiet", "--force")
	r.git("replace", "-f", "main~3999", "main~3998") // go-git does not read such a repository
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	asked, bin := filepath.Join(r.home, "asked"), t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in *cat-file*) ;; *) exec " + git + " \"$@\" ;; esac\n" +
		"n=0\nwhile read -r id; do n=$((n + 1)); echo >>" + asked + "; test $n != " + strconv.Itoa(at) + " || { kill -INT $PPID; sleep 1; }; echo $id; done | exec " + git + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run", "--good", "main~3800", "--bad", "main", "--", "true"},
		{"run", "--good", "main~3800", "--bad", "main", "--path", "n", "--", "true"},
		{"gate", "--base", "main~3800", "--", "true"},
	} {
		os.Remove(asked)
		cmd := r.command(args...)
		cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exit.Interrupted {
			t.Errorf("%q: exit %d\n%s", args, code, out)
		}
		if lines, err := os.ReadFile(asked); err != nil || len(lines) < at || len(lines) > 2*at {
			t.Errorf("%q: %d objects were asked for, with the signal at %d: %v\n%s", args, len(lines), at, err, out)
		}
	}
}

// TestBudgetCutsOff: a build or a launch that is under way when the budget is used up is cut off with all that it started. It
// accuses nobody, and a resumed search goes on from there.
func TestBudgetCutsOff(t *testing.T) {
	t.Parallel()
	for what, args := range map[string][]string{
		"build":  {"--build", "sh stuck.sh", "--", "sh", "run.sh"},
		"launch": {"--", "sh", "-c", "sh stuck.sh && sh run.sh"},
	} {
		r := newRepo(t)
		goOn := filepath.Join(r.home, "go")
		r.write("stuck.sh", "case $(cat n) in [1-6]) until test -e "+goOn+"; do sleep 0.05; done ;; esac\n")
		r.write("run.sh", "test $(cat n) -lt 6\n")
		for n := range 8 {
			r.write("n", strconv.Itoa(n))
			r.commit(strconv.Itoa(n))
		}
		f := r.finding(exit.Inconclusive, append([]string{"--no-hunks", "--no-explain", "--budget", "3s", "--good", "HEAD~7"}, args...)...)
		if len(f.Culprits) > 0 || !strings.Contains(f.Headline, "budget") {
			t.Errorf("%s: %s", what, f.Headline)
		}
		for _, s := range f.Steps {
			if s.Role == bisect.RoleSearch {
				t.Errorf("%s: what was cut off has a verdict: %+v", what, s)
			}
		}
		if err := os.WriteFile(goOn, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		f = r.finding(exit.OK, "--resume", "--budget", "10m")
		if len(f.Culprits) != 1 || f.Culprits[0].Commit != r.git("rev-parse", "HEAD~1") {
			t.Errorf("%s, resumed: %s", what, f.Headline)
		}
	}
}
