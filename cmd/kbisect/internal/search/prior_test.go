package search

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// gitIn runs git in a folder and returns what it prints.
func gitIn(t *testing.T, dir string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
}

func TestKernelSources(t *testing.T) {
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
		{"Makefile", []string{"."}, true}, {"rules.mk", []string{"."}, true}, {"kernels/notes.md", []string{"kernels"}, false},
	} {
		if got := isKernelSource(c.name, c.paths, kernels.Plan{BuildFiles: []string{"*.mk"}}); got != c.want {
			t.Errorf("%s in %v: %v", c.name, c.paths, got)
		}
	}
}

// Commits that change a kernel weigh more, unless all commits of the range do.
func TestPriors(t *testing.T) {
	dir := t.TempDir()
	git := gitIn(t, dir)
	git("init", "-q")
	commit := func(file string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(file+git("rev-list", "--all")), 0o666); err != nil {
			t.Fatal(err)
		}
		git("add", "-A")
		git("commit", "-qm", file)
	}
	for _, f := range []string{"README.md", "gemm.cu", "README.md", "gemm.cu", "notes.txt"} {
		commit(f)
	}
	repo, err := source.Open(dir)
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
		commits, _ := toCommits(rng, false)
		s := &session.Session{Repo: repo, Policy: &policy.Policy{}, Display: progress.New(&said, false, true)}
		return priors(t.Context(), s, commits)
	}
	if got := weights("HEAD~4", "HEAD"); !slices.Equal(got, []float64{20, 1, 20, 1}) {
		t.Errorf("%v", got)
	}
	if !strings.Contains(said.String(), "2 commits change kernel sources: 20 times the prior weight of the other 2") {
		t.Errorf("said %q", said.String())
	}
	if got := weights("HEAD~4", "HEAD~3"); got != nil {
		t.Errorf("a range that holds nothing else: %v", got)
	}
}
