package source

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// randomDAG makes a history with merges and clocks that are wrong, over a few
// trees so that many commits are equal to their parents.
func randomDAG(t *testing.T, r *gittest.Repo, rng *rand.Rand, n int) []string {
	t.Helper()
	var trees []string
	for i := range 4 {
		r.Write(t, "k/a.cu", fmt.Sprint(i%2))
		r.Write(t, "k/sub/h", fmt.Sprint(i/3))
		r.Write(t, "doc", fmt.Sprint(i))
		r.Git(t, "add", "-A")
		trees = append(trees, r.Git(t, "write-tree"))
	}
	empty := r.Pipe(t, "", "mktree")
	ids := []string{r.CommitTree(t, trees[0], 1600000000)}
	for i := 1; i < n; i++ {
		date := 1600000000 + int64(i)*100 + int64(rng.IntN(2))*int64(rng.IntN(2000000)-1000000)
		var parents []string
		for range 1 + rng.IntN(3)*rng.IntN(2) {
			p := ids[max(0, len(ids)-1-rng.IntN(8))]
			if !slices.Contains(parents, p) {
				parents = append(parents, p)
			}
		}
		tree := trees[rng.IntN(len(trees))]
		if rng.IntN(12) == 0 {
			parents, tree = nil, empty // another root
		}
		ids = append(ids, r.CommitTree(t, tree, date, parents...))
	}
	return ids
}

// truth computes good..bad from the parents alone.
func truth(parents map[string][]string, good, bad string) (set map[string]bool, ok bool) {
	reach := func(from string) map[string]bool {
		seen, todo := map[string]bool{}, []string{from}
		for len(todo) > 0 {
			id := todo[0]
			todo = todo[1:]
			if !seen[id] {
				seen[id] = true
				todo = append(todo, parents[id]...)
			}
		}
		return seen
	}
	old, set := reach(good), reach(bad)
	ok = set[good] && good != bad
	for id := range old {
		delete(set, id)
	}
	return set, ok
}

func TestRangeOnRandomHistories(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	r := gittest.New(t)
	ids := randomDAG(t, r, rng, 90)
	for i, id := range ids {
		r.Git(t, "update-ref", fmt.Sprintf("refs/tags/t%d", i), id)
	}
	parents := map[string][]string{}
	for line := range strings.SplitSeq(r.Git(t, "rev-list", "--parents", "--all"), "\n") {
		f := strings.Fields(line)
		parents[f[0]] = f[1:]
	}
	t.Run("loose", func(t *testing.T) { checkRanges(t, r, ids, parents, 12) })
	r.Git(t, "repack", "-adq")
	info := filepath.Join(r.Dir, ".git/objects/info")
	for _, graph := range []struct {
		name  string
		parts [][]string // of the options of git commit-graph write, with the commits to begin at
		n     int        // commits in it
	}{
		{"whole", [][]string{{"--reachable"}}, 90},
		{"of levels", [][]string{{"--reachable", "--levels"}}, 90},
		{"of the older half", [][]string{{ids[45]}}, 0},
		{"in a chain", [][]string{{"--split=no-merge", ids[30]}, {"--split=no-merge", ids[70]}, {"--split=no-merge", "--reachable"}}, 90},
		{"in a chain, levels above dates", [][]string{{"--split=no-merge", ids[45]}, {"--split=no-merge", "--reachable", "--levels"}}, 90},
	} {
		t.Run("commit-graph "+graph.name, func(t *testing.T) {
			for _, dir := range []string{"commit-graph", "commit-graphs"} {
				if err := os.RemoveAll(filepath.Join(info, dir)); err != nil {
					t.Fatal(err)
				}
			}
			for _, part := range graph.parts {
				args, from := []string{"-c", "commitGraph.generationVersion=2", "commit-graph", "write"}, ""
				for _, arg := range part {
					if arg == "--levels" {
						args[1] = "commitGraph.generationVersion=1"
					} else if !strings.HasPrefix(arg, "--") {
						from, args = arg+"\n", append(args, "--stdin-commits")
					} else {
						args = append(args, arg)
					}
				}
				r.Pipe(t, from, args...)
			}
			checkRanges(t, r, ids, parents, 16)
			g, err := commits.OpenGraph(filepath.Dir(info), 20)
			if err != nil || graph.n > 0 && g.Len() != graph.n {
				t.Errorf("the graph was not read: %v", err)
			}
		})
	}
	r.Git(t, "commit-graph", "write", "--reachable", "--split=no-merge")
	t.Run("git", func(t *testing.T) {
		r.Git(t, "config", "remote.x.promisor", "true")
		if repo := open(t, r.Dir); repo.Backend() != "git" {
			t.Fatalf("backend %s", repo.Backend())
		}
		checkRanges(t, r, ids, parents, 6)
	})
}

