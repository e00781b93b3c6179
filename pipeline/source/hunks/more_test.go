package hunks

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func TestHunksOfMergeRootAndNothing(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "f", "1\n2\n3\n")
	root := r.Commit(t, "root")
	r.Git(t, "checkout", "-q", "-b", "side")
	r.Write(t, "side", "s\n")
	side := r.Commit(t, "side")
	r.Git(t, "checkout", "-q", "main")
	r.Write(t, "f", "1\nzwei\n3\n")
	main := r.Commit(t, "main")
	r.Git(t, "merge", "-q", "--no-ff", "-m", "merge", "side")
	merge := r.Git(t, "rev-parse", "HEAD")
	repo := open(t, r.Dir)
	of := func(commit string, want ...string) *Diff {
		t.Helper()
		d, err := Of(t.Context(), repo, commit, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ids(d), want) {
			t.Errorf("got %q, want %q", ids(d), want)
		}
		checkEnds(t, repo, d)
		return d
	}
	if d := of(merge, "added side"); d.From != main || d.To != merge {
		t.Errorf("a merge is compared with %s, want its first parent %s", d.From, main)
	}
	of(side, "added side")
	d := of(root, "added f")
	if d.From != "" || apply(t, d, 0) != root {
		t.Errorf("a root is compared with %q", d.From)
	}
	nothing := apply(t, d)
	e := slot(t, repo)
	hop(t, e, main, true)
	hop(t, e, nothing, true)
	if got := gittest.Listing(t, e.Dir()); len(got) > 0 {
		t.Errorf("no hunks of a root give %v", got)
	}
	if d := hunks(t, repo, main, main); len(d.Hunks) > 0 || apply(t, d) != main {
		t.Errorf("hunks between a commit and itself: %q", ids(d))
	}
	// Back in time, and across branches.
	checkEnds(t, repo, hunks(t, repo, merge, root))
	checkEnds(t, repo, hunks(t, repo, side, main))
	if _, err := Between(t.Context(), repo, strings.Repeat("1", 40), root, nil); err == nil {
		t.Error("a commit that is not there has hunks")
	}
	if _, err := Between(t.Context(), repo, root, main, []string{"../f"}); err == nil {
		t.Error("a path outside the repository has hunks")
	}
}

func TestHunksAtPaths(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "k/a.cu", lines(9, nil))
	r.Write(t, "doc/x", "1\n")
	r.Write(t, "was/name.cu", lines(30, nil))
	r.Write(t, "swap/x", "1\n")
	r.Write(t, "swap/y", "1\n")
	from := r.Commit(t, "from")
	r.Write(t, "k/a.cu", lines(9, map[int]string{2: "two\n", 7: "seven\n"}))
	r.Write(t, "doc/x", "2\n")
	r.Git(t, "mv", "was/name.cu", "k/name.cu")
	r.Git(t, "rm", "-rq", "swap")
	r.Write(t, "swap", "a file\n")
	to := r.Commit(t, "to")
	repo := open(t, r.Dir)
	d := hunks(t, repo, from, to, "k", "swap/x")
	want := []string{"deleted swap/x", "deleted swap/y", "added swap", "k/a.cu:-2,1+2,1", "k/a.cu:-7,1+7,1", "renamed k/name.cu"}
	if got := ids(d); !slices.Equal(got, want) || d.Outside != 1 {
		t.Fatalf("got %q and %d outside, want %q and 1", got, d.Outside, want)
	}
	all := apply(t, d, everything(d)...)
	changes, err := repo.Changes(t.Context(), all, to)
	if err != nil || len(changes) != 1 || changes[0].Path != "doc/x" {
		t.Errorf("all hunks and %s differ by %v, %v", to, changes, err)
	}
	// Equal inputs are one candidate, whatever else was chosen.
	key := func(set ...int) string {
		k, err := repo.Key(apply(t, d, set...), []string{"k/a.cu"})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if key(3) != key(3, 5) || key(3, 4) != key(0, 3, 4) || key(3) == key(4) || key(3) == key() {
		t.Error("fingerprints do not follow the files at the paths")
	}
	if k, err := repo.Key(to, []string{"k/a.cu"}); err != nil || k != key(3, 4) {
		t.Errorf("all hunks have another fingerprint than their commit, %v", err)
	}
	again := hunks(t, open(t, r.Dir), from, to, "k", "swap/x")
	if apply(t, d, 3) != apply(t, again, 3) {
		t.Error("another session names the same candidate otherwise")
	}
	if apply(t, d, 1, 0) != apply(t, d, 0, 1, 1) {
		t.Error("the order of a set counts")
	}
}

