package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/search"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
)

func TestOfKernel(t *testing.T) {
	for _, c := range []struct {
		name  string
		paths []string
		want  bool
	}{
		{"kernels/gemm.cu", nil, true}, {"a/b/op.py", nil, true}, {"README.md", nil, false}, {"Makefile", nil, false},
		{"LICENSE", nil, false}, {"docs/x.rst", nil, false},
		{"kernels/gemm.cu", []string{"kernels/"}, true}, {"kernels2/gemm.cu", []string{"kernels"}, false},
		{"tools/x.py", []string{"kernels", "bench.py"}, false}, {"bench.py", []string{"bench.py"}, true},
		{"kernels/Makefile", []string{"kernels"}, true}, {"Makefile", []string{"kernels"}, false},
		{"Makefile", []string{"."}, true}, {"kernels/notes.md", []string{"kernels"}, false},
	} {
		if got := search.OfKernel(c.name, c.paths); got != c.want {
			t.Errorf("%s in %v: %v", c.name, c.paths, got)
		}
	}
}

// Commits that change a kernel weigh more, and nothing is said of commits that all do.
func TestWeights(t *testing.T) {
	r := newRepo(t)
	commit := func(file string) {
		if err := os.WriteFile(filepath.Join(r.dir, file), []byte(file+r.git("rev-list", "--all")), 0o666); err != nil {
			t.Fatal(err)
		}
		r.git("add", "-A")
		r.git("commit", "-qm", file)
	}
	for _, f := range []string{"README.md", "gemm.cu", "README.md", "gemm.cu", "notes.txt"} {
		commit(f)
	}
	repo, err := source.Open(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	var said bytes.Buffer
	weights := func(good, bad string) []float64 {
		rng, err := repo.Range(t.Context(), good, bad, source.RangeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		commits, _ := search.ToCommits(rng, false)
		j := &session.Session{Repo: repo, Policy: &policy.Policy{}, Display: progress.New(&said, false, true)}
		return search.Of(j).Weights(commits)
	}
	if got := weights("HEAD~4", "HEAD"); !slices.Equal(got, []float64{20, 1, 20, 1}) {
		t.Errorf("%v", got)
	}
	if !strings.Contains(said.String(), "2 commits change files of the kernels and are suspected 20 times as much as the 2 others") {
		t.Errorf("said %q", said.String())
	}
	if got := weights("HEAD~4", "HEAD~3"); got != nil {
		t.Errorf("a range that holds nothing else: %v", got)
	}
}
