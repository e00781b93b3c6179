package hook

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// pusher is a repository with a remote, and a device that is made up: a launch shows what show returns for the text of
// the file "n" in its commit.
type pusher struct {
	*gittest.Repo
	show     func(ctx context.Context, n string) (bisect.Outcome, error)
	launches int
	config   func() error // called before kbisect.toml is read; may be nil
}

// TestMain sets the command line, which the store keeps, and by which a session of a push is known. A check may still be ending in
// the background when a test is over.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() == "" { // which starts itself by them
		os.Args = []string{"kbisect", "hook", "pre-push"}
	}
	os.Exit(m.Run())
}

func newPusher(t *testing.T) *pusher {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	p := &pusher{Repo: gittest.New(t)}
	p.Write(t, "run.sh", "#!/bin/sh\n")
	p.Write(t, "kbisect.toml", "version = 1\npaths = [\"run.sh\", \"n\"]\n[run]\ncommand = [\"./run.sh\"]\n[device]\ngpus = \"none\"\n")
	return p
}

// commit makes a commit in which the file "n" holds a text.
func (p *pusher) commit(t *testing.T, n string) string {
	t.Helper()
	p.Write(t, "n", n)
	return p.Commit(t, n)
}

// push checks a push of these lines of git, and returns what the user reads without times and ids.
func (p *pusher) push(t *testing.T, deadline time.Duration, lines ...string) (stopped bool, said string, err error) {
	t.Helper()
	return p.pushIn(t.Context(), deadline, lines...)
}

func (p *pusher) pushIn(ctx context.Context, deadline time.Duration, lines ...string) (stopped bool, said string, err error) {
	var out bytes.Buffer
	q := &policy.Request{Name: "hook pre-push", Dir: p.Dir, Quiet: true}
	e := session.Env{Request: q, Display: progress.New(io.Discard, true, false), Output: session.Output{Stdout: io.Discard}}
	e.Sampler = func(s *session.Session) bisect.Sampler {
		return bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
			p.launches++
			text, _, err := s.Repo.File(r.Candidate.Commit, "n")
			if err != nil {
				return bisect.Outcome{}, err
			}
			return p.show(ctx, string(text))
		})
	}
	stopped, err = CheckPush(ctx, PushOptions{
		Began: time.Now(), Deadline: deadline, Dir: p.Dir, Remote: "origin", Refs: strings.NewReader(strings.Join(lines, "\n")), Messages: &out,
		Policy: func(repo *source.Repo) (*policy.Policy, error) {
			if p.config != nil {
				if err := p.config(); err != nil {
					return nil, err
				}
			}
			return policy.ForTrials(q, repo)
		},
		Begin: func(repo *source.Repo, rules *policy.Policy, kind string) (*session.Session, error) {
			return session.Begin(ctx, e, repo, rules, kind)
		},
	})
	return stopped, passing.ReplaceAllString(out.String(), "TIME"), err
}

var passing = regexp.MustCompile(`\b\d+\.\ds\b`)

func line(id, ref, old string) string {
	if old == "" {
		old = strings.Repeat("0", 40)
	}
	return fmt.Sprintf("HEAD %s %s %s", id, ref, old)
}

// taking makes launches of a text take so many seconds, or end otherwise.
func taking(by map[string]bisect.Outcome) func(context.Context, string) (bisect.Outcome, error) {
	nth := 0
	return func(_ context.Context, n string) (bisect.Outcome, error) {
		o := by[n]
		nth++
		if o.Class == "" {
			y := o.Wall * (1 + 0.001*float64(nth*7%5))
			o = bisect.Outcome{Class: bisect.OK, Wall: y, Series: []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{y}}}}
		}
		return o, nil
	}
}