func TestHunksOfSubmodules(t *testing.T) {
	sub := gittest.New(t)
	sub.Write(t, "lib.h", "1\n")
	sub.Commit(t, "one")
	r := gittest.New(t)
	r.Write(t, "k.cu", "1\n")
	r.Git(t, "submodule", "add", "-q", sub.Dir, "third/old")
	from := r.Commit(t, "from")
	sub.Write(t, "lib.h", "2\n")
	sub.Commit(t, "two")
	r.Git(t, "-C", "third/old", "pull", "-q", "origin", "main")
	r.Git(t, "submodule", "add", "-q", sub.Dir, "third/new")
	r.Write(t, "k.cu", "2\n")
	to := r.Commit(t, "to")
	repo := open(t, r.Dir)
	for _, paths := range [][]string{nil, {"k.cu", "third"}} {
		d := hunks(t, repo, from, to, paths...)
		checkEnds(t, repo, d)
		added, pin, module := find(t, d, "added third/new"), find(t, d, "submodule third/old"), find(t, d, ".gitmodules:-3,0+4,3")
		if !slices.Equal(d.Hunks[added].Requires, []int{module}) {
			t.Errorf("a new submodule requires %v", d.Hunks[added].Requires)
		}
		if h := d.Hunks[pin]; len(h.Requires) > 0 || !strings.HasPrefix(h.Text, "-Subproject commit ") || h.NewLines != 0 {
			t.Errorf("got %+v", h)
		}
		e := slot(t, repo)
		hop(t, e, apply(t, d, pin), true)
		got := gittest.Listing(t, e.Dir())
		if !strings.Contains(got["third/old/lib.h"], `"2\n"`) || got["third/new"] != "" || !strings.Contains(got["k.cu"], `"1\n"`) {
			t.Errorf("pin alone: %v", got)
		}
		hop(t, e, apply(t, d, module, added), true)
		got = gittest.Listing(t, e.Dir())
		if !strings.Contains(got["third/old/lib.h"], `"1\n"`) || !strings.Contains(got["third/new/lib.h"], `"2\n"`) {
			t.Errorf("new submodule alone: %v", got)
		}
		text, err := d.Unified(everything(d), 0)
		if err != nil || !strings.Contains(text, "new file mode 160000\n") {
			t.Errorf("got %s, %v", text, err)
		}
	}
}

func TestHunksThroughGit(t *testing.T) {
	for _, c := range []struct{ name, init string }{{"sha256", "--object-format=sha256"}, {"sha1", "--object-format=sha1"}} {
		t.Run(c.name, func(t *testing.T) {
			r := gittest.New(t, c.init)
			r.Write(t, "d/k.cu", lines(9, nil))
			from := r.Commit(t, "from")
			r.Write(t, "d/k.cu", lines(9, map[int]string{2: "two\n", 7: "seven\n"}))
			r.Write(t, "d/n", "new\n")
			to := r.Commit(t, "to")
			if c.name == "sha1" { // a replaced object, too, is read through git
				r.Git(t, "replace", r.CommitTree(t, from+"^{tree}", r.Date), from)
			}
			repo := open(t, r.Dir)
			d := hunks(t, repo, from, to)
			checkEnds(t, repo, d)
			e := slot(t, repo)
			hop(t, e, apply(t, d, 0, 2), true)
			want := lines(9, map[int]string{7: "seven\n"})
			if got, _ := os.ReadFile(filepath.Join(e.Dir(), "d/k.cu")); d.Hunks[0].ID != "added d/n" || string(got) != want {
				t.Errorf("%s back end: got %q of %q", repo.Backend(), got, ids(d))
			}
		})
	}
}

