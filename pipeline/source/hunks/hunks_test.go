package hunks

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func hunks(t gittest.Failer, repo *source.Repo, from, to string, paths ...string) *Diff {
	t.Helper()
	d, err := Between(context.Background(), repo, from, to, paths)
	if err != nil {
		t.Fatalf("hunks from %s to %s: %v", from, to, err)
	}
	checkOrder(t, d)
	return d
}

// checkOrder verifies that ids are unique and no hunk comes before one that
// it requires.
func checkOrder(t gittest.Failer, d *Diff) {
	t.Helper()
	ids := map[string]bool{}
	for i, h := range d.Hunks {
		if ids[h.ID] {
			t.Fatalf("two hunks are called %q", h.ID)
		}
		ids[h.ID] = true
		for _, k := range h.Requires {
			if k >= i {
				t.Fatalf("hunk %d %s requires hunk %d", i, h.ID, k)
			}
		}
	}
}

func apply(t gittest.Failer, d *Diff, set ...int) string {
	t.Helper()
	id, err := d.Apply(set)
	if err != nil {
		t.Fatalf("apply %v: %v", set, err)
	}
	return id
}

// composed is the tree of a set, made without the short cuts for none and all.
func composed(t gittest.Failer, repo *source.Repo, d *Diff, set []int) string {
	t.Helper()
	states, err := d.states(set)
	if err != nil {
		t.Fatalf("apply %v: %v", set, err)
	}
	id, err := d.both.Compose(edits(states))
	if err != nil {
		t.Fatalf("apply %v: %v", set, err)
	}
	return treeOf(t, repo, id)
}

func treeOf(t gittest.Failer, repo *source.Repo, commit string) string {
	t.Helper()
	c, err := repo.Commit(commit)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return c.Tree
}

// everything lists all hunks of a diff.
func everything(d *Diff) []int {
	out := make([]int, len(d.Hunks))
	for i := range out {
		out[i] = i
	}
	return out
}

// checkEnds verifies that no hunks give From, and all of them To.
func checkEnds(t gittest.Failer, repo *source.Repo, d *Diff) {
	t.Helper()
	if d.From != "" {
		if got, want := composed(t, repo, d, nil), treeOf(t, repo, d.From); got != want {
			t.Fatalf("no hunks give tree %s, want %s", got, want)
		}
	}
	if got, want := composed(t, repo, d, everything(d)), treeOf(t, repo, d.To); got != want {
		t.Fatalf("all hunks give tree %s, want %s\n%v", got, want, ids(d))
	}
}

func ids(d *Diff) []string {
	var out []string
	for _, h := range d.Hunks {
		out = append(out, h.ID)
	}
	return out
}

func find(t gittest.Failer, d *Diff, id string) int {
	t.Helper()
	i := slices.IndexFunc(d.Hunks, func(h Hunk) bool { return h.ID == id })
	if i < 0 {
		t.Fatalf("no hunk %q among %q", id, ids(d))
	}
	return i
}

func randomSet(rng *rand.Rand, d *Diff) []int {
	var set []int
	for i := range d.Hunks {
		if rng.IntN(2) == 0 {
			set = append(set, i)
		}
	}
	return d.WithRequired(set)
}

// lines numbers n lines of a file, with other words at some of them.
func lines(n int, other map[int]string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if text, ok := other[i]; ok {
			b.WriteString(text)
		} else {
			fmt.Fprintf(&b, "line %d\n", i)
		}
	}
	return b.String()
}

