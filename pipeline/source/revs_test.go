package source

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
)

// grown is a random history of which every tree is changed a little: files are written, removed, moved, made executable
// and replaced by links and folders.
func grown(t *testing.T, r *gittest.Repo, rng *rand.Rand, n int) (ids []string) {
	t.Helper()
	names := []string{"a", "b.cu", "k/a.cu", "k/sub/h", "k-2", "ü ä", "doc/x", "k/sub.h"}
	for i := range n {
		for range 1 + rng.IntN(3) {
			name := names[rng.IntN(len(names))]
			r.Git(t, "rm", "-q", "-r", "-f", "--ignore-unmatch", "--cached", "--", name)
			blob := r.Pipe(t, fmt.Sprint(rng.IntN(4)), "hash-object", "-w", "--stdin")
			if mode := []string{"100644", "100644", "100755", "120000", ""}[rng.IntN(5)]; mode != "" {
				r.Git(t, "update-index", "--add", "--replace", "--cacheinfo", mode+","+blob+","+name)
			}
		}
		var parents []string
		for range 1 + rng.IntN(5)/4 {
			if i > 0 {
				if p := ids[max(0, i-1-rng.IntN(4))]; !slices.Contains(parents, p) {
					parents = append(parents, p)
				}
			}
		}
		ids = append(ids, r.CommitTree(t, r.Git(t, "write-tree"), 1600000000+int64(i*60), parents...))
		r.Git(t, "tag", fmt.Sprintf("t%d", i), ids[i])
	}
	r.Git(t, "update-ref", "refs/heads/main", ids[n-1])
	return ids
}

// objectFormats are the repositories that random histories are made in: the last one is read by the git program.
func objectFormats() []string {
	return []string{"--object-format=sha1", "--object-format=sha1", "--object-format=sha256"}
}

// TestRevisionsEqualGit follows random chains of ^, ~ and ^{…} from random names, and asks which commits come before
// which, as git does.
func TestRevisionsEqualGit(t *testing.T) {
	for seed, init := range objectFormats() {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		r := gittest.New(t, init)
		ids := grown(t, r, rng, 14)
		repo := open(t, r.Dir)
		for range 60 {
			rev := []string{"HEAD", "main", "@", ids[rng.IntN(len(ids))], ids[rng.IntN(len(ids))][:8], fmt.Sprintf("t%d", rng.IntN(len(ids))), fmt.Sprintf("tags/t%d", rng.IntN(len(ids)))}[rng.IntN(7)]
			for range rng.IntN(4) {
				rev += []string{"^", "^2", "~", "~2", "~3", "^0", "^{}", "^{commit}", "^{/at}"}[rng.IntN(9)]
			}
			want, wrong := r.Try("", "rev-parse", "--verify", "--quiet", rev+"^{commit}")
			if got, err := repo.Resolve(t.Context(), rev); (err == nil) != (wrong == nil) || got != want {
				t.Errorf("seed %d: %s: %q, %v; git says %q, %v", seed, rev, got, err, want, wrong)
			}
		}
		for range 40 {
			a, b := ids[rng.IntN(len(ids))], ids[rng.IntN(len(ids))]
			_, no := r.Try("", "merge-base", "--is-ancestor", a, b)
			if got, err := repo.IsAncestor(t.Context(), a, b); err != nil || got != (no == nil) {
				t.Errorf("seed %d: %s before %s: %v, %v", seed, a, b, got, err)
			}
			bases, _ := r.Try("", "merge-base", "--all", a, b) // fails where there is none
			if got, err := repo.MergeBases(t.Context(), a, b); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(strings.FieldsSeq(bases))) {
				t.Errorf("seed %d: the merge bases of %s and %s: %q, %v; git says %q", seed, a, b, got, err, bases)
			}
		}
	}
}