func checkRanges(t *testing.T, r *gittest.Repo, ids []string, parents map[string][]string, rounds int) {
	rng := rand.New(rand.NewPCG(13, 14))
	repo := open(t, r.Dir)
	for i := range rounds {
		bad := ids[len(ids)-1-rng.IntN(10)]
		good := ids[rng.IntN(len(ids)-10)]
		want, ok := truth(parents, good, bad)
		var paths []string
		if i%2 == 1 {
			paths = []string{"k/sub/", "k/a.cu"}[:1+i/2%2]
		}
		opt := RangeOptions{FirstParent: i%3 == 2, Paths: paths}
		got, err := repo.Range(context.Background(), good, bad, opt)
		if !ok {
			checkNotAncestor(t, r, good, bad, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if opt.FirstParent {
			want = map[string]bool{}
			for _, id := range strings.Fields(r.Git(t, "rev-list", "--first-parent", good+".."+bad)) {
				want[id] = true
			}
		}
		checkRange(t, r, got, want, opt)
	}
}

func checkNotAncestor(t *testing.T, r *gittest.Repo, good, bad string, err error) {
	t.Helper()
	var na *notAncestorError
	if !errors.As(err, &na) {
		t.Fatalf("%s..%s: got %v, want a notAncestorError", objects.Short(good), objects.Short(bad), err)
	}
	bases, _ := r.Try("", "merge-base", "--all", good, bad)
	if !slices.Contains(strings.Fields(bases), na.MergeBase) && na.MergeBase+bases != "" {
		t.Fatalf("merge base %q is none of %q", na.MergeBase, bases)
	}
	if !strings.Contains(err.Error(), "\nhint:") {
		t.Errorf("no hint in %q", err)
	}
}

func checkRange(t *testing.T, r *gittest.Repo, got *Range, want map[string]bool, opt RangeOptions) {
	t.Helper()
	if len(got.Commits) != len(want) {
		t.Fatalf("%d commits, want %d", len(got.Commits), len(want))
	}
	for i, c := range got.Commits {
		if !want[c.ID] {
			t.Fatalf("%s does not belong to the range", c.ID)
		}
		inside := 0
		for n, p := range c.Parents {
			if want[p] && (n == 0 || !opt.FirstParent) {
				inside++
			}
		}
		if len(c.InRange) != inside {
			t.Fatalf("%s: %d parents inside, want %d", c.ID, len(c.InRange), inside)
		}
		for _, p := range c.InRange {
			if p >= i || !slices.Contains(c.Parents, got.Commits[p].ID) {
				t.Fatalf("%s: parent %d is out of order", c.ID, p)
			}
		}
	}
	if last := got.Commits[len(got.Commits)-1]; last.ID != got.Bad.ID {
		t.Fatalf("the last commit is %s, want %s", last.ID, got.Bad.ID)
	}
	checkNeutral(t, r, got, opt)
}

// checkNeutral: what counts is what git log shows, where every commit descends from the good end; and whatever inputs are
// bad, one of the commits that count is bad while its parents that descend from the good end are good.
func checkNeutral(t *testing.T, r *gittest.Repo, got *Range, opt RangeOptions) {
	t.Helper()
	keys := map[string]string{} // by commit
	key := func(id string) string {
		if _, ok := keys[id]; !ok {
			keys[id] = r.Git(t, append([]string{"ls-tree", id, "--"}, opt.Paths...)...)
		}
		return keys[id]
	}
	considered := func(c RangeCommit) []string {
		if opt.FirstParent && len(c.Parents) > 0 {
			return c.Parents[:1]
		}
		return c.Parents
	}
	args := []string{"log", "--format=%H"}
	if opt.FirstParent {
		args = append(args, "--first-parent")
	}
	args = append(args, got.Good.ID+".."+got.Bad.ID, "--", ".")
	shown := strings.Fields(r.Git(t, append(args[:len(args)-1], opt.Paths...)...))
	if len(opt.Paths) == 0 {
		shown = strings.Fields(r.Git(t, args...))
	}
	descend, all := map[string]bool{got.Good.ID: true}, true
	index := map[string]int{}
	for i, c := range got.Commits {
		index[c.ID] = i
		descend[c.ID] = slices.ContainsFunc(considered(c), func(p string) bool { return descend[p] })
		all = all && descend[c.ID]
		if c.Key != "" && (c.Key == got.GoodKey) != (key(c.ID) == key(got.Good.ID)) {
			t.Errorf("%s: its key is %s", c.ID, c.Key)
		}
		same := len(considered(c)) > 0 || key(c.ID) == ""
		for _, p := range considered(c) {
			same = same && key(p) == key(c.ID)
		}
		if same && !c.Neutral || all && !c.Neutral != slices.Contains(shown, c.ID) && len(considered(c)) > 0 {
			t.Errorf("%s: neutral %v, by its parents %v, git shows %v", c.ID, c.Neutral, same, shown)
		}
	}
	for _, id := range shown {
		if got.Commits[index[id]].Neutral {
			t.Errorf("%s is neutral and git shows it", id)
		}
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(got.Commits))))
	for range 20 {
		verdicts := map[string]bool{key(got.Good.ID): false}
		bad := func(id string) bool {
			b, ok := verdicts[key(id)]
			if !ok {
				b = rng.IntN(2) == 0
				verdicts[key(id)] = b
			}
			return b
		}
		if _, ok := verdicts[key(got.Bad.ID)]; ok {
			break // the ends have equal inputs
		}
		verdicts[key(got.Bad.ID)] = true
		if !slices.ContainsFunc(got.Commits, func(c RangeCommit) bool {
			return !c.Neutral && bad(c.ID) && !slices.ContainsFunc(considered(c), func(p string) bool { return descend[p] && bad(p) })
		}) {
			t.Errorf("no commit that counts made %v bad", verdicts)
		}
	}
}

