package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// TestRenamesAreFollowed: each commit is tried with the file that it had under the name of then.
func TestRenamesAreFollowed(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("line\n", 9)
	for name, c := range map[string]struct {
		steps []string // "+name" adds a file, "-name" removes it, "a>b" renames, else one is changed
		want  []string // the names, by commit
	}{
		"once":              {[]string{"+a", "a>b", "b"}, []string{"a", "b", "b"}},
		"there and back":    {[]string{"+b", "b>a", "a", "a>b", "b"}, []string{"b", "a", "a", "b", "b"}},
		"a name of another": {[]string{"+a", "+b", "a", "-b", "a>b"}, []string{"a", "a", "a", "a", "b"}},
		"a stub stays":      {[]string{"+a", "a>b", "+a", "b"}, []string{"a", "b", "b", "b"}},
		"three":             {[]string{"+a", "a>c", "c>b"}, []string{"a", "c", "b"}},
	} {
		r := gittest.New(t)
		var ids []string
		for i, step := range slices.Concat([]string{"+root"}, c.steps) {
			from, to, renamed := strings.Cut(step, ">")
			switch {
			case renamed:
				r.Git(t, "mv", from, to)
			case step[0] == '-':
				r.Git(t, "rm", "-q", step[1:])
			default:
				old, _ := os.ReadFile(filepath.Join(r.Dir, strings.TrimPrefix(step, "+")))
				r.Write(t, strings.TrimPrefix(step, "+"), body+strings.TrimPrefix(string(old), body)+fmt.Sprintln(i))
			}
			ids = append(ids, r.Commit(t, step))
		}
		repo, err := source.Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		p := &Policy{Good: ids[0], Bad: ids[len(ids)-1], Needs: []string{"./b"}, Paths: []string{"b"}}
		if err := EndsOf(p, repo).FollowRenames(t.Context()); err != nil || len(p.Plan.Files) != 1 {
			t.Fatalf("%s: %v, %v", name, p.Plan.Files, err)
		}
		var got []string
		for _, id := range ids[1:] {
			plan := p.Plan.At(func(commit string) bool {
				before, err := repo.IsAncestor(t.Context(), commit, id)
				return err == nil && before
			})
			got = append(got, plan.Files[0].Source)
		}
		if !slices.Equal(got, c.want) || !slices.Equal(p.Paths[1:], p.Former) {
			t.Errorf("%s: %q, paths %q", name, got, p.Paths)
		}
	}
}

// A source that stands in for that of another folder finds the headers beside it.
func TestRenamedSourceIncludesFromWhereItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "src"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "src", "k.cu"), []byte("#include \"k.h\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	plan := kernels.Plan{Files: []kernels.File{{Name: "gpu/gemm.cu", Source: "gpu/gemm.cu", Formerly: []kernels.Former{{Path: "src/k.cu", Renamed: "x"}}}}}
	if err := plan.At(func(string) bool { return false }).Write(dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "gpu/gemm.cu")); string(text) != "#include \"../src/k.cu\"\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
