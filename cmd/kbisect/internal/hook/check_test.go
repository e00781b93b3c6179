package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/store"
)

// pusher is a repository with a remote, and a device that is made up: a launch shows what show returns for the text of
// the file "n" in its commit.
type pusher struct {
	*gittest.Repo
	show     func(ctx context.Context, n string) (bisect.Outcome, error)
	launches int
	config   func() error // called before kbisect.toml is read; may be nil
}

func newPusher(t *testing.T) *pusher {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("PRE_COMMIT_REMOTE_NAME", "")
	args := os.Args // which the store keeps, and by which a session of a push is known
	os.Args = []string{"kbisect", "hook", "pre-push"}
	t.Cleanup(func() { os.Args = args })
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
			if !strings.Contains(said, "not run by hand here before: [\"./run.sh\"]") || strings.Contains(said, "git push --no-verify") != c.stopped {
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
	if _, said, err := p.pushIn(ctx, time.Minute, line(a, "refs/heads/main", base)); err == nil || err.Error() != "interrupted: nothing was pushed" {
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
	if stopped, said, err := p.push(t, time.Minute, line(a, "refs/heads/new", "")); stopped || err != nil || !strings.Contains(said, "kbisect: new "+a[:10]+": passes: The launch ended well\n") {
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

// What earlier launches of the same inputs showed decides without a comparison, where it is clear; launches by other
// commands, on other devices or with flags say nothing.
func TestEvidenceOfLaunches(t *testing.T) {
	p := newPusher(t)
	base := p.commit(t, "base")
	p.Write(t, "doc", "x")
	sameAsBase := p.Commit(t, "documentation")
	a := p.commit(t, "a")
	repo, err := source.Open(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	rules, err := policy.ForTrials(&policy.Request{Name: "hook", Dir: p.Dir}, repo)
	if err != nil {
		t.Fatal(err)
	}
	type launch struct {
		commit string
		class  bisect.Class
	}
	of := func(n int, commit string, class bisect.Class) []launch {
		return slices.Repeat([]launch{{commit, class}}, n)
	}
	for name, c := range map[string]struct {
		launches []launch
		base     string
		change   func(*policy.Policy, *store.Session, *store.Launch)
		want     decision
	}{
		"nothing known":        {nil, base, nil, decision{}},
		"B always fails":       {slices.Concat(of(2, a, bisect.Crash), of(1, base, bisect.OK)), base, nil, decision{answer: regression, why: "B fails in 2 of 2 launches, A in 0 of 1: crash: why (kbisect show s1)"}},
		"of the same inputs":   {slices.Concat(of(2, a, bisect.Crash), of(1, sameAsBase, bisect.OK)), base, func(_ *policy.Policy, s *store.Session, _ *store.Launch) { s.Good = sameAsBase }, decision{answer: regression, why: "B fails in 2 of 2 launches, A in 0 of 1: crash: why (kbisect show s1)"}},
		"once may be chance":   {slices.Concat(of(1, a, bisect.Crash), of(1, base, bisect.OK)), base, nil, decision{}},
		"a build is no chance": {slices.Concat(of(1, a, bisect.BuildFailed), of(1, base, bisect.OK)), base, nil, decision{answer: regression, why: "B fails in 1 of 1 launches, A in 0 of 1: build-failed: why (kbisect show s1)"}},
		"both fail":            {slices.Concat(of(2, a, bisect.Crash), of(2, base, bisect.Crash)), base, nil, decision{answer: passes, why: "A and B both fail in every launch (B in 2: crash: why)"}},
		"A failed once":        {slices.Concat(of(2, a, bisect.Crash), of(1, base, bisect.Crash)), base, nil, decision{}},
		"well, and how long":   {slices.Concat(of(2, a, bisect.OK), of(1, base, bisect.OK)), base, nil, decision{least: 5 * 2 * time.Second}},
		"well, without a base": {of(2, a, bisect.OK), "", nil, decision{answer: passes, why: "all 2 earlier launches ended well, and there is no base to compare with"}},
		"skipped":              {of(3, a, bisect.Skip), base, nil, decision{}},
		"by another command":   {slices.Concat(of(2, a, bisect.Crash), of(1, base, bisect.OK)), base, func(p *policy.Policy, _ *store.Session, _ *store.Launch) { p.Plan.Run = []string{"./other.sh"} }, decision{}},
		"with flags":           {slices.Concat(of(2, a, bisect.Crash), of(1, base, bisect.OK)), base, func(_ *policy.Policy, _ *store.Session, l *store.Launch) { l.Candidate += ":fp8=on" }, decision{}},
		"on another device": {slices.Concat(of(2, a, bisect.Crash), of(1, base, bisect.OK)), base, func(_ *policy.Policy, _ *store.Session, l *store.Launch) {
			l.Outcome = bytes.Replace(l.Outcome, []byte(`{`), []byte(`{"devices":[{"uuid":"GPU-2","before":{},"after":{},"change":{}}],`), 1)
		}, decision{}},
		"a policy from tomorrow": {slices.Concat(of(2, a, bisect.Crash), of(1, base, bisect.OK)), base, func(_ *policy.Policy, s *store.Session, _ *store.Launch) { s.Config = []byte(`{"Good":3}`) }, decision{}},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := store.Open(t.TempDir(), store.ReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			past := *rules
			record, err := session.NewSession(&past, session.Measuring, "test")
			if err != nil {
				t.Fatal(err)
			}
			record.ID, record.Good, record.Bad = "s1", base, a
			var all []store.Launch
			for i, x := range c.launches {
				o := fmt.Appendf(nil, `{"class":%q,"why":%q,"wall_s":1}`, x.class, map[bool]string{true: "", false: "why"}[x.class == bisect.OK])
				l := store.Launch{Session: "s1", Seq: i + 1, Candidate: x.commit, Commit: x.commit, Purpose: "end-good", Ordinal: i, Class: string(x.class), Wall: time.Second, Outcome: o}
				if c.change != nil {
					c.change(&past, record, &l)
				}
				all = append(all, l)
			}
			changed, err := session.NewSession(&past, session.Measuring, "test")
			if err != nil {
				t.Fatal(err)
			}
			if c.change != nil && !bytes.Contains(record.Config, []byte(`"Good":3`)) {
				record.Config = changed.Config
			}
			if err := st.CreateSession(*record); err != nil {
				t.Fatal(err)
			}
			for _, l := range all {
				if err := st.AddLaunch(l); err != nil {
					t.Fatal(err)
				}
			}
			e := &pushEvidence{store: st, inputs: inputs{repo, rules.Paths}}
			kept, err := st.Sessions(0)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range kept {
				if past, ok := pastOf(s, rules.Runs(), rules.Compares()); ok {
					e.sessions = append(e.sessions, past)
				}
			}
			if got, err := e.decide(c.base, a); err != nil || got != c.want {
				t.Errorf("%+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

// A search for a slowdown vouches for the commits that it found good; one for crashes does not know.
func TestVouches(t *testing.T) {
	finding := func(class bisect.Class) []byte {
		var b bytes.Buffer
		if err := report.WriteJSON(&b, report.NewSearch(report.Input{Finding: bisect.Finding{Result: bisect.Inconclusive, Complaint: bisect.Complaint{Class: class}}})); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		s    pastSession
		want bool
	}{
		"slow":            {pastSession{store.Session{Axis: policy.AxisHistory, Finding: finding(bisect.Slow)}, true, true}, true},
		"crash":           {pastSession{store.Session{Axis: policy.AxisHistory, Finding: finding(bisect.Crash)}, true, true}, false},
		"no complaint":    {pastSession{store.Session{Axis: policy.AxisHistory, Finding: finding("")}, true, true}, false},
		"another metric":  {pastSession{store.Session{Axis: policy.AxisHistory, Finding: finding(bisect.Slow)}, false, true}, false},
		"nothing":         {pastSession{store.Session{Axis: policy.AxisHistory}, true, true}, false},
		"a person's word": {pastSession{store.Session{Axis: "baseline"}, false, false}, true},
	} {
		if got := c.s.vouches(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// pre-commit passes a push in variables, of which one that is not there stands for nothing.
func TestFromPreCommit(t *testing.T) {
	id := strings.Repeat("a", 40)
	set := func(remote, branch, to, from string) {
		for name, value := range map[string]string{"REMOTE_NAME": remote, "REMOTE_BRANCH": branch, "TO_REF": to, "FROM_REF": from, "LOCAL_BRANCH": "refs/heads/x"} {
			t.Setenv("PRE_COMMIT_"+name, value)
		}
	}
	for _, c := range []struct {
		remote, branch, to, from string
		ok                       bool
		old                      string
	}{
		{"origin", "refs/heads/main", id, strings.Repeat("b", 40), true, strings.Repeat("b", 40)},
		{"origin", "refs/heads/main", id, "", true, strings.Repeat("0", 40)},
		{"origin", "refs/heads/main", id, "HEAD", true, strings.Repeat("0", 40)},
		{"", "refs/heads/main", id, "", false, ""}, {"origin", "", id, "", false, ""}, {"origin", "refs/heads/main", "HEAD", "", false, ""},
	} {
		set(c.remote, c.branch, c.to, c.from)
		all, remote, ok := fromPreCommit()
		if ok != c.ok || ok && (remote != "origin" || len(all) != 1 || all[0] != (pushedRef{"refs/heads/x", id, "refs/heads/main", c.old})) {
			t.Errorf("%+v: %v %s %v", c, all, remote, ok)
		}
	}
	// Git names the remote itself: variables that were left behind do not count.
	set("other", "refs/heads/main", id, "")
	if refs, remote, err := readRefs(PushOptions{Remote: "origin", Refs: strings.NewReader("")}); len(refs) != 0 || remote != "origin" || err != nil {
		t.Errorf("%v %s %v", refs, remote, err)
	}
	if refs, remote, err := readRefs(PushOptions{Refs: strings.NewReader("nonsense")}); len(refs) != 1 || remote != "other" || err != nil {
		t.Errorf("%v %s %v", refs, remote, err)
	}
}
