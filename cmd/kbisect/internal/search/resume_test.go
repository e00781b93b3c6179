package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	os.Exit(m.Run())
}

// simulated is a device of which the launches follow from what is asked for: the n-th launch of a candidate for a
// purpose always shows the same, after the same time.
type simulated struct {
	show   func(file string, assign map[string]string, r bisect.Request, rng *rand.Rand) bisect.Outcome
	real   bool // launches are made by the pipeline, with times that are always the same; show is nil then
	launch int  // made so far, in all attempts
	shared int  // of these, by equal builds
	kill   int  // before this one; negative: never
	killed func()
	now    float64
}

func (d *simulated) sampler(s *session.Session) bisect.Sampler {
	return bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
		if d.launch == d.kill {
			d.killed()
			<-ctx.Done()
			return bisect.Outcome{}, ctx.Err()
		}
		if d.real {
			s.Pipe.Config.Recipe.Plan.Depfiles = []string{"out.d"} // which of all kinds only nvcc has
			o, err := s.Pipe.Sample(ctx, r)
			o.Phases, o.Log, o.CPU, o.Memory, o.CacheHit, o.Built, o.Build, o.Wall = nil, "", 0, 0, false, true, 1, 3
			if o.Shared != "" {
				d.shared++
			}
			return d.made(o), err
		}
		file, _, err := s.Repo.File(r.Candidate.Commit, "program")
		if err != nil {
			return bisect.Outcome{}, err
		}
		assign := map[string]string{}
		for _, f := range strings.Split(r.Candidate.Assign, ",") {
			name, value, _ := strings.Cut(f, "=")
			assign[name] = value
		}
		h := fnv.New64()
		fmt.Fprint(h, r.Candidate, r.Purpose, r.Nth)
		return d.made(d.show(string(file), assign, r, rand.New(rand.NewPCG(h.Sum64(), 1)))), nil
	})
}

// made counts a launch and gives it its time.
func (d *simulated) made(o bisect.Outcome) bisect.Outcome {
	d.launch++
	d.now += 1
	o.At = d.now
	d.now += o.Wall
	return o
}

// times of a launch that ends well, with noise of its own.
func timed(level, noise float64, rng *rand.Rand) bisect.Outcome {
	y := level * math.Exp(noise*rng.NormFloat64())
	return bisect.Outcome{Class: bisect.OK, Wall: 10 + level, Series: []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{y, y * 1.001, y * 0.999}}}}
}

func wrong() bisect.Outcome {
	return bisect.Outcome{Class: bisect.Wrong, Phase: "run", Exit: 1, Why: "exit 1", Wall: 11}
}

// passing is what differs from attempt to attempt: how long it took, on what, and who found it.
var passing = regexp.MustCompile(`"(wall_s|session)": [^\n]*|"spent": \[[^\]]*\],?|"times": \{[^{]*\{[^}]*\}[^}]*\},?`)

// sessionID is the name of a session within a command to type next.
var sessionID = regexp.MustCompile(`"\d{8}-\d{6}-[0-9a-f]{8}"`)

// stable is a finding without what differs from attempt to attempt.
func stable(finding string) string {
	return sessionID.ReplaceAllString(passing.ReplaceAllString(finding, ""), `""`)
}