// Histories whose merges take one side, both or neither are simplified as git log does it.
func TestMergesOfOneSide(t *testing.T) {
	const histories, size = 30, 24
	rng := rand.New(rand.NewPCG(21, 22))
	r := gittest.New(t)
	var script strings.Builder
	files := []string{"k/a", "k/b", "c"}
	for h := range histories {
		fmt.Fprintf(&script, "reset refs/heads/h%d\n", h)
		var held [size][3]int
		for i := range size {
			first := h*size + 1 // marks
			fmt.Fprintf(&script, "commit refs/heads/h%d\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata 0\n", h, first+i, 1600000000+100*i)
			p, q := max(0, i-1-rng.IntN(4)), max(0, i-1-rng.IntN(4))
			if i > 0 {
				held[i] = held[p]
				fmt.Fprintf(&script, "from :%d\n", first+p)
				if p != q {
					fmt.Fprintf(&script, "merge :%d\n", first+q)
				}
			}
			for f := range files {
				switch x := rng.IntN(12); {
				case x < 4:
					held[i][f] = held[q][f]
				case x == 4:
					held[i][f] = rng.IntN(3)
				}
				fmt.Fprintf(&script, "M 100644 inline %s\ndata 1\n%d\n", files[f], held[i][f])
			}
		}
	}
	marks := filepath.Join(t.TempDir(), "marks")
	r.Pipe(t, script.String(), "fast-import", "--quiet", "--export-marks="+marks)
	text, err := os.ReadFile(marks)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, histories*size)
	for line := range strings.Lines(string(text)) {
		var mark int
		var id string
		fmt.Sscanf(line, ":%d %s", &mark, &id)
		ids[mark-1] = id
	}
	repo := open(t, r.Dir)
	ranges, merges := 0, 0
	for h := range histories {
		for _, ends := range [][2]int{{0, size - 1}, {rng.IntN(12), size - 1}, {rng.IntN(12), size - 1 - rng.IntN(5)}} {
			opt := RangeOptions{Paths: [][]string{nil, {"k"}, {"k/b"}, {"c", "k/a"}}[rng.IntN(4)], FirstParent: rng.IntN(6) == 0}
			got, err := repo.Range(t.Context(), ids[h*size+ends[0]], ids[h*size+ends[1]], opt)
			if err != nil {
				continue // they lie on two branches
			}
			checkNeutral(t, r, got, opt)
			ranges++
			for _, c := range got.Commits {
				if c.Key == "" {
					merges++
				}
			}
		}
	}
	if ranges < histories || merges < histories {
		t.Errorf("only %d ranges, of whose commits merges left out %d", ranges, merges)
	}
}