// The whole way of a push: what is launched is decided by what it shows, kept, and decides the next push without a
// launch.
func TestCheckPush(t *testing.T) {
	crash := bisect.Outcome{Class: bisect.Crash, Why: "SIGSEGV", Wall: 0.1}
	for _, c := range []struct {
		name    string
		shows   map[string]bisect.Outcome // by text: "a" is pushed over "base"
		stopped bool
		want    string
	}{
		{"no slower", map[string]bisect.Outcome{"base": {Wall: 1}, "a": {Wall: 1}}, false, ": passes: No difference of 3 % or more"},
		{"slower", map[string]bisect.Outcome{"base": {Wall: 1}, "a": {Wall: 2}}, true, ": regression: B is worse: time"},
		{"faster", map[string]bisect.Outcome{"base": {Wall: 2}, "a": {Wall: 1}}, false, ": passes: B is better: time"},
		{"crashes", map[string]bisect.Outcome{"base": {Wall: 1}, "a": crash}, true, ": regression: B is worse: "},
		{"both crash", map[string]bisect.Outcome{"base": crash, "a": crash}, false, ": passes: "},
		{"does not build", map[string]bisect.Outcome{"base": {Wall: 1}, "a": {Class: bisect.BuildFailed, Why: "exit 2"}}, true, ": regression: B is worse: "},
		{"skips", map[string]bisect.Outcome{"base": {Wall: 1}, "a": {Class: bisect.Skip, Why: "no such device"}}, false, ": not checked: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPusher(t)
			base := p.commit(t, "base")
			pushed := p.commit(t, "a")
			p.show = taking(c.shows)
			stopped, said, err := p.push(t, time.Minute, line(pushed, "refs/heads/main", base))
			if err != nil || stopped != c.stopped || !strings.Contains(said, c.want) {
				t.Fatalf("stopped %v, %v:\n%s\nwant %q", stopped, err, said, c.want)
			}
			if !strings.Contains(said, "this command was never run by hand here: [\"./run.sh\"]") || strings.Contains(said, "git push --no-verify") != c.stopped {
				t.Error(said)
			}
			made := p.launches
			again, said, err := p.push(t, time.Minute, line(pushed, "refs/heads/main", base))
			if c.name == "skips" || c.name == "both crash" { // what says nothing of the commits is launched again
				return
			}
			if err != nil || again != c.stopped || p.launches != made || !strings.Contains(said, "(kbisect show ") {
				t.Errorf("again: stopped %v, %v, %d more launches:\n%s", again, err, p.launches-made, said)
			}
		})
	}
}