func TestHunksOfEveryKind(t *testing.T) {
	r := gittest.New(t)
	for name, content := range map[string]string{
		"kern.cu": lines(20, nil), "kern.h": "int a;\n", "old/name.cu": lines(12, nil), "gone.cu": "x\ny\n",
		"run.sh": "#!/bin/sh\n", "tool": "a\nb\n", "data.bin": "a\x00b", "crlf.txt": "a\r\nb\r\nc\r\n", "Makefile": "all:\n",
		"weights": "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("a", 64) + "\nsize 1\n",
		"swap":    "a file\n", "fold/x": "1\n", "fold/y": "2\n", "case.cuh": "same\n", "typed": "plain\n", "empty": "",
	} {
		r.Write(t, name, content)
	}
	os.Symlink("kern.cu", filepath.Join(r.Dir, "link"))
	from := r.Commit(t, "from")
	r.Write(t, "kern.cu", lines(20, map[int]string{3: "three\n", 9: "", 20: "line 20\nmore\nno end"}))
	r.Write(t, "kern.h", "int a, b;\n")
	r.Write(t, "new.h", "n\n")
	r.Write(t, "new.cu", "m\nn\n")
	os.RemoveAll(filepath.Join(r.Dir, "old"))
	r.Write(t, "moved/name.cu", lines(12, map[int]string{6: "six\n"}))
	os.Remove(filepath.Join(r.Dir, "gone.cu"))
	os.Chmod(filepath.Join(r.Dir, "run.sh"), 0o777)
	os.Chmod(filepath.Join(r.Dir, "tool"), 0o777)
	r.Write(t, "tool", "a\nB\n")
	r.Write(t, "data.bin", "a\x00c")
	r.Write(t, "weights", "version https://git-lfs.github.com/spec/v1\noid sha256:"+strings.Repeat("b", 64)+"\nsize 2\n")
	r.Write(t, "crlf.txt", "a\r\nb\nc\r\n")
	r.Write(t, "Makefile", "all: x\n")
	os.Remove(filepath.Join(r.Dir, "swap"))
	r.Write(t, "swap/in", "a folder\n")
	os.RemoveAll(filepath.Join(r.Dir, "fold"))
	r.Write(t, "fold", "a file now\n")
	os.Remove(filepath.Join(r.Dir, "case.cuh"))
	r.Write(t, "Case.cuh", "same\n")
	os.Remove(filepath.Join(r.Dir, "typed"))
	os.Symlink("kern.h", filepath.Join(r.Dir, "typed"))
	os.Remove(filepath.Join(r.Dir, "link"))
	os.Symlink("kern.h", filepath.Join(r.Dir, "link"))
	r.Write(t, "empty2", "")
	os.Remove(filepath.Join(r.Dir, "empty"))
	to := r.Commit(t, "to")

	repo := open(t, r.Dir)
	d := hunks(t, repo, from, to)
	want := []string{"added new.h", "renamed Case.cuh", "kern.h:-1,1+1,1", "added empty2", "added new.cu", "Makefile:-1,1+1,1",
		"crlf.txt:-2,1+2,1", "binary data.bin", "deleted fold/x", "deleted fold/y", "added fold", "kern.cu:-3,1+3,1", "kern.cu:-9,1+8,0",
		"kern.cu:-20,0+20,2", "symlink link", "renamed moved/name.cu", "moved/name.cu:-6,1+6,1", "mode run.sh",
		"deleted swap", "added swap/in", "mode tool", "tool:-2,1+2,1", "type typed", "binary weights", "deleted empty", "deleted gone.cu"}
	got := ids(d)
	slices.Sort(got)
	sorted := slices.Sorted(slices.Values(want))
	if !slices.Equal(got, sorted) {
		t.Fatalf("got  %q\nwant %q", got, sorted)
	}
	checkEnds(t, repo, d)
	if got := ids(d)[:3]; !slices.Equal(got, want[:3]) {
		t.Errorf("headers do not come first: %q", ids(d))
	}
	if last := ids(d)[len(d.Hunks)-1]; last != "deleted gone.cu" {
		t.Errorf("deletions do not come last: %q", ids(d))
	}
	requires := map[string][]string{"added fold": {"deleted fold/x", "deleted fold/y"}, "moved/name.cu:-6,1+6,1": {"renamed moved/name.cu"},
		"added swap/in": {"deleted swap"}}
	for _, h := range d.Hunks {
		var needs []string
		for _, k := range h.Requires {
			needs = append(needs, d.Hunks[k].ID)
		}
		if !slices.Equal(needs, requires[h.ID]) {
			t.Errorf("%s requires %q, want %q", h.ID, needs, requires[h.ID])
		}
	}
	if apply(t, d) != from || apply(t, d, everything(d)...) != to {
		t.Error("no hunks or all of them have ids of their own")
	}
	if _, err := d.Apply([]int{find(t, d, "added fold")}); err == nil || !strings.Contains(err.Error(), "without deleted fold/x") {
		t.Errorf("a file in place of a folder: got %v", err)
	}
	if _, err := d.Apply([]int{len(d.Hunks)}); err == nil {
		t.Error("a hunk that is not there was applied")
	}
	// Each hunk alone is what git says has changed.
	for i, h := range d.Hunks {
		id := apply(t, d, d.WithRequired([]int{i})...)
		if c, err := repo.Commit(id); err != nil || !slices.Equal(c.Parents, []string{from}) {
			t.Fatalf("%s: commit %+v, %v", h.ID, c, err)
		}
		changes, err := repo.Changes(t.Context(), from, id)
		if err != nil {
			t.Fatal(err)
		}
		touched := slices.ContainsFunc(changes, func(c source.FileChange) bool { return c.Path == h.File })
		if len(changes) == 0 || !touched {
			t.Errorf("%s alone changes %v", h.ID, changes)
		}
	}
	checkWhere(t, d)
	// All but two, against a commit that git makes.
	r.Write(t, "data.bin", "a\x00b")
	os.Remove(filepath.Join(r.Dir, "empty2"))
	twin := r.Commit(t, "all but two")
	without := []int{find(t, d, "binary data.bin"), find(t, d, "added empty2")}
	most := slices.DeleteFunc(everything(d), func(i int) bool { return slices.Contains(without, i) })
	e := slot(t, repo)
	hop(t, e, from, false)
	hop(t, e, apply(t, d, most...), false)
	gittest.SameListing(t, gittest.Listing(t, e.Dir()), r.Checkout(t, filepath.Join(t.TempDir(), "want"), twin), "all but two")
}