// A search that is killed before any of its launches and resumed comes to the finding of one that was not, to the byte.
func TestResumedSearchIsTheSame(t *testing.T) {
	n := func(file string) (i int) {
		fmt.Sscanf(file, "#%d", &i)
		return i
	}
	line := func(commits int) func(*testing.T, *gittest.Repo) {
		return func(t *testing.T, r *gittest.Repo) {
			for i := range commits {
				r.Write(t, "program", fmt.Sprintf("#%d\n", i))
				r.Commit(t, fmt.Sprint("change ", i))
			}
			r.Write(t, "program", "not committed") // a resumed search says that as well
		}
	}
	flags := func(text string) func(*testing.T, *gittest.Repo) {
		return func(t *testing.T, r *gittest.Repo) {
			r.Write(t, "program", "x\n")
			r.Write(t, "kbisect.toml", "version = 1\n[run]\ncommand = [\"./program\"]\n"+text)
			r.Commit(t, "flags")
		}
	}
	five := ""
	for _, f := range "ABCDE" {
		five += fmt.Sprintf("[[flag]]\nname = \"%c\"\nvalues = [\"off\", \"on\"]\nenv = \"%[1]c\"\n", f)
	}
	five += "[[hypothesis]]\nname = \"it is A\"\nclaim = [\"A=on\"]\n"
	program := []string{"./program"}
	var tried, held atomic.Int64
	t.Cleanup(func() {
		t.Logf("attack: searches of a simulated device, killed before a launch: tried %d, held %d", tried.Load(), held.Load())
	})
	for _, c := range []struct {
		name string
		make func(*testing.T, *gittest.Repo)
		ask  policy.Request
		want string // in the finding
		show func(file string, assign map[string]string, r bisect.Request, rng *rand.Rand) bisect.Outcome
	}{
		{"a failure", line(20), policy.Request{Good: "HEAD~19", Argv: program}, `"class": "wrong"`, func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			if n(file) >= 13 {
				return wrong()
			}
			return timed(1, 0.01, rng)
		}},
		{"a rare failure", line(12), policy.Request{Good: "HEAD~11", Argv: program}, `"class": "wrong"`, func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			if n(file) >= 7 && rng.Float64() < 0.6 {
				return wrong()
			}
			return timed(1, 0.01, rng)
		}},
		{"a slowdown", line(16), policy.Request{Good: "HEAD~15", Argv: program}, `"class": "slow"`, func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			if n(file) >= 9 {
				return timed(1.06, 0.01, rng)
			}
			return timed(1, 0.01, rng)
		}},
		{"two failures", line(16), policy.Request{Good: "HEAD~15", Argv: program, All: true}, `"class": "wrong"`, func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			switch i := n(file); {
			case i >= 11:
				return wrong()
			case i == 5:
				return bisect.Outcome{Class: bisect.Crash, Phase: "run", Signal: "SIGSEGV", Wall: 3}
			}
			return timed(1, 0.01, rng)
		}},
		{"the flags of a failure", flags(five), policy.Request{Axis: "flags"}, `"recommended": {`, func(_ string, on map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			level := 1.0
			for f, gain := range map[string]float64{"A": 0.03, "B": 0.025, "C": 0.02, "D": -0.01} {
				if on[f] == "on" {
					level -= gain
				}
			}
			if on["A"] == "on" && on["B"] == "on" || on["C"] == "on" && on["E"] == "on" {
				return wrong()
			}
			return timed(level, 0.02, rng)
		}},
		{"the flags of a rare failure", flags(five), policy.Request{Axis: "flags"}, `"recommended": {`, func(_ string, on map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			if on["B"] == "on" && on["D"] == "on" && rng.Float64() < 0.7 {
				return wrong()
			}
			return timed(1, 0.02, rng)
		}},
		{"what flags cost", flags(five), policy.Request{Axis: "flags"}, `"effects": [`, func(_ string, on map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			level := 1.0
			for f, cost := range map[string]float64{"A": 0.06, "B": 0.04, "C": -0.05} {
				if on[f] == "on" {
					level += cost
				}
			}
			return timed(level, 0.005, rng)
		}},
		{"the hunks of a failure", hunky, policy.Request{Good: "HEAD~5", Argv: program}, `"hunks": [`, func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			if strings.Contains(file, "bug 1") && strings.Contains(file, "bug 2") {
				return wrong()
			}
			return timed(1, 0.01, rng)
		}},
		{"the hunk of a failure", hunky, policy.Request{Good: "HEAD~5", Argv: program}, `"hunks": [`, func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			if strings.Contains(file, "bug 3") {
				return wrong()
			}
			return timed(1, 0.01, rng)
		}},
		{"a lost number", line(12), policy.Request{Good: "HEAD~11", Argv: program, Find: "wrong"}, `"class": "wrong"`, func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			o := timed(1, 0.01, rng)
			if n(file) >= 8 {
				o.Series = nil
			}
			return o
		}},
		{"the hunks of a slowdown", hunky, policy.Request{Axis: "hunks", Good: "HEAD~5", GoodSet: true, Argv: program}, `"class": "slow"`, func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			if strings.Contains(file, "bug 1") {
				return timed(1.1, 0.005, rng)
			}
			return timed(1, 0.005, rng)
		}},
		{"a budget", line(40), policy.Request{Good: "HEAD~39", Argv: program, Budget: 200 * time.Second, BudgetSet: true}, `"result": "inconclusive"`, func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
			if n(file) >= 30 && rng.Float64() < 0.5 {
				return wrong()
			}
			return timed(1, 0.01, rng)
		}},
		{"equal builds", commented, policy.Request{Good: "HEAD~15", Build: `grep -v '^#' program >out; printf 'out: program\n' >out.d`, Outputs: []string{"out"}, Argv: []string{"grep", "-q", "good", "out"}}, `"class": "wrong"`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := gittest.New(t)
			c.make(t, r)
			whole := &simulated{show: c.show, real: c.show == nil, kill: -1}
			want := attempt(t, r, c.ask, whole)
			if !strings.Contains(want, c.want) {
				t.Fatalf("%s is not in %s", c.want, want)
			}
			own := filepath.Join(r.Dir, ".git", "kbisect")
			step := 1 + whole.launch/6 // make attack kills before every launch
			if os.Getenv("KBISECT_ATTACK") != "" {
				step = 1
			}
			for kill := 0; kill <= whole.launch; kill += step {
				if err := os.RemoveAll(own); err != nil {
					t.Fatal(err)
				}
				image := filepath.Join(t.TempDir(), "image")
				d := &simulated{show: c.show, real: c.show == nil, kill: kill}
				ctx, cancel := context.WithCancel(t.Context())
				d.killed = func() { // what a process leaves that ends here
					if err := os.CopyFS(image, os.DirFS(own)); err != nil {
						t.Error(err)
					}
					cancel()
				}
				got, _ := attemptIn(ctx, t, r, c.ask, d)
				cancel()
				if got = stable(got); kill < whole.launch {
					if kill%2 == 0 { // an interrupted process ends by itself
						if err := errors.Join(os.RemoveAll(own), os.CopyFS(own, os.DirFS(image))); err != nil {
							t.Fatal(err)
						}
					}
					d.kill = -1
					again := c.ask
					again.Resume, again.GoodSet, again.Argv, again.BudgetSet = true, false, nil, false
					got = attempt(t, r, again, d)
				}
				tried.Add(1)
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Fatalf("killed before launch %d of %d (-whole +resumed):\n%s", kill, whole.launch, diff)
				}
				if d.launch != whole.launch || d.shared != whole.shared {
					t.Fatalf("killed before launch %d: %d launches, %d shared; %d and %d without that", kill, d.launch, d.shared, whole.launch, whole.shared)
				}
				held.Add(1)
			}
			if t.Logf("%d launches, %d shared", whole.launch, whole.shared); whole.real && whole.shared < 2 {
				t.Errorf("%d launches were shared", whole.shared)
			}
		})
	}
}

