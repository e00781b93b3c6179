package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/sets"
)

// What a search expects replaces the guess by the number of candidates, and is said when nothing else
// has been for a while.
func TestProgressTellsWhatASearchExpects(t *testing.T) {
	var said bytes.Buffer
	p := &progress{w: &said, began: time.Now(), last: time.Now(), told: time.Now()}
	p.begin(100, 100)
	said.Reset()
	b := judge.Progress{Suspects: 12.3, Probability: 0.2, ExpectedLaunches: 20.4, ExpectedSeconds: 300}
	p.belief(b)
	if got := p.expected(); got < 299*time.Second || got > 300*time.Second || said.Len() > 0 {
		t.Errorf("expects %v, said %q", got, said.String())
	}
	p.told = time.Now().Add(-2 * silence)
	p.belief(b)
	p.belief(b)
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "about 12 suspects, 20 launches and 5m0s to go") {
		t.Errorf("said %q", got)
	}
	said.Reset()
	p.step(bisect.Step{Commit: "0123456789", Role: "search", Remaining: 9, Verdict: bisect.Verdict{Call: bisect.Good}})
	if got := said.String(); !strings.Contains(got, "9 left") || !strings.Contains(got, "to go") {
		t.Errorf("said %q", got)
	}
}

// TestProgressShare: what is done grows to the end of the proof, and not before.
func TestProgressShare(t *testing.T) {
	p := &progress{w: io.Discard, began: time.Now(), last: time.Now(), told: time.Now()}
	p.begin(16, 16)
	last := -1.0
	for _, s := range []bisect.Step{
		{Role: "good end"}, {Role: "search", Remaining: 8}, {Role: "search", Remaining: 3}, {Role: "search", Remaining: 1},
		{Role: "culprit"}, {Role: "parent"}, {Role: "parent"},
	} {
		s.Commit = "0123456789"
		p.step(s)
		if got := p.share(); got < last || got > 1 || (got == 1) != (s.Role == "parent") {
			t.Errorf("%s: %.3f done, before %.3f", s.Role, got, last)
		}
		last = p.share()
	}
	p = &progress{w: io.Discard}
	p.begin(1, 1)
	if got := p.share(); got != 0 {
		t.Errorf("one suspect: %g done", got)
	}
}

// searching is a search of which each launch sleeps.
func searching(r *repo, seconds string, env ...string) *exec.Cmd {
	cmd := r.command("run", "--good", "v1", "--no-hunks", "--no-explain", "--", "sh", "-c", "sleep "+seconds+"; test $(cat n) -lt 3")
	cmd.Env = append(r.env(), env...)
	return cmd
}

// TestProgressOnTerminal: the status line is one line, however narrow the terminal becomes, and is gone at the end.
func TestProgressOnTerminal(t *testing.T) {
	t.Parallel()
	cmd := searching(newProject(t), "0.3", "TERM=xterm", "NO_COLOR=1") // long enough to be seen
	var out bytes.Buffer
	cmd.Stdout = &out
	x := startOnTerminal(t, cmd, 72, 24)
	x.expect("commits in the range")
	x.expect("run (limit 10m0s), ")
	const narrow = 26
	x.resize(narrow, 24)
	for range 4 { // what was drawn before it was seen
		x.expect("\x1b[J")
	}
	from := x.seen
	said, code := x.wait()
	if code != exitOK || !strings.HasPrefix(out.String(), "85a11be753 is the first bad commit") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("exit %d: %s", code, out.String())
	}
	if strings.Contains(regexp.MustCompile(`\x1b\[[0-9;]*m`).FindString(said), "m") {
		t.Errorf("colours: %q", said)
	}
	for _, want := range []string{"bad end   0", " left, ", " % done", "culprit   8", "parent    8"} {
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
		t.Errorf("the status line stays: %q", said)
	}
}

// newSwitches is a project of six flags, of which c and e together fail.
func newSwitches(t *testing.T) *repo {
	t.Helper()
	r := newRepo(t)
	config := "version = 1\n[run]\ncommand = [\"sh\", \"go.sh\"]\n"
	for _, f := range []string{"a", "b", "c", "d", "e", "f"} {
		config += fmt.Sprintf("[[flag]]\nname = %q\nvalues = [\"0\", \"1\"]\nenv = %q\n", f, "F_"+f)
	}
	r.write(configName, config)
	r.write("go.sh", "sleep 0.05\ntest $F_c$F_e != 11\n")
	r.commit("flags")
	return r
}

