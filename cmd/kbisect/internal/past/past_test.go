package past

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/store"
)

func open(t *testing.T, r *gittest.Repo) *source.Repo {
	t.Helper()
	repo, err := source.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo
}

// dag makes commits with one or two parents among those before; parents of commit 0 are none. The last one is the
// branch main.
func dag(t *testing.T, r *gittest.Repo, rng *mathrand.Rand, n int) (ids []string, parents [][]int) {
	t.Helper()
	tree := r.Git(t, "mktree")
	for i := range n {
		var of []int
		var named []string
		if i > 0 {
			of = append(of, i-1-rng.IntN(min(i, 2))) // mostly a line, with side branches
			if second := rng.IntN(i); rng.IntN(3) == 0 && second != of[0] {
				of = append(of, second)
			}
		}
		for _, p := range of {
			named = append(named, ids[p])
		}
		ids, parents = append(ids, r.CommitTree(t, tree, int64(1700000000+60*i), named...)), append(parents, of)
	}
	r.Git(t, "update-ref", "refs/heads/main", ids[n-1])
	return ids, parents
}

// reaches reports for every commit whether it is a given one or has it among its ancestors.
func reaches(parents [][]int, from int) []bool {
	out := make([]bool, len(parents))
	for i, of := range parents {
		out[i] = i == from || slices.ContainsFunc(of, func(p int) bool { return out[p] })
	}
	return out
}

// TestGitLogReplays plants a culprit in random histories and writes logs of searches with right, wrong and missing
// verdicts: git takes each of them, without a word about ends that contradict each other, and names the culprit.
func TestGitLogReplays(t *testing.T) {
	for seed := range uint64(8) {
		rng := mathrand.New(mathrand.NewPCG(seed, 1))
		r := gittest.New(t)
		ids, parents := dag(t, r, rng, 9)
		bad := len(ids) - 1
		var within []int // what the bad end reaches, but for the first commit
		for i := 1; i <= bad; i++ {
			if reaches(parents, i)[bad] {
				within = append(within, i)
			}
		}
		culprit := within[rng.IntN(len(within))]
		truth := reaches(parents, culprit)
		doc := &report.Search{Result: bisect.Found, Culprits: []report.Culprit{{Commit: ids[culprit]}}}
		for _, p := range parents[culprit] {
			doc.Culprits[0].Parents = append(doc.Culprits[0].Parents, ids[p])
		}
		for range rng.IntN(8) {
			i := within[rng.IntN(len(within))]
			v := bisect.Verdict{Call: map[bool]bisect.Call{true: bisect.Bad, false: bisect.Good}[truth[i] != (rng.IntN(4) == 0)]}
			if rng.IntN(5) == 0 {
				v.Call = bisect.Untestable
			}
			doc.Steps = append(doc.Steps, bisect.Step{Commit: ids[i], Verdict: v})
		}
		p := &Session{repo: open(t, r), Document: doc, Session: store.Session{ID: "s", Axis: policy.AxisHistory, Good: ids[0], Bad: ids[bad]}}
		var log bytes.Buffer
		if err := p.GitLog(t.Context(), &log); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, log.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := r.Try("", "bisect", "replay", file)
		if err != nil || !strings.Contains(out, ids[culprit]+" is the first bad commit") {
			t.Errorf("seed %d, culprit %s: %v\n%s\n%s", seed, ids[culprit], err, out, log.String())
		}
	}
}