// What needs no launch is decided without one, and each ref has its own line.
func TestPushWithoutLaunches(t *testing.T) {
	p := newPusher(t)
	base := p.commit(t, "base")
	p.Write(t, "doc", "x")
	doc := p.Commit(t, "documentation")
	a := p.commit(t, "a")
	p.show = func(context.Context, string) (bisect.Outcome, error) { return bisect.Outcome{}, errors.New("launched") }
	missing := strings.Repeat("9", 40)
	stopped, said, err := p.push(t, time.Minute,
		line(doc, "refs/heads/docs", base), line(a, "refs/heads/same", a), line(strings.Repeat("0", 40), "refs/heads/old", base), line(a, "refs/tags/v1", ""), line(a, "refs/notes/x", ""), line(missing, "refs/heads/gone", base))
	if stopped || err != nil || p.launches != 0 {
		t.Fatalf("stopped %v, %v, %d launches", stopped, err, p.launches)
	}
	for _, want := range []string{
		"kbisect: skipped: old (deleted), v1 (tag), refs/notes/x (not a branch)\n",
		"kbisect: docs " + doc[:10] + " (B) against " + base[:10] + " (A, docs on origin): passes: no difference at ",
		"kbisect: same " + a[:10] + " (B) against " + a[:10] + " (A, same on origin): passes: the remote has this commit\n",
		"kbisect: gone : not checked: ",
		"kbisect: 2 of 3 refs decided in TIME\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
}

// A push of nothing, one that is not to be checked, and one whose lines or configuration cannot be read all go on.
func TestPushesThatAreNotChecked(t *testing.T) {
	p := newPusher(t)
	base := p.commit(t, "base")
	a := p.commit(t, "a")
	if stopped, said, err := p.push(t, time.Minute); stopped || err != nil || said != "" {
		t.Errorf("of nothing: %v, %q, %v", stopped, said, err)
	}
	if stopped, said, err := p.push(t, time.Minute, "what is this"); stopped || err != nil || !strings.HasPrefix(said, "kbisect: this push is not checked: reading what is pushed: unexpected line \"what is this\"") {
		t.Errorf("unreadable: %v, %q, %v", stopped, said, err)
	}
	p.config = func() error { return errors.New("kbisect.toml does not exist") }
	if stopped, said, err := p.push(t, time.Minute, line(a, "refs/heads/main", base)); stopped || err != nil || said != "kbisect: this push is not checked: kbisect.toml does not exist\n" {
		t.Errorf("without a configuration: %v, %q, %v", stopped, said, err)
	}
	var out bytes.Buffer
	o := PushOptions{Skip: true, Remote: "origin", Messages: &out, Refs: strings.NewReader(line(a, "refs/heads/main", base))}
	if stopped, err := CheckPush(t.Context(), o); stopped || err != nil || out.String() != "kbisect: KBISECT_SKIP is set: this push is not checked\n" {
		t.Errorf("skipped: %v, %q, %v", stopped, out.String(), err)
	}
	p.config = func() error { panic("a bug") }
	if stopped, said, err := p.push(t, time.Minute, line(a, "refs/heads/main", base)); stopped || err != nil || !strings.Contains(said, "this push is not checked: internal error: a bug") {
		t.Errorf("a panic: %v, %q, %v", stopped, said, err)
	}
}

// A launch that hangs holds a push no longer than the deadline, and the command that decides it is named. An interrupt
// stops the push with an error.
func TestPushDeadline(t *testing.T) {
	p := newPusher(t)
	base := p.commit(t, "base")
	a := p.commit(t, "a")
	p.show = func(ctx context.Context, _ string) (bisect.Outcome, error) {
		<-ctx.Done()
		return bisect.Outcome{}, ctx.Err()
	}
	stopped, said, err := p.push(t, 700*time.Millisecond, line(a, "refs/heads/main", base))
	undecided := strings.Contains(said, ": not decided: ") && strings.Contains(said, "hint: kbisect compare "+base[:10]+" "+a[:10]+" decides it\n")
	if busy := strings.Contains(said, "the 700ms deadline came before its refs were read"); stopped || err != nil || !undecided && !busy {
		t.Errorf("%v, %v:\n%s", stopped, err, said)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.show = func(ctx context.Context, _ string) (bisect.Outcome, error) {
		cancel()
		<-ctx.Done()
		return bisect.Outcome{}, ctx.Err()
	}
	_, said, err = p.pushIn(ctx, time.Minute, line(a, "refs/heads/main", base))
	for ctx.Err() == nil && strings.Contains(said, "another run works on this repository") { // the first one, which is still ending
		time.Sleep(50 * time.Millisecond)
		_, said, err = p.pushIn(ctx, time.Minute, line(a, "refs/heads/main", base))
	}
	if err == nil || err.Error() != "interrupted: nothing was pushed" {
		t.Errorf("%v:\n%s", err, said)
	}
}

// A new branch is compared with the nearest commit that the remote has, on any branch; without one, it is only launched.
func TestPushOfANewBranch(t *testing.T) {
	p := newPusher(t)
	first := p.commit(t, "first")
	base := p.commit(t, "base")
	a := p.commit(t, "a")
	p.show = taking(map[string]bisect.Outcome{"first": {Wall: 9}, "base": {Wall: 1}, "a": {Wall: 2}})
	if stopped, said, err := p.push(t, time.Minute, line(a, "refs/heads/new", "")); stopped || err != nil || !strings.Contains(said, "kbisect: new "+a[:10]+": passes: The launch passed\n") {
		t.Errorf("without a remote: %v, %v:\n%s", stopped, err, said)
	}
	p.Git(t, "update-ref", "refs/remotes/origin/old", first)
	p.Git(t, "update-ref", "refs/remotes/origin/main", base)
	stopped, said, err := p.push(t, time.Minute, line(a, "refs/heads/new", strings.Repeat("8", 40)))
	if !stopped || err != nil || !strings.Contains(said, "against "+base[:10]+" (A, the nearest commit on origin; its new is not fetched): regression: ") || !strings.Contains(said, "kbisect run --good "+base[:10]+" --bad "+a[:10]+" finds the commit") {
		t.Errorf("stopped %v, %v:\n%s", stopped, err, said)
	}
}

// Once a ref stops a push, the others wait for the next one.
func TestFirstRegressionStopsThePush(t *testing.T) {
	p := newPusher(t)
	base := p.commit(t, "base")
	a := p.commit(t, "a")
	b := p.commit(t, "b")
	p.show = taking(map[string]bisect.Outcome{"base": {Wall: 1}, "a": {Wall: 2}, "b": {Wall: 2}})
	stopped, said, err := p.push(t, time.Minute, line(a, "refs/heads/one", base), line(b, "refs/heads/two", base))
	if !stopped || err != nil || !strings.Contains(said, "not checked: one already stops the push\n") || strings.Contains(said, "decides it") {
		t.Errorf("stopped %v, %v:\n%s", stopped, err, said)
	}
}