// share is what a status line or a line of progress says that is done, and how long it will take.
var share = regexp.MustCompile(`(\d+) %.* elapsed, about \S+ to go`)

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
	x.expect("6 flags, 6 changes that can be on or off")
	x.expect("search ")
	x.expect("certify ")
	wide := x.seen
	const narrow = 30
	x.resize(narrow, 24)
	for range 4 { // what was drawn before it was seen
		x.expect("\x1b[J")
	}
	from := x.seen
	said, code := x.wait()
	if code != exitOK || !strings.HasPrefix(out.String(), "c=1 e=1 together are to blame") {
		t.Fatalf("exit %d: %s", code, out.String())
	}
	most := 0
	for _, f := range statusLines(said[:wide]) {
		if m := share.FindStringSubmatch(f); m != nil {
			n, _ := strconv.Atoi(m[1])
			most = max(most, n)
		}
	}
	if most < 3 || most > 99 {
		t.Errorf("the bar went up to %d %% in %q", most, said[:wide])
	}
	for _, f := range statusLines(said[from:]) {
		if n := utf8.RuneCountInString(f); n > narrow {
			t.Errorf("%d columns of %d: %q", n, narrow, f)
		}
	}
	cmd = r.command(args...)
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil || strings.ContainsAny(errs.String(), "\x1b\r") {
		t.Errorf("%v: %q", err, errs.String())
	}
	for _, purpose := range []string{"search", "certify", "seed", "timing"} {
		if !regexp.MustCompile("(?m)^" + purpose + ".*" + strings.Replace(share.String(), "%", "% done", 1) + "$").MatchString(errs.String()) {
			t.Errorf("no share and no end in a line of %s:\n%s", purpose, errs.String())
		}
	}
}

// What a search over sets expects becomes time by what its tests have taken: what lies between them is added,
// and of tests made side by side each counts less.
func TestProgressExpectsOfSets(t *testing.T) {
	const second = time.Second
	for _, x := range []struct {
		took        time.Duration
		p           sets.Progress
		slots       int
		least, most time.Duration
	}{
		{20 * second, sets.Progress{Made: 10, Spent: 10, Tests: 4, Seconds: 6}, 1, 5 * second, 11 * second},
		{20 * second, sets.Progress{Made: 10, Spent: 10, Tests: 4, Seconds: 6, Timed: 2, Launch: 2}, 1, 130 * second, 140 * second},
		{10 * second, sets.Progress{Made: 10, Spent: 20, Tests: 4, Seconds: 8}, 2, second, 5 * second},
		{second, sets.Progress{Made: 10, Spent: 20, Tests: 4, Seconds: 8}, 1, 3 * second, 9 * second}, // remembered
	} {
		p := &progress{w: io.Discard, began: time.Now().Add(-x.took)}
		p.beginSets(6, 6, "flags")
		p.remaining(sets.Progress{}, x.slots)
		p.part = p.began
		p.remaining(x.p, x.slots)
		if got := p.expected(); got < x.least || got > x.most {
			t.Errorf("%+v after %v: %v", x.p, x.took, got)
		}
	}
}

// statusLines are the lines that were drawn over.
func statusLines(s string) (out []string) {
	for _, part := range strings.Split(s, "\r\n\x1b[1A\x1b[J") {
		out = append(out, part[strings.LastIndex(part, "\n")+1:])
	}
	return out[:len(out)-1]
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
	if text := errs.String(); strings.ContainsAny(text, "\x1b\r") || strings.Count(text, "\n") < 6 || !strings.Contains(text, "good end  e17a719f52: run (limit 10m0s)\n") {
		t.Errorf("%q", text)
	}
	for _, terminal := range []string{"TERM=dumb", "TERM=xterm"} {
		cmd := r.command("measure", "--launches", "1", "--", "true")
		if terminal == "TERM=xterm" {
			cmd.Args = slices.Insert(cmd.Args, 2, "--quiet")
		}
		cmd.Env, cmd.Stdout = append(r.env(), terminal), &out
		said, code := startOnTerminal(t, cmd, 80, 24).wait()
		if code != exitOK || strings.Contains(said, "\x1b") || (said == "") != (terminal == "TERM=xterm") {
			t.Errorf("%s: exit %d: %q", terminal, code, said)
		}
	}
}