// TestTreesEqualGit compares what is in a commit, what it changes, and which commits are equal below some paths.
func TestTreesEqualGit(t *testing.T) {
	for seed, init := range objectFormats() {
		rng := rand.New(rand.NewPCG(uint64(seed), 8))
		r := gittest.New(t, init)
		ids := grown(t, r, rng, 12)
		repo := open(t, r.Dir)
		for _, id := range ids {
			parent := r.Git(t, "rev-list", "--parents", "-1", id)
			base := r.Pipe(t, "", "mktree") // empty
			if p := strings.Fields(parent); len(p) > 1 {
				base = p[1]
			}
			var want []string
			for line := range strings.SplitSeq(r.Git(t, "-c", "core.quotePath=false", "diff-tree", "-r", "--no-renames", "--name-status", "-z", base, id), "\x00") {
				want = append(want, line)
			}
			gone := map[string]string{} // by path: what git calls the change
			for i := 0; i+1 < len(want); i += 2 {
				gone[want[i+1]] = want[i]
			}
			got, err := repo.ChangedFiles(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]string{}
			for _, c := range got {
				switch c.Kind {
				case "added":
					seen[c.Path] = "A"
				case "deleted":
					seen[c.Path] = "D"
				case "renamed":
					seen[c.Path], seen[c.OldPath] = "A", "D"
				case "modified", "mode", "type":
					seen[c.Path] = "M"
				default:
					t.Errorf("unknown kind %q", c.Kind)
				}
			}
			for path, kind := range gone {
				if kind == "T" {
					gone[path] = "M"
				}
			}
			if fmt.Sprint(seen) != fmt.Sprint(gone) {
				t.Errorf("seed %d: %s changes %v; git says %v", seed, id, got, gone)
			}
		}
		for range 40 {
			a, b := ids[rng.IntN(len(ids))], ids[rng.IntN(len(ids))]
			paths := [][]string{nil, {"k"}, {"k/"}, {"a"}, {"k/sub"}, {"k-2", "doc/"}, {"nosuch"}, {"ü ä"}, {"."}}[rng.IntN(9)]
			x, err := repo.Key(a, paths)
			y, err2 := repo.Key(b, paths)
			args := append([]string{"diff", "--quiet", a, b, "--"}, paths...)
			_, differ := r.Try("", args...)
			if err != nil || err2 != nil || (x == y) != (differ == nil) {
				t.Errorf("seed %d: %s and %s equal at %q: %v (%v, %v); git says %v", seed, a, b, paths, x == y, err, err2, differ == nil)
			}
			name := []string{"a", "k/a.cu", "k", "k/sub/h", "ü ä", "doc/x", "nosuch/x", "a/b"}[rng.IntN(8)]
			_, lacks := r.Try("", "rev-parse", "--verify", "--quiet", a+":"+name)
			if has, err := repo.Has(a, name); err != nil || has != (lacks == nil) {
				t.Errorf("seed %d: %s has %q: %v, %v; git says %v", seed, a, name, has, err, lacks == nil)
			}
			if mode := r.Git(t, "ls-tree", "-z", a, "--", name); strings.HasPrefix(mode, "100") {
				data, found, err := repo.File(a, name)
				if want := r.Git(t, "cat-file", "blob", a+":"+name); err != nil || !found || string(data) != want {
					t.Errorf("seed %d: %s of %s: %q, %v, %v, want %q", seed, name, a, data, found, err, want)
				}
			}
		}
	}
}

// Without git, what only git understands is not said to be missing.
func TestRevisionsWithoutGit(t *testing.T) {
	r := gittest.New(t)
	first := r.Commit(t, "one")
	r.Commit(t, "two")
	t.Setenv("PATH", t.TempDir())
	repo := open(t, r.Dir)
	if id, err := repo.Resolve(t.Context(), first); id != first || err != nil {
		t.Errorf("%s %v", id, err)
	}
	if _, err := repo.Resolve(t.Context(), "HEAD~1"); err == nil || !strings.Contains(err.Error(), "the git program is needed") {
		t.Errorf("%v", err)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a> 1 +0000\n\nx"), "[")
	f.Add([]byte("author > 1 +9999"), "d/e")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		describe(&commits.Node{}, data)
		splitRev(text)
	})
}