func TestHunksOfPartialClone(t *testing.T) {
	r := gittest.New(t)
	r.Git(t, "config", "uploadpack.allowFilter", "true")
	r.Git(t, "config", "uploadpack.allowAnySHA1InWant", "true")
	r.Write(t, "k.cu", lines(9, nil))
	r.Write(t, "other", "1\n")
	from := r.Commit(t, "from")
	r.Write(t, "k.cu", lines(9, map[int]string{2: "two\n", 7: "seven\n"}))
	to := r.Commit(t, "to")
	dir := filepath.Join(t.TempDir(), "clone")
	r.Git(t, "clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+r.Dir, dir)
	repo := open(t, dir)
	d := hunks(t, repo, from, to)
	checkEnds(t, repo, d)
	e := slot(t, repo)
	hop(t, e, apply(t, d, 1), true)
	want := lines(9, map[int]string{7: "seven\n"})
	if got, _ := os.ReadFile(filepath.Join(e.Dir(), "k.cu")); string(got) != want {
		t.Errorf("got %q", got)
	}
	if repo.Backend() != "git" {
		t.Errorf("back end %s", repo.Backend())
	}
}

func TestSplit(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "k.cu", "a\nint n = 4;\nint m = 2;\nfree(p);\nz\n")
	from := r.Commit(t, "from")
	r.Write(t, "k.cu", "a\n  int m = 2;\nlong fresh;\n  int n = 8;\nz\n")
	r.Write(t, "new.cu", "one\ntwo\nthree\n")
	r.Write(t, "sub", "")
	to := r.Commit(t, "to")
	repo := open(t, r.Dir)
	d := hunks(t, repo, from, to)
	block := find(t, d, "k.cu:-2,3+2,3")
	s, n := d.Split(block)
	checkOrder(t, s)
	checkEnds(t, repo, s)
	var parts []string
	for _, h := range s.Hunks[block : block+n] {
		parts = append(parts, h.ID)
		file, start, end, old := h.Where()
		if file != "k.cu" || start < 2 || end > 4 || start != end && !old {
			t.Errorf("%s is at %s:%d-%d", h.ID, file, start, end)
		}
		if _, again := s.Split(slices.IndexFunc(s.Hunks, func(o Hunk) bool { return o.ID == h.ID })); again != 0 {
			t.Errorf("%s was divided again", h.ID)
		}
	}
	if want := []string{"k.cu:-2,1+1,0", "k.cu:-3,1+2,1", "k.cu:-3,0+3,1", "k.cu:-4,1+4,1"}; !slices.Equal(parts, want) {
		t.Errorf("got parts %q, want %q", parts, want)
	}
	if same := composed(t, repo, s, refine([]int{block}, block, n)); same != composed(t, repo, d, []int{block}) {
		t.Error("the parts together differ from the whole")
	}
	added := find(t, s, "added new.cu")
	f, n := s.Split(added)
	checkOrder(t, f)
	checkEnds(t, repo, f)
	if n != 4 || f.Hunks[added].ID != "created new.cu" {
		t.Fatalf("%d parts of %q", n, ids(f))
	}
	for _, h := range f.Hunks[added+1 : added+n] {
		if !slices.Equal(h.Requires, []int{added}) || h.NewLines != 1 {
			t.Errorf("got %+v", h)
		}
	}
	e := slot(t, repo)
	hop(t, e, apply(t, f, added, added+1, added+3), true)
	if got, _ := os.ReadFile(filepath.Join(e.Dir(), "new.cu")); string(got) != "one\nthree\n" {
		t.Errorf("got %q", got)
	}
	hop(t, e, apply(t, f, added), true)
	if got, err := os.ReadFile(filepath.Join(e.Dir(), "new.cu")); string(got) != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, n := f.Split(find(t, f, "added sub")); n != 0 {
		t.Error("an empty file was divided")
	}
	if got := refine([]int{0, 2, 5}, 2, 3); !slices.Equal(got, []int{0, 2, 3, 4, 7}) {
		t.Errorf("got %v", got)
	}
}