// Whatever the dates of commits are, ranges, ancestors and merge bases are those of the parents.
func TestDatesDecideNothing(t *testing.T) {
	const histories, size = 40, 30
	rng := rand.New(rand.NewPCG(15, 16))
	r := gittest.New(t)
	var script strings.Builder
	for h := range histories {
		fmt.Fprintf(&script, "reset refs/heads/h%d\n", h)
		for i := range size {
			first := h*size + 1 // marks
			fmt.Fprintf(&script, "commit refs/heads/h%d\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata 0\n", h, first+i, 1600000000+rng.IntN(1000)+100*i*(h%2))
			above := map[int]bool{}
			for n := range 1 + rng.IntN(2) {
				if p := i - 1 - rng.IntN(5); p >= 0 && !above[p] && rng.IntN(15) > 0 {
					fmt.Fprintf(&script, "%s :%d\n", []string{"from", "merge"}[min(n, len(above))], first+p)
					above[p] = true
				}
			}
			if len(above) == 0 && i > 0 {
				script.WriteString("from 0000000000000000000000000000000000000000\n")
			}
		}
	}
	marks := filepath.Join(t.TempDir(), "marks")
	r.Pipe(t, script.String(), "fast-import", "--quiet", "--export-marks="+marks)
	r.Git(t, "commit-graph", "write", "--reachable")
	ids := make([]string, histories*size)
	text, err := os.ReadFile(marks)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var mark int
		var id string
		fmt.Sscanf(line, ":%d %s", &mark, &id)
		ids[mark-1] = id
	}
	parents := map[string][]string{}
	for line := range strings.SplitSeq(r.Pipe(t, strings.Join(ids, "\n"), "rev-list", "--parents", "--stdin"), "\n") {
		f := strings.Fields(line)
		parents[f[0]] = f[1:]
	}
	repo := open(t, r.Dir)
	for range 400 {
		h := rng.IntN(histories) * size
		good, bad := ids[h+rng.IntN(size)], ids[h+rng.IntN(size)]
		want, ok := truth(parents, good, bad)
		yes, err := repo.IsAncestor(t.Context(), good, bad)
		if err != nil || yes != (ok || good == bad) {
			t.Fatalf("%s is an ancestor of %s: %v, %v", good, bad, yes, err)
		}
		bases, err := repo.MergeBases(t.Context(), good, bad)
		if want, _ := r.Try("", "merge-base", "--all", good, bad); err != nil || !slices.Equal(slices.Sorted(slices.Values(bases)), slices.Sorted(strings.FieldsSeq(want))) {
			t.Fatalf("merge bases of %s and %s: %q, git says %q, %v", good, bad, bases, want, err)
		}
		if got, err := repo.Range(t.Context(), good, bad, RangeOptions{}); ok && err != nil {
			t.Fatal(err)
		} else if ok {
			checkRange(t, r, got, want, RangeOptions{})
		}
	}
}

