package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect/sets/flags"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline/source"
)

func TestParseCandidate(t *testing.T) {
	r := newRepo(t)
	r.write("n", "1")
	r.commit("the first")
	repo, err := source.Open(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	head := r.git("rev-parse", "HEAD")
	for text, want := range map[string]string{
		"HEAD": "", head: "", "HEAD^{/first}": "",
		"HEAD:compile=off": "", "HEAD:compile=max": `no value "max"`, "HEAD:": `invalid setting ""`, "HEAD^:a=b:c": `unknown flag "a"`, "HEAD:compile=on,compile=off": "twice",
		"nosuch": "nosuch", "": "unknown revision",
	} {
		p := &policy.Policy{Flags: []config.Flag{{Flag: flags.Flag{Name: "compile", Values: []string{"off", "on"}}}}}
		c, err := p.Candidate(t.Context(), repo, text)
		switch {
		case want == "" && (err != nil || c.Commit != head):
			t.Errorf("%q: %v, %v", text, c, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestCompareInterrupted stops a comparison: what was launched is kept, and said.
func TestCompareInterrupted(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write("n", "1")
	r.commit("the first")
	cmd := r.command("compare", "HEAD", "HEAD", "--json", "--", "sh", "-c", `echo "sample: 30 us" >&$KBISECT_FD; sleep 0.3`)
	var out strings.Builder
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := waitFor(t, errs, "pair 2")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, errs)
	err = cmd.Wait()
	ended, ok := err.(*exec.ExitError)
	if !ok || ended.ExitCode() != exit.Interrupted {
		t.Fatalf("%v after\n%s", err, seen)
	}
	if !strings.Contains(out.String(), `"result": "interrupted"`) || !strings.Contains(out.String(), `"comparisons": [`) {
		t.Error(out.String())
	}
	list, _, _ := r.kbisect("sessions")
	shown, _, _ := r.kbisect("show")
	if !strings.Contains(list, "compare  interrupted") || !strings.Contains(shown, "\n4 launches\n") && !strings.Contains(shown, "\n5 launches\n") && !strings.Contains(shown, "\n6 launches\n") {
		t.Errorf("%s\n%s", list, shown)
	}
	if _, msg, code := r.kbisect("run", "--resume"); code != exit.UsageError || !strings.Contains(msg, "nothing to resume") {
		t.Errorf("%d %s", code, msg)
	}
}

// waitFor reads until a word has come.
func waitFor(t *testing.T, r io.Reader, word string) string {
	t.Helper()
	var seen strings.Builder
	buf := make([]byte, 4096)
	deadline := time.Now().Add(2 * time.Minute) // of a hang, not of slowness
	for !strings.Contains(seen.String(), word) {
		n, err := r.Read(buf)
		seen.Write(buf[:n])
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no %q (%v) in\n%s", word, err, seen.String())
		}
	}
	return seen.String()
}