// TestSplitFindsLine narrows one guilty line in a long block by dividing the
// guilty part again and again, everything else staying applied.
func TestSplitFindsLine(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "k.cu", lines(3000, nil))
	from := r.Commit(t, "from")
	other := map[int]string{}
	for i := 100; i < 2900; i++ {
		other[i] = fmt.Sprintf("  new words %d\n", i)
	}
	other[1777] = "  while (1);\n"
	r.Write(t, "k.cu", lines(3000, other))
	to := r.Commit(t, "to")
	repo := open(t, r.Dir)
	d := hunks(t, repo, from, to)
	guilty := func(d *Diff, set []int) bool {
		states, err := d.states(set)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(states[0].content(), "while (1);")
	}
	at, levels := 0, 0
	for n := 1; n > 0; levels++ {
		if d, n = d.Split(at); n == 0 {
			break
		}
		at = slices.IndexFunc(everything(d), func(i int) bool { return guilty(d, []int{i}) })
	}
	h := d.Hunks[at]
	file, start, end, old := h.Where()
	if file != "k.cu" || start != 1777 || end != 1777 || old || levels > 4 {
		t.Errorf("found %s %s:%d-%d after %d levels", h.ID, file, start, end, levels)
	}
	checkEnds(t, repo, d)
}

func TestUnified(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "k.cu", lines(12, nil))
	r.Write(t, "x\ty", "caf\xe9\r\n")
	from := r.Commit(t, "from")
	r.Write(t, "k.cu", lines(12, map[int]string{2: "two\n", 5: "five\n", 11: "eleven\n"}))
	r.Write(t, "x\ty", "esc \x1b[1m\r\n")
	to := r.Commit(t, "to")
	d := hunks(t, open(t, r.Dir), from, to)
	got, err := d.Unified([]int{0, 2, 3}, 1)
	want := `diff --git a/k.cu b/k.cu
--- a/k.cu
+++ b/k.cu
@@ -1,3 +1,3 @@
 line 1
-line 2
+two
 line 3
@@ -10,3 +10,3 @@
 line 10
-line 11
+eleven
 line 12
diff --git "a/x\ty" "b/x\ty"
--- "a/x\ty"
+++ "b/x\ty"
@@ -1,1 +1,1 @@
-caf�^M
+esc �[1m^M
`
	if err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := d.Unified([]int{9}, 1); err == nil {
		t.Error("a hunk that is not there was shown")
	}
}

// TestHunksInParallel lets exports and composing share a Repo.
func TestHunksInParallel(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "k.cu", lines(200, nil))
	from := r.Commit(t, "from")
	other := map[int]string{}
	for i := 5; i < 200; i += 10 {
		other[i] = "other\n"
	}
	r.Write(t, "k.cu", lines(200, other))
	to := r.Commit(t, "to")
	repo := open(t, r.Dir)
	d := hunks(t, repo, from, to)
	var wg sync.WaitGroup
	for g := range uint64(3) {
		e := slot(t, repo)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(g, 5))
			for range 12 {
				set := randomSet(rng, d)
				want := withHunks(other, d, set)
				id, err := d.Apply(set)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := e.Switch(t.Context(), id, true); err != nil {
					t.Error(err)
					return
				}
				if got, _ := os.ReadFile(filepath.Join(e.Dir(), "k.cu")); string(got) != want {
					t.Errorf("set %v: got %q", set, got)
				}
			}
		})
	}
	wg.Wait()
}

// withHunks is the file of TestHunksInParallel with a set applied.
func withHunks(other map[int]string, d *Diff, set []int) string {
	some := map[int]string{}
	for _, i := range set {
		some[d.Hunks[i].NewStart] = other[d.Hunks[i].NewStart]
	}
	return lines(200, some)
}
