package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// searching is a search of which each launch sleeps.
func searching(r *repo, seconds string, env ...string) *exec.Cmd {
	r.watched = true
	cmd := r.command("run", "--good", "v1", "--no-hunks", "--no-explain", "--", "sh", "-c", "sleep "+seconds+"; test $(cat n) -lt 3")
	cmd.Env = append(r.env(), env...)
	return cmd
}

// TestProgressOnTerminal: the live area is two lines, however narrow the terminal becomes, says what was spent,
// and is gone at the end.
func TestProgressOnTerminal(t *testing.T) {
	t.Parallel()
	cmd := searching(newProject(t), "0.3", "TERM=xterm", "NO_COLOR=1") // long enough to be seen
	var out bytes.Buffer
	cmd.Stdout = &out
	x := startOnTerminal(t, cmd, 72, 24)
	x.expect("commits in the range")
	x.expect(" %, ")
	x.expect(" elapsed")
	x.expect("run (limit 10m), ")
	x.expect(" launch")
	const narrow = 26
	x.resize(narrow, 24)
	for range 4 { // what was drawn before it was seen
		x.expect("\x1b[J")
	}
	from := x.seen
	said, code := x.wait()
	if code != exit.OK || !strings.Contains(out.String(), " makes the run fail") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("exit %d: %s", code, out.String())
	}
	if strings.Contains(regexp.MustCompile(`\x1b\[[0-9;]*m`).FindString(said), "m") {
		t.Errorf("colours: %q", said)
	}
	for _, want := range []string{"bad end   0", " left, ", " elapsed", "culprit   8", "parent    8"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	frames := statusLines(said[from:])
	for _, f := range frames {
		if n := utf8.RuneCountInString(f); n > narrow {
			t.Errorf("%d columns of %d: %q", n, narrow, f)
		}
	}
	if len(frames) < 3 {
		t.Errorf("%d status lines in %q", len(frames), said[from:])
	}
	if !strings.HasSuffix(said, "\x1b[J") {
		t.Errorf("the live area stays: %q", said)
	}
}

// newSwitches is a project of six flags, of which c and e together fail and none costs time.
func newSwitches(t *testing.T) *repo {
	t.Helper()
	r := newRepo(t)
	r.watched = true
	text := "version = 1\n[run]\ncommand = [\"sh\", \"go.sh\"]\n"
	for _, f := range []string{"a", "b", "c", "d", "e", "f"} {
		text += fmt.Sprintf("[[flag]]\nname = %q\nvalues = [\"0\", \"1\"]\nenv = %q\n", f, "F_"+f)
	}
	r.write(config.FileName, text)
	r.write("go.sh", "sleep 0.05\necho \"sample: $((1000 + $$ % 7)) ns\" >&$KBISECT_FD\ntest $F_c$F_e != 11\n")
	r.commit("flags")
	return r
}

// logLine is the first line of what a log says of a test.
var logLine = regexp.MustCompile(`(?m)^(?:search|seed|confirm|without|timing) [^\r\n\x1b]*`)