func TestGitLogRefuses(t *testing.T) {
	for want, p := range map[string]*Session{
		"does not search commits": {Document: &report.Gate{}, Session: store.Session{Axis: "gate"}},
		"which is all that git":   {Document: &report.Search{}, Session: store.Session{Axis: policy.AxisFlags}},
		"has no good end":         {Document: &report.Search{}, Session: store.Session{Axis: policy.AxisHistory}},
	} {
		var e *exit.Error
		if err := p.GitLog(t.Context(), &bytes.Buffer{}); !errors.As(err, &e) || e.Code != exit.UsageError || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// kept is a store to write sessions into.
type kept struct {
	t    *testing.T
	repo *source.Repo
	st   *store.Store
	seq  map[string]int
}

func newStore(t *testing.T, repo *source.Repo) *kept {
	t.Helper()
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return &kept{t, repo, st, map[string]int{}}
}

// session keeps a session and returns its id.
func (k *kept) session(s store.Session, p policy.Policy) string {
	k.t.Helper()
	var err error
	if s.ID, err = store.NewID(time.Now(), rand.Reader); err == nil && s.Config == nil {
		s.Config, err = json.Marshal(p)
	}
	s.Created, s.Updated = time.Now(), time.Now()
	if err == nil {
		err = k.st.CreateSession(s)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return s.ID
}

// launch keeps launches of a commit that gave these values, in seconds, on a device; a negative one crashed.
func (k *kept) launch(session, commit, assign, device string, values ...float64) {
	k.t.Helper()
	for _, v := range values {
		o := bisect.Outcome{Class: bisect.OK, Wall: v, Series: []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{v}}}}
		if v < 0 {
			o = bisect.Outcome{Class: bisect.Crash, Phase: "measure"}
		}
		if device != "" {
			o.Devices = []bisect.DeviceNote{{UUID: device}}
		}
		data, err := json.Marshal(o)
		k.seq[session]++
		if err == nil {
			err = k.st.AddLaunch(store.Launch{Session: session, Seq: k.seq[session], Candidate: bisect.Candidate{Commit: commit, Assign: assign}.String(), Commit: commit,
				Purpose: string(bisect.EndGood), Ordinal: k.seq[session], Class: string(o.Class), Started: time.Now(), Outcome: data})
		}
		if err != nil {
			k.t.Fatal(err)
		}
	}
}

// TestHistoryNeverMixes: values of other devices, commands and settings of flags stand in other series, or in none.
func TestHistoryNeverMixes(t *testing.T) {
	r := gittest.New(t)
	a, b, c := r.Commit(t, "a"), r.Commit(t, "b"), r.Commit(t, "c")
	r.Git(t, "checkout", "-q", "-b", "side", a)
	d := r.Commit(t, "d")
	r.Git(t, "checkout", "-q", "main")
	repo := open(t, r)
	k := newStore(t, repo)
	var p policy.Policy
	p.Plan.Run, p.Judge.Metrics = []string{"./bench"}, []metric.Metric{{Name: "time"}}
	one := k.session(store.Session{Axis: "compare", Status: "ok"}, p)
	k.launch(one, a, "", "GPU-1", 1, 3)
	k.launch(one, b, "", "GPU-1", 4)
	k.launch(one, b, "fast=1", "GPU-1", 100) // another program
	k.launch(one, c, "", "GPU-1", -1, -1)    // crashes
	k.launch(one, a, "", "GPU-2", 50)
	k.launch(one, d, "", "GPU-1", 8)
	p.Plan.Run = []string{"./other"}
	two := k.session(store.Session{Axis: "measure", Status: "ok"}, p)
	k.launch(two, a, "", "GPU-1", 7)
	k.launch(k.session(store.Session{Axis: "measure", Status: "ok", Config: []byte(`{"Plan":3}`)}, p), a, "", "GPU-1", 9) // of a version that we cannot read

	says := func(want HistoryRequest) string {
		t.Helper()
		want.Limit = max(want.Limit, 1)
		h, err := ReadHistory(t.Context(), repo, k.st, want)
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, s := range h.Series {
			line := fmt.Sprintf("%s %s %s:", strings.Join(s.Devices, "+"), strings.Join(s.Command, " "), s.Name())
			for _, x := range s.Commits {
				line += fmt.Sprintf(" %s=%.3g", map[string]string{a: "a", b: "b", c: "c", d: "d"}[x.Commit], float64(x.Values.Median))
				if x.Ratio.Known() {
					line += fmt.Sprintf("(%.3g)", float64(x.Ratio))
				}
				for _, f := range x.Failures {
					line += fmt.Sprintf("[%d %s in %s]", f.Launches, f.Class, *f.Phase)
				}
			}
			out = append(out, line)
		}
		slices.Sort(out)
		return fmt.Sprintf("%d of %d\n%s", h.Shown, h.All, strings.Join(out, "\n"))
	}
	for _, x := range []struct {
		want HistoryRequest
		text string
	}{
		{HistoryRequest{Limit: 9}, "3 of 3\nGPU-1 ./bench time: a=2(1) b=4(2) c=NaN[2 crash in measure]\nGPU-1 ./other time: a=7(1)\nGPU-2 ./bench time: a=50(1) c=NaN[2 crash in measure]"},
		{HistoryRequest{Limit: 2}, "2 of 3\nGPU-1 ./bench time: b=4(1) c=NaN[2 crash in measure]"},
		{HistoryRequest{Limit: 9, Base: b}, "3 of 3\nGPU-1 ./bench time: a=2(0.5) b=4(1) c=NaN[2 crash in measure]\nGPU-1 ./other time: a=7\nGPU-2 ./bench time: a=50 c=NaN[2 crash in measure]"},
		{HistoryRequest{Limit: 2, Base: a}, "2 of 3\nGPU-1 ./bench time: b=4(2) c=NaN[2 crash in measure]"},
		{HistoryRequest{Limit: 9, Metric: "wall"}, "3 of 3\nGPU-1 ./bench wall: a=2(1) b=4(2) c=NaN[2 crash in measure]\nGPU-1 ./other wall: a=7(1)\nGPU-2 ./bench wall: a=50(1) c=NaN[2 crash in measure]"},
		{HistoryRequest{Limit: 9, Metric: "speed"}, "no value of speed that can be compared\nhint: choose one of time, wall with --metric"},
		{HistoryRequest{Limit: 9, Case: "n=1"}, "no launch gave a value of case \"n=1\"\nhint: leave out --case"},
	} {
		if got := says(x.want); got != x.text {
			t.Errorf("%+v:\n%s\nwant\n%s", x.want, got, x.text)
		}
	}
	if got := says(HistoryRequest{Limit: 9, All: true}); !strings.HasPrefix(got, "4 of 4\n") || !strings.Contains(got, " d=8(4)") {
		t.Errorf("with other branches: %s", got)
	}
	r.Git(t, "checkout", "-q", "--orphan", "new")
	r.Commit(t, "unmeasured")
	if got := says(HistoryRequest{Limit: 9}); !strings.HasPrefix(got, "no commit on the first parents of HEAD") {
		t.Error(got)
	}
}

// TestOpenOfUnfinished: a session that was killed, or that the machine stopped, is reported from its launches and
// judgements; one that failed says why, and the newest search is found among other sessions.
func TestOpenOfUnfinished(t *testing.T) {
	r := gittest.New(t)
	good, bad := r.Commit(t, "good"), r.Commit(t, "bad")
	repo := open(t, r)
	var e *exit.Error
	if _, err := Open(t.Context(), repo, ""); !errors.As(err, &e) || !strings.Contains(err.Error(), "nothing has been searched") {
		t.Errorf("without a store: %v", err)
	}
	k := newStore(t, repo)
	search := store.Session{Axis: policy.AxisHistory, Good: good, Bad: bad, Summary: "it broke"}
	p := policy.Policy{Good: good, Bad: bad, Axis: policy.AxisHistory}
	for _, x := range []struct {
		status string
		result bisect.Result
	}{{store.Running, bisect.Interrupted}, {store.Interrupted, bisect.Interrupted}, {store.Infra, bisect.Broken}} {
		search.Status = x.status
		id := k.session(search, p)
		k.launch(id, good, "", "", 1)
		k.launch(id, bad, "", "", -1)
		verdict, err := json.Marshal(bisect.Verdict{Call: bisect.Bad, Class: bisect.Crash, Probability: 0.9})
		if err == nil {
			err = k.st.AddStep(store.Step{Session: id, Seq: 1, Commit: bad, Candidate: bad, Call: "bad", Verdict: verdict})
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := Open(t.Context(), repo, id)
		if err != nil {
			t.Fatal(err)
		}
		d, ok := got.Document.(*report.Search)
		if !ok || d.Result != x.result || d.Totals.Trials != 2 || len(d.Steps) != 1 || d.Steps[0].Role != bisect.RoleBadEnd || d.Steps[0].Verdict.Class != bisect.Crash || d.Ends.Good != good {
			t.Errorf("%s: %+v", x.status, got.Document)
		}
		if l := got.Ledger(t.Context()); l.Commits[bad].Subject != "bad" || !slices.Equal(l.Order, []string{good, bad}) {
			t.Errorf("%s: %+v", x.status, l)
		}
	}
	k.session(store.Session{Axis: "compare", Status: "ok", Finding: []byte(`{"schema":"kbisect.comparison/1"}`)}, p)
	newest, err := Open(t.Context(), repo, "")
	if err != nil || newest.Session.Status != store.Infra {
		t.Errorf("the newest search: %+v, %v", newest, err)
	}
	for want, s := range map[string]store.Session{
		"there is nothing to report: it broke": {Axis: policy.AxisHistory, Status: store.Failed, Summary: "it broke"},
		"made by another version":              {Axis: policy.AxisHistory, Status: store.Running, Config: []byte(`{"Good":3}`)},
		`unknown schema "kbisect.poem/1"`:      {Axis: policy.AxisHistory, Status: store.Found, Finding: []byte(`{"schema":"kbisect.poem/1"}`)},
	} {
		if _, err := Open(t.Context(), repo, k.session(s, p)); !errors.As(err, &e) || e.Code != exit.UsageError || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