// commented is a history in which most commits change a comment, and all of those before the bug, and after it, are built alike.
func commented(t *testing.T, r *gittest.Repo) {
	for i := range 16 {
		text := "good\n"
		if i >= 9 {
			text = "bug\n"
		}
		r.Write(t, "program", fmt.Sprintf("# comment %d\n%s", i, text))
		r.Commit(t, fmt.Sprint("change ", i))
	}
}

// hunky is a history of a program with a commit of many hunks.
func hunky(t *testing.T, r *gittest.Repo) {
	text := func(i int) string {
		var b strings.Builder
		for line := range 40 {
			switch {
			case i >= 4 && line%7 == 3:
				fmt.Fprintf(&b, "bug %d\n", line/7)
			default:
				fmt.Fprintf(&b, "line %d\n", line)
			}
		}
		return b.String() + strings.Repeat("end\n", i)
	}
	for i := range 6 {
		r.Write(t, "program", text(i))
		r.Commit(t, fmt.Sprint("change ", i))
	}
}

func attempt(t *testing.T, r *gittest.Repo, q policy.Request, d *simulated) string {
	t.Helper()
	out, err := attemptIn(t.Context(), t, r, q, d)
	if !json.Valid([]byte(out)) {
		t.Fatalf("no finding: %v", err)
	}
	return stable(out)
}

// attemptIn is one attempt of a search, by a process of its own as far as it can tell. It returns the finding.
func attemptIn(ctx context.Context, t *testing.T, r *gittest.Repo, q policy.Request, d *simulated) (string, error) {
	t.Helper()
	q.Name, q.Dir, q.Quiet, q.NoExplain, q.Seed, q.Repeat = "run", r.Dir, true, true, 1, 1
	q.Axis = cmp.Or(q.Axis, policy.AxisHistory)
	if !q.Resume {
		q.Bad = "HEAD"
	}
	var out bytes.Buffer
	e := session.Env{
		Request: &q, Display: progress.New(io.Discard, true, false), Sampler: d.sampler,
		Output: session.Output{
			Print: func(doc report.Document, _ report.Ledger) error { return report.WriteJSON(&out, doc) },
			Write: func(report.Document, report.Ledger) error { return nil },
		},
	}
	err := Run(ctx, e, nil)
	return out.String(), err
}