func TestKeys(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "k/a.cu", "1")
	r.Write(t, "doc", "1")
	a := r.Commit(t, "a")
	r.Write(t, "doc", "2")
	b := r.Commit(t, "b")
	r.Git(t, "update-index", "--add", "--cacheinfo", "160000,"+a+",dep")
	r.Git(t, "commit", "-qm", "pin")
	r.Git(t, "update-index", "--cacheinfo", "160000,"+b+",dep")
	r.Git(t, "commit", "-qm", "another pin")
	r.Git(t, "update-index", "--chmod=+x", "k/a.cu")
	r.Git(t, "commit", "-qm", "mode")
	repo := open(t, r.Dir)
	neutral := func(paths ...string) (out []bool) {
		t.Helper()
		rng, err := repo.Range(t.Context(), a, "main", RangeOptions{Paths: paths})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rng.Commits {
			out = append(out, c.Neutral)
		}
		return out
	}
	for _, c := range []struct {
		paths []string
		want  []bool
	}{
		{nil, []bool{false, false, false, false}},
		{[]string{"."}, []bool{false, false, false, false}},
		{[]string{"k"}, []bool{true, true, true, false}},
		{[]string{"./k/a.cu"}, []bool{true, true, true, false}},
		{[]string{"dep"}, []bool{true, false, false, true}},
		{[]string{"dep/include/x.h"}, []bool{true, false, false, true}},
		{[]string{"doc/none", "nothing"}, []bool{true, true, true, true}},
	} {
		if got := neutral(c.paths...); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.paths, got, c.want)
		}
	}
	for _, bad := range []string{"", "/etc", "../x", "a/../../b"} {
		if _, err := repo.Range(t.Context(), a, "main", RangeOptions{Paths: []string{bad}}); err == nil {
			t.Errorf("path %q was taken", bad)
		}
	}
}

