package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