// TestProgressOfSets: a search of flags says what is done and when it will end: on a terminal, also once it is
// narrow, and in lines.
func TestProgressOfSets(t *testing.T) {
	t.Parallel()
	r := newSwitches(t)
	args := []string{"run", "--axis", "flags"}
	cmd := r.command(args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout = append(r.env(), "TERM=xterm"), &out
	x := startOnTerminal(t, cmd, 100, 24)
	x.expect("6 flags to search")
	x.expect("search ")
	x.expect("seed ")
	wide := x.seen
	const narrow = 30
	x.resize(narrow, 24)
	for range 4 { // what was drawn before it was seen
		x.expect("\x1b[J")
	}
	from := x.seen
	said, code := x.wait()
	if code != exit.OK || !strings.HasPrefix(out.String(), "✗ c=1 e=1 together cause a failure") {
		t.Fatalf("exit %d: %s", code, out.String())
	}
	if setting := regexp.MustCompile(`(?m)^ +as environment\n +F_a=1 F_b=1 (F_c=0 F_d=1 F_e=1|F_c=1 F_d=1 F_e=0) F_f=1$`); !setting.MatchString(out.String()) {
		t.Errorf("no setting to copy: %s", out.String())
	}
	if all, folded := strings.Count(said, "confirm "), regexp.MustCompile(`confirm +\d+\s+tests:\s+\d+\s+pass,\s+\d+\s+fail\s+\|\s`).FindAllString(said, -1); len(folded) == 0 || len(folded) != all {
		t.Errorf("%d lines of proofs, of which tests are counted in %q", all, folded)
	}
	most := 0
	for _, f := range statusLines(said[:wide]) {
		if m := statusShare.FindStringSubmatch(f); m != nil {
			n, _ := strconv.Atoi(m[1])
			most = max(most, n)
		}
	}
	if most < 3 || most > 99 {
		t.Errorf("the bar went up to %d %% in %q", most, said[:wide])
	}
	for _, f := range append(statusLines(said[from:]), logLine.FindAllString(said[from:], -1)...) {
		if n := utf8.RuneCountInString(f); n > narrow {
			t.Errorf("%d columns of %d: %q", n, narrow, f)
		}
	}
	cmd = r.command(append(args, "--fresh")...)
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil || strings.ContainsAny(errs.String(), "\x1b\r") {
		t.Errorf("%v: %q", err, errs.String())
	}
}

// statusLines are the lines that were drawn over, two at a time.
func statusLines(s string) (out []string) {
	parts := strings.Split(s, "\r\n\x1b[2A\x1b[J")
	for _, part := range parts[:len(parts)-1] {
		lines := strings.Split(part, "\r\n")
		out = append(out, lines[max(0, len(lines)-2):]...)
	}
	return out
}

// TestProgressPlain: no terminal, or one that can do nothing, gets whole lines; --quiet none.
func TestProgressPlain(t *testing.T) {
	t.Parallel()
	r := newProject(t)
	var out, errs bytes.Buffer
	cmd := searching(r, "0", "TERM=xterm")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatal(err, errs.String())
	}
	if text := errs.String(); strings.ContainsAny(text, "\x1b\r") || strings.Count(text, "\n") < 6 || !strings.Contains(text, "good end  e17a719f52: run (limit 10m)\n") {
		t.Errorf("%q", text)
	}
	for _, terminal := range []string{"TERM=dumb", "TERM=xterm"} {
		cmd := r.command("measure", "--launches", "1", "--", "true")
		if terminal == "TERM=xterm" {
			cmd.Args = slices.Insert(cmd.Args, 2, "--quiet")
		}
		cmd.Env, cmd.Stdout = append(r.env(), terminal), &out
		said, code := startOnTerminal(t, cmd, 80, 24).wait()
		if code != exit.OK || strings.Contains(said, "\x1b") || (said == "") != (terminal == "TERM=xterm") {
			t.Errorf("%s: exit %d: %q", terminal, code, said)
		}
	}
}

// statusShare is what a status line says that is done, and how long it will take.
var statusShare = regexp.MustCompile(`(\d+) %.* elapsed, about \S+ to go`)

// TestTablesFitTheTerminal: the lists of sessions and of launches are no wider than the terminal.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	const columns = 60
	r := newProject(t)
	if out, errs, code := r.kbisect("measure", "--launches", "2", "--", "sh", "-c", "echo a line that is longer than the terminal is wide, by far; exit 3"); code == exit.OK {
		t.Fatal(out, errs)
	}
	for _, args := range [][]string{{"sessions"}, {"show"}} {
		cmd := r.command(args...)
		cmd.Env = append(r.env(), "TERM=xterm")
		said, code := startOnTerminal(t, cmd, columns, 24).wait()
		if code != exit.OK || !strings.Contains(said, "…") {
			t.Errorf("%q: exit %d: %s", args, code, said)
		}
		for _, line := range strings.Split(said, "\r\n") {
			if n := utf8.RuneCountInString(line); n > columns && !strings.HasPrefix(line, "command ") && !strings.HasPrefix(line, "finding ") {
				t.Errorf("%q: %d columns of %d: %s", args, n, columns, line)
			}
		}
	}
}