func checkWhere(t *testing.T, d *Diff) {
	t.Helper()
	for id, want := range map[string]string{
		"kern.cu:-3,1+3,1":       "kern.cu 3 3 false -line 3\n+three\n",
		"kern.cu:-9,1+8,0":       "kern.cu 9 9 true -line 9\n",
		"kern.cu:-20,0+20,2":     "kern.cu 20 21 false +more\n+no end\n\\ No newline at end of file\n",
		"added new.cu":           "new.cu 1 2 false +m\n+n\n",
		"deleted gone.cu":        "gone.cu 1 2 true -x\n-y\n",
		"renamed Case.cuh":       "Case.cuh 0 0 false rename from case.cuh\nrename to Case.cuh\n",
		"moved/name.cu:-6,1+6,1": "moved/name.cu 6 6 false -line 6\n+six\n",
		"mode run.sh":            "run.sh 0 0 false old mode 100644\nnew mode 100755\n",
		"crlf.txt:-2,1+2,1":      "crlf.txt 2 2 false -b^M\n+b\n",
		"binary data.bin":        "data.bin 0 0 false binary files differ\n",
		"added empty2":           "empty2 0 0 false ",
		"deleted empty":          "empty 0 0 true ",
	} {
		h := d.Hunks[find(t, d, id)]
		file, start, end, old := h.Where()
		if got := fmt.Sprint(file, " ", start, " ", end, " ", old, " ", h.Text); got != want {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
}

// randomWorktree changes some files of a work tree in every way there is.
func randomWorktree(t gittest.Failer, rng *rand.Rand, r *gittest.Repo) {
	t.Helper()
	root := gittest.OpenRoot(t, r.Dir)
	defer root.Close()
	names := []string{"a.cu", "b.h", "d/a.cu", "d", "A.cu", "d/e/f.py", "Makefile", "s p", "köln.cu", "c", "c/c"}
	for range 2 + rng.IntN(7) {
		name := names[rng.IntN(len(names))]
		data, err := root.ReadFile(name)
		fi, lerr := root.Lstat(name)
		regular := err == nil && lerr == nil && fi.Mode().IsRegular()
		switch rng.IntN(12) {
		case 0:
			root.RemoveAll(name)
			continue
		case 1, 2, 3:
			if regular { // renamed, perhaps with changes
				root.RemoveAll(name)
				to := append(names, "r/1.cu", "r/2.cu", "b.h/in")[rng.IntN(len(names)+3)]
				write(root, to, editText(rng, string(data), rng.IntN(3)), fi.Mode().Perm())
			}
			continue
		case 4:
			if err == nil {
				root.Chmod(name, []os.FileMode{0o666, 0o777}[rng.IntN(2)])
			}
			continue
		case 5, 6:
			root.RemoveAll(name)
			makeParents(root, name)
			root.Symlink(names[rng.IntN(len(names))], name)
			continue
		}
		if !regular {
			data = []byte(randomText(rng, 5+rng.IntN(40), 30))
		}
		write(root, name, editText(rng, string(data), 1+rng.IntN(5)), 0o666)
	}
}

func makeParents(root *os.Root, name string) {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if fi, err := root.Lstat(dir); err == nil && !fi.IsDir() {
			root.Remove(dir)
		}
	}
	root.MkdirAll(filepath.Dir(name), 0o777)
}

func write(root *os.Root, name, text string, perm os.FileMode) {
	makeParents(root, name)
	if fi, err := root.Lstat(name); err == nil && !fi.Mode().IsRegular() {
		root.RemoveAll(name)
	}
	root.WriteFile(name, []byte(text), perm)
}

// gitApplied is the tree that git makes of a patch.
func gitApplied(t gittest.Failer, r *gittest.Repo, from, patch string, args ...string) string {
	t.Helper()
	r.Git(t, "read-tree", from)
	if patch != "" {
		r.Pipe(t, patch, append([]string{"apply", "--cached", "--whitespace=nowarn"}, args...)...)
	}
	return r.Git(t, "write-tree")
}

func TestHunksAgainstGitApply(t *testing.T) {
	dir := t.TempDir()
	kinds := map[Kind]int{}
	for round := range 18 {
		rng := rand.New(rand.NewPCG(uint64(round), 3))
		r := &gittest.Repo{Dir: filepath.Join(dir, fmt.Sprint(round)), Date: 1700000000}
		os.MkdirAll(r.Dir, 0o777)
		r.Git(t, "init", "-q", "-b", "main")
		for range 4 {
			randomWorktree(t, rng, r)
		}
		from := r.Commit(t, "from")
		randomWorktree(t, rng, r)
		to := r.Commit(t, "to")
		repo := open(t, r.Dir)
		d := hunks(t, repo, from, to)
		checkEnds(t, repo, d)
		for n := range 6 {
			if i := 0; n > 2 && len(d.Hunks) > 0 { // mixed granularity
				i = rng.IntN(len(d.Hunks))
				split, parts := d.Split(i)
				if parts == 0 {
					continue
				}
				d = split
				checkOrder(t, d)
				checkEnds(t, repo, d)
			}
			for _, h := range d.Hunks {
				kinds[h.Kind]++
			}
			set := randomSet(rng, d)
			want := composed(t, repo, d, set)
			context, args := 3, []string(nil)
			if n%2 == 0 {
				context, args = 0, []string{"--unidiff-zero"}
			}
			patch, err := d.unified(set, context)
			if err != nil {
				t.Fatal(err)
			}
			if got := gitApplied(t, r, from, patch, args...); got != want {
				t.Fatalf("round %d: git makes %s of\n%s\nwant %s\n%v of %q", round, got, patch, want, set, ids(d))
			}
		}
	}
	t.Logf("%v", kinds)
	for _, kind := range []Kind{Block, Added, Deleted, Renamed, Mode, Symlink, Type} {
		if kinds[kind] == 0 {
			t.Errorf("no hunk of kind %s was tried", kind)
		}
	}
}

// TestExportOfHunks checks that a slot holds exactly what git checks out of
// an equal commit, in whichever order candidates come.
func TestExportOfHunks(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		rng := rand.New(rand.NewPCG(uint64(round), 4))
		r := &gittest.Repo{Dir: filepath.Join(dir, fmt.Sprint(round), "repo"), Date: 1700000000}
		os.MkdirAll(r.Dir, 0o777)
		r.Git(t, "init", "-q", "-b", "main")
		r.Write(t, ".gitattributes", "*.cu text eol=crlf\n")
		for range 4 {
			randomWorktree(t, rng, r)
		}
		from := r.Commit(t, "from")
		r.Write(t, ".gitattributes", "*.cu text\n*.h text eol=crlf\n")
		randomWorktree(t, rng, r)
		to := r.Commit(t, "to")
		if rng.IntN(2) == 0 {
			r.Git(t, "repack", "-adq")
		}
		before := gittest.Snapshot(r.Dir)
		repo := open(t, r.Dir)
		e := slot(t, repo)
		d := hunks(t, repo, from, to)
		var candidates [][]int
		for range 6 {
			candidates = append(candidates, randomSet(rng, d))
		}
		got := map[string]map[string]string{}
		for range 14 {
			set := candidates[rng.IntN(len(candidates))]
			id := apply(t, d, set...)
			hop(t, e, id, rng.IntN(2) == 0)
			now := gittest.Listing(t, e.Dir())
			if old, ok := got[id]; ok {
				gittest.SameListing(t, now, old, "the same hunks again")
			}
			got[id] = now
		}
		if after := gittest.Snapshot(r.Dir); !maps.Equal(before, after) {
			t.Fatal("the repository has changed")
		}
		for _, set := range candidates {
			id := apply(t, d, set...)
			if got[id] == nil {
				continue
			}
			patch, err := d.unified(set, 0)
			if err != nil {
				t.Fatal(err)
			}
			tree := gitApplied(t, r, from, patch, "--unidiff-zero")
			twin := r.CommitTree(t, tree, r.Date, from)
			gittest.SameListing(t, got[id], r.Checkout(t, filepath.Join(dir, fmt.Sprint(round), "want"), twin), fmt.Sprint("hunks ", set))
			sameKeys(t, repo, id, twin)
		}
	}
}

// sameKeys verifies that a composed commit and a real one with the same files
// have the same fingerprints.
func sameKeys(t *testing.T, repo *source.Repo, a, b string) {
	t.Helper()
	for _, paths := range [][]string{nil, {"d"}, {"a.cu", "d/e"}, {"absent"}} {
		x, err := repo.Key(a, paths)
		if err != nil {
			t.Fatal(err)
		}
		y, err := repo.Key(b, paths)
		if err != nil || x != y {
			t.Fatalf("paths %v: keys %s and %s, %v", paths, x, y, err)
		}
	}
}
