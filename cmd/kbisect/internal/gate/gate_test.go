package gate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
	"github.com/kbisect/kbisect/pipeline/store"
)

func open(t *testing.T, r *gittest.Repo) *source.Repo {
	t.Helper()
	s, err := source.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestBaseBranch(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "n", "1")
	r.Commit(t, "one")
	first := r.Git(t, "rev-parse", "HEAD")
	r.Write(t, "n", "2")
	r.Commit(t, "two")
	second := r.Git(t, "rev-parse", "HEAD")
	for _, x := range []struct {
		refs     string // that there are, NAME=COMMIT, beside those of the rows before
		asked    string
		env      map[string]string
		name, id string
		err      string
	}{
		{"", "", nil, "main", second, ""},
		{"refs/remotes/origin/master=" + first, "", nil, "origin/master", first, ""},
		{"refs/remotes/origin/main=" + first, "", nil, "origin/main", first, ""},
		{"refs/remotes/origin/HEAD=" + second, "", nil, "origin/HEAD", second, ""},
		{"refs/remotes/origin/rel/1=" + first, "", map[string]string{"GITHUB_BASE_REF": "rel/1"}, "origin/rel/1", first, ""},
		{"refs/heads/local=" + first, "", map[string]string{"GITHUB_BASE_REF": "local"}, "origin/local", first, ""},
		{"", "", map[string]string{"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "rel/1"}, "origin/rel/1", first, ""},
		{"", "", map[string]string{"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "far", "CI_MERGE_REQUEST_DIFF_BASE_SHA": first}, "origin/far", first, ""},
		{"", "main^", map[string]string{"GITHUB_BASE_REF": "rel/1"}, "main^", first, ""},
		{"", "", map[string]string{"GITHUB_BASE_REF": "far"}, "", "", "branch far (from GITHUB_BASE_REF) is not in this clone"},
		{"", "", map[string]string{"GITHUB_BASE_REF": "far", "CI_MERGE_REQUEST_DIFF_BASE_SHA": first}, "", "", "GITHUB_BASE_REF"},
		{"", "nosuch", nil, "", "", "--base: "},
	} {
		if name, id, ok := strings.Cut(x.refs, "="); ok {
			r.Git(t, "update-ref", name, id)
		}
		name, id, err := baseBranch(t.Context(), open(t, r), x.asked, func(v string) string { return x.env[v] }, false)
		if x.err != "" {
			if err == nil || !strings.Contains(err.Error(), x.err) {
				t.Errorf("%+v: %v", x, err)
			}
		} else if name != x.name || id != x.id || err != nil {
			t.Errorf("%+v: %s %s %v", x, name, bisect.ShortID(id), err)
		}
	}
	r.Git(t, "checkout", "-q", "--orphan", "alone")
	r.Commit(t, "another history")
	x := request{}
	if err := x.chooseEnds(t.Context(), open(t, r), "main", func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "no common history") {
		t.Error(err)
	}
}

func TestGateExit(t *testing.T) {
	for result, want := range map[string]int{
		report.GatePass: exit.OK, report.GateImprovement: exit.OK, report.GateRegression: exit.Regression, report.GateOpen: exit.Inconclusive,
		store.Interrupted: exit.Interrupted, store.Infra: exit.Machine,
	} {
		for _, tolerant := range []bool{false, true} {
			x := request{tolerant: tolerant}
			want := want
			if tolerant && result == report.GateOpen {
				want = exit.OK
			}
			if got := x.exitCode(result); got != want {
				t.Errorf("%s, tolerant %v: %d", result, tolerant, got)
			}
		}
	}
}

func TestAccepted(t *testing.T) {
	a := &acceptances{list: []config.Acceptance{{Metric: "time", Case: "n1", Limit: 1.1}, {Metric: "rate", Limit: 0.9}}, seen: make([]bool, 2)}
	for _, x := range []struct {
		metric, one string
		higher      bool
		ratio       float64
		want        bool
	}{
		{"time", "n1", false, 1.1, true}, {"time", "n1", false, 1.101, false}, {"time", "n2", false, 1.01, false}, {"time", "", false, 1.01, false},
		{"rate", "", true, 0.9, true}, {"rate", "", true, 0.89, false}, {"rate", "n1", true, 0.95, false}, {"wall", "n1", false, 1, false},
	} {
		if got := a.allows(metric.Metric{Name: x.metric, Higher: x.higher}, x.one, x.ratio); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
	higher := report.Contrast{Higher: true, Bound: report.Estimate{Value: 0.9, Low: 0.8876, High: 0.91}}
	lower := report.Contrast{Bound: report.Estimate{Value: 1.1, Low: 1.09, High: 1.1011}}
	if acceptedLimit(higher) != 0.887 || acceptedLimit(lower) != 1.102 {
		t.Error(acceptedLimit(higher), acceptedLimit(lower))
	}
}

// TestReadAccepted: what the merge base has is spent, and where its list is damaged nothing counts.
func TestReadAccepted(t *testing.T) {
	entry := func(reason string) string {
		return fmt.Sprintf("[[accepted]]\nmetric = \"time\"\nlimit = 1.5\nreason = %q\n", reason)
	}
	for _, x := range []struct {
		base, head string
		want       []string // reasons
		warn       string
	}{
		{"", "", nil, ""}, {"", entry("a"), []string{"a"}, ""}, {entry("a"), entry("a"), nil, ""}, {entry("a"), "# moved\n" + entry("b") + entry("a"), []string{"b"}, ""},
		{entry("a"), "", nil, ""}, {"accepted = 7\n", entry("a"), nil, "no accepted change counts"},
	} {
		r := gittest.New(t)
		r.Write(t, config.AcceptedName, x.base+"\n")
		base := r.Commit(t, "base")
		r.Write(t, config.AcceptedName, x.head+"\n")
		r.Write(t, "n", "1")
		head := r.Commit(t, "head")
		got, err := readAccepted(open(t, r), base, head)
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for _, a := range got.list {
			reasons = append(reasons, a.Reason)
		}
		if !slices.Equal(reasons, x.want) || !strings.Contains(strings.Join(got.warnings, "\n"), x.warn) {
			t.Errorf("%+v: %q, %q", x, reasons, got.warnings)
		}
	}
}

// FuzzAccepted: the list is read or refused, never more; and what is recorded is read back as it was.
func FuzzAccepted(f *testing.F) {
	f.Add("", "time", "n1", "needed", 1.1)
	f.Add("[[accepted]]\nmetric = \"time\"\nlimit = 2\nreason = \"x\"\n", "a\"b", "", "two\nlines \x7f \u2028 \\", 0.5)
	f.Add("# no line end", "t", "c\tase", "r", 3.25)
	f.Add("accepted = 3", "t", "", "r", 1.0)
	f.Fuzz(func(t *testing.T, old, metric, one, reason string, limit float64) {
		before, err := config.ParseAccepted("x", []byte(old))
		if err != nil || words.Printable(reason) == "" || metric == "" || !(limit > 0 && limit < 1e6) || strings.Contains(metric+one, "\x00") || len(old)+len(metric)+len(one)+len(reason) > 10000 {
			return
		}
		fresh := config.Acceptance{Metric: strings.ToValidUTF8(metric, "?"), Case: strings.ToValidUTF8(one, "?"), Limit: limit, Commit: "c0ffee", Reason: words.Printable(strings.ToValidUTF8(reason, "?"))}
		path := filepath.Join(t.TempDir(), config.AcceptedName)
		if err := os.WriteFile(path, []byte(old), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := appendAccepted(path, []config.Acceptance{fresh}); err != nil {
			if strings.Contains(old, "[") { // such as accepted = [], to which nothing can be added
				return
			}
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := config.ParseAccepted("x", data); err != nil || !slices.Equal(got, append(before, fresh)) {
			t.Fatalf("%+v, %v\n%s", got, err, data)
		}
	})
}

// TestOnlyChange compares the commit that needs no search with what every order of a random history says: if the
// rule names one, HEAD's inputs came with it.
func TestOnlyChange(t *testing.T) {
	named := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		keys := map[string]string{"good": "k0", "older": []string{"k0", "k9"}[rng.IntN(2)]}
		rng2 := &source.Range{GoodKey: "k0"}
		n := 1 + rng.IntN(5)
		for i := range n {
			c := source.RangeCommit{ID: fmt.Sprint(i)}
			before := []string{"good", "older"}
			for j := range i {
				before = append(before, fmt.Sprint(j))
			}
			c.Parents = []string{before[rng.IntN(len(before))]}
			if rng.IntN(3) == 0 {
				c.Parents = append(c.Parents, before[rng.IntN(len(before))])
			}
			c.Key = keys[c.Parents[0]]
			if rng.IntN(2) == 0 {
				c.Key = fmt.Sprint("k", rng.IntN(3))
			}
			c.Neutral = !slices.ContainsFunc(c.Parents, func(p string) bool { return keys[p] != c.Key })
			keys[c.ID] = c.Key
			rng2.Commits = append(rng2.Commits, c)
		}
		bad := rng2.Commits[n-1].Key
		id, ok := onlyChange(rng2, func(id string) (string, error) { return keys[id], nil })
		if !ok {
			continue
		}
		named++
		var borders int // commits that go from the inputs of the good end to those of the bad
		for _, c := range rng2.Commits {
			from := !slices.ContainsFunc(c.Parents, func(p string) bool { return keys[p] != "k0" })
			if c.Key == bad && bad != "k0" && from {
				borders++
			}
		}
		if keys[id] != bad || borders != 1 {
			t.Errorf("seed %d: %s of %+v", seed, id, rng2.Commits)
		}
	}
	if named < 100 {
		t.Errorf("named in %d histories", named)
	}
}

// TestMoved follows lines through random later changes: where a line is still in the file, the place is its.
func TestMoved(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	r := gittest.New(t)
	lines := make([]string, 40)
	for i := range lines {
		lines[i] = fmt.Sprint("line ", i)
	}
	var ids []string
	var files [][]string
	for range 8 {
		r.Write(t, "a.c", strings.Join(lines, "\n")+"\n")
		r.Commit(t, "change")
		ids, files = append(ids, r.Git(t, "rev-parse", "HEAD")), append(files, slices.Clone(lines))
		for range 3 {
			at := rng.IntN(len(lines))
			switch rng.IntN(3) {
			case 0:
				lines = slices.Delete(lines, at, min(len(lines), at+2))
			case 1:
				lines = slices.Insert(lines, at, fmt.Sprint("new ", rng.Int()))
			case 2:
				lines[at] = fmt.Sprint("other ", rng.Int())
			}
		}
	}
	s := open(t, r)
	checked := 0
	for i := range ids {
		d, err := hunks.Between(context.Background(), s, ids[i], ids[len(ids)-1], []string{"a.c"})
		if err != nil {
			t.Fatal(err)
		}
		last := files[len(files)-1]
		for n, line := range files[i] {
			at := slices.Index(last, line)
			if at < 0 {
				continue
			}
			checked++
			if p, ok := moved(report.Place{File: "a.c", Start: n + 1, End: n + 1}, d.Hunks); !ok || p.Start != at+1 || p.End != at+1 {
				t.Errorf("line %q of version %d: %v, want %d", line, i, p, at+1)
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d lines", checked)
	}
	r.Git(t, "rm", "-q", "a.c")
	r.Commit(t, "gone")
	d, err := hunks.Between(context.Background(), s, ids[0], r.Git(t, "rev-parse", "HEAD"), []string{"a.c"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := moved(report.Place{File: "a.c", Start: 1, End: 1}, d.Hunks); ok {
		t.Error("a file that is gone")
	}
}