func TestRangeErrors(t *testing.T) {
	r := gittest.New(t)
	a := r.Commit(t, "a")
	b := r.Commit(t, "b")
	r.Git(t, "tag", "-m", "x", "v1.0", a)
	repo := open(t, r.Dir)
	_, err := repo.Range(t.Context(), "v1.0", a, RangeOptions{})
	if e := (*emptyRangeError)(nil); !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
	_, err = repo.Range(t.Context(), b, a, RangeOptions{})
	if e := (*notAncestorError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "swapped") {
		t.Errorf("got %v", err)
	}
	_, err = repo.Range(t.Context(), "v1.1", "mian", RangeOptions{})
	if e := (*notFoundError)(nil); !errors.As(err, &e) || !slices.Equal(e.Near, []string{"v1.0"}) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := repo.Range(ctx, a, b, RangeOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// cutOff is a back end under which a context ends: with the object opened after so many others.
type cutOff struct {
	objects.Reader
	cancel context.CancelFunc
	after  int

	mu     sync.Mutex
	opened int
}

func (c *cutOff) Open(id string) (string, int64, io.ReadCloser, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened++; c.opened == c.after {
		c.cancel()
	}
	return c.Reader.Open(id)
}

// TestManyParents: a commit that lists so many parents that no line of 64 KiB holds them stops no walk, whoever reads it.
func TestManyParents(t *testing.T) {
	r := gittest.New(t)
	tree := r.Pipe(t, "", "mktree")
	ids := []string{r.CommitTree(t, tree, 1600000000)}
	next := func(parent string) { ids = append(ids, r.CommitTree(t, tree, 1600000000+int64(len(ids)), parent)) }
	for range 2 * few {
		next(ids[len(ids)-1])
	}
	text := fmt.Sprintf("tree %s\n%sauthor C <c@example.com> 1700000000 +0000\ncommitter C <c@example.com> 1700000000 +0000\n\nc\n",
		tree, strings.Repeat("parent "+ids[len(ids)-1]+"\n", 3000))
	ids = append(ids, r.Pipe(t, text, "hash-object", "-t", "commit", "-w", "--stdin", "--literally"))
	next(ids[len(ids)-1])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rng, err := open(t, r.Dir).Range(ctx, ids[0], ids[len(ids)-1], RangeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rng.Commits) != len(ids)-1 {
		t.Errorf("%d commits, want %d", len(rng.Commits), len(ids)-1)
	}
}

// TestWalksEndWithTheirContext: whatever walks commits stops within three objects of the end of its context, wherever in the
// walk that comes.
func TestWalksEndWithTheirContext(t *testing.T) {
	const commits = 1000
	var r *gittest.Repo
	for _, format := range slices.Backward(objectFormats()[1:]) { // git reads those that are not SHA-1
		r = gittest.New(t, format)
		var s strings.Builder
		for i := range commits {
			fmt.Fprintf(&s, "commit refs/heads/main\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata 1\nc\nM 100644 inline n\ndata <<E\n%d\nE\n", i+1, 1600000000+i, i)
		}
		fmt.Fprintf(&s, "reset refs/heads/other\nfrom :%d\n\n", commits/2)
		r.Pipe(t, s.String(), "fast-import", "--quiet")
		first, main := strings.Fields(r.Git(t, "rev-list", "--max-parents=0", "main"))[0], r.Git(t, "rev-parse", "main")
		other := r.CommitTree(t, r.Git(t, "rev-parse", "other^{tree}"), 1700000000, "other")
		for name, walk := range map[string]func(context.Context, *Repo, objects.Reader) error{
			"range": func(ctx context.Context, repo *Repo, _ objects.Reader) error {
				_, err := repo.Range(ctx, first, main, RangeOptions{})
				return err
			},
			"paths": func(ctx context.Context, repo *Repo, _ objects.Reader) error {
				_, err := repo.Range(ctx, first, main, RangeOptions{Paths: []string{"n"}})
				return err
			},
			"merge base": func(ctx context.Context, repo *Repo, _ objects.Reader) error {
				_, err := repo.MergeBases(ctx, main, other)
				return err
			},
			"ancestor": func(ctx context.Context, repo *Repo, _ objects.Reader) error {
				_, err := repo.IsAncestor(ctx, first, main)
				return err
			},
			"back": func(ctx context.Context, repo *Repo, _ objects.Reader) error {
				_, _, err := Back(ctx, repo, main, commits)
				return err
			},
		} {
			for _, after := range []int{1, 10, 400} {
				repo := open(t, r.Dir)
				repo.read.haveGit = false // which reads long ranges
				ctx, cancel := context.WithCancel(t.Context())
				o := &cutOff{Reader: repo.read.Objects, cancel: cancel, after: after}
				repo.read.Objects = o
				if err := walk(ctx, repo, o); !errors.Is(err, context.Canceled) {
					t.Errorf("%s, %s, after %d: %v", name, format, after, err)
				}
				if o.opened > after+3 {
					t.Errorf("%s, %s: %d objects after the %d at which the context ended", name, format, o.opened-after, after)
				}
			}
		}
	}
	// A revision is resolved by the back end itself, and by git where that does not understand it.
	for _, rev := range []string{fmt.Sprintf("main~%d", commits-1), "main@{upstream}", ":/c"} {
		repo := open(t, r.Dir)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := repo.Resolve(ctx, rev); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", rev, err)
		}
	}
}

func TestChangedFiles(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "a", "1")
	r.Write(t, "b", "2")
	r.Write(t, "old/name", "moved")
	r.Write(t, "run.sh", "x")
	root := r.Commit(t, "root")
	r.Write(t, "a", "changed")
	r.Write(t, "new", "n")
	r.Git(t, "rm", "-q", "b")
	r.Git(t, "mv", "old/name", "name")
	r.Git(t, "update-index", "--chmod=+x", "run.sh")
	r.Git(t, "add", "new", "a")
	r.Git(t, "commit", "-qm", "second")
	repo := open(t, r.Dir)
	id, _ := Head(repo)
	got, err := repo.ChangedFiles(t.Context(), id)
	want := []FileChange{{"a", "", "modified"}, {"b", "", "deleted"}, {"name", "old/name", "renamed"}, {"new", "", "added"}, {"run.sh", "", "mode"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := repo.ChangedFiles(t.Context(), root); err != nil || len(got) != 4 || got[0].Kind != "added" {
		t.Errorf("root: got %v, %v", got, err)
	}
}

// A commit-graph file with other parents than the commits have is noticed, wherever it lies, at the latest when the commit
// is read: then the range is made again, and is that of the commits.
func TestLyingCommitGraph(t *testing.T) {
	r := gittest.New(t)
	var ids []string
	for i := range 12 {
		r.Write(t, "f", fmt.Sprint(i))
		ids = append(ids, r.Commit(t, fmt.Sprint(i)))
	}
	r.Git(t, "commit-graph", "write", "--reachable")
	file := filepath.Join(r.Dir, ".git/objects/info/commit-graph")
	honest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	order := slices.Sorted(slices.Values(ids))
	position := func(id string) uint32 { return uint32(slices.Index(order, id)) }
	tree := func(id string) []byte { b, _ := hex.DecodeString(r.Git(t, "rev-parse", id+"^{tree}")); return b }
	for _, lie := range [][2]int{{4, 7}, {2, 8}, {4, 1}, {8, 5}, {10, 3}, {3, 3}, {6, 4}} { // commit and what is said to be its parent
		at := bytes.LastIndex(honest, tree(ids[lie[0]]))
		lying := slices.Clone(honest)
		binary.BigEndian.PutUint32(lying[at+20:], position(ids[lie[1]]))
		sum := sha1.Sum(lying[:len(lying)-20])
		copy(lying[len(lying)-20:], sum[:])
		if err := errors.Join(os.Remove(file), os.WriteFile(file, lying, 0o444)); err != nil {
			t.Fatal(err)
		}
		for _, firstParent := range []bool{false, true} {
			repo, got := open(t, r.Dir), []string{}
			for range 2 {
				rng, err := repo.Range(t.Context(), ids[4], ids[10], RangeOptions{FirstParent: firstParent})
				if err != nil {
					t.Fatalf("parent of %d is %d: %v", lie[0], lie[1], err)
				}
				got = got[:0]
				for _, c := range rng.Commits {
					got = append(got, c.ID)
				}
				if Misled(repo) {
					t.Fatalf("parent of %d is %d: not made again", lie[0], lie[1])
				}
				if slices.Equal(got, ids[5:11]) {
					break
				}
				if err := Vouch(t.Context(), repo, rng, rng.Commits[0].ID); err == nil && !Misled(repo) {
					repo.Commit(rng.Commits[0].ID) // reading it tells
				}
				if !Misled(repo) {
					t.Fatalf("parent of %d is %d: %d commits, of which none is doubted", lie[0], lie[1], len(got))
				}
			}
			if !slices.Equal(got, ids[5:11]) {
				t.Errorf("parent of %d is %d: %d commits", lie[0], lie[1], len(got))
			}
		}
		repo := open(t, r.Dir)
		for _, pair := range [][2]int{{4, 10}, {10, 4}, {5, 7}, {3, 4}} {
			lower := ids[min(pair[0], pair[1])]
			if yes, err := repo.IsAncestor(t.Context(), ids[pair[0]], ids[pair[1]]); err != nil || yes != (pair[0] < pair[1]) {
				t.Errorf("parent of %d is %d: %d is an ancestor of %d: %v, %v", lie[0], lie[1], pair[0], pair[1], yes, err)
			}
			if bases, err := repo.MergeBases(t.Context(), ids[pair[0]], ids[pair[1]]); err != nil || !slices.Equal(bases, []string{lower}) {
				t.Errorf("parent of %d is %d: merge bases of %d and %d are %q, %v", lie[0], lie[1], pair[0], pair[1], bases, err)
			}
		}
	}
}
