package kernels

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/fixtures/realpython"
)

func TestMain(m *testing.M) {
	realpython.Use()
	os.Exit(m.Run())
}

func TestPlans(t *testing.T) {
	no := false
	for _, c := range []struct {
		p    Project
		want Plan
		err  string
	}{
		{Project{Run: []string{"./t"}}, Plan{Kind: "command", Run: []string{"./t"}}, ""},
		{Project{Kind: "make", Run: []string{"./t"}, Incremental: &no}, Plan{Kind: "make", Build: []string{"make"}, Run: []string{"./t"}, Whole: true}, ""},
		{Project{Kind: "nvcc", Run: []string{"./t"}}, Plan{}, "hint: set [build] sources"},
		{Project{Kind: "gmake", Run: []string{"./t"}}, Plan{}, "use one of command, nvcc, make, cmake, torch, kernelbot"},
		{Project{Kind: "make"}, Plan{}, "nothing to run"},
	} {
		got, err := NewPlan(c.p)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: error %v, want %q", c.p, err, c.err)
			}
			continue
		}
		got.BuildFiles = nil
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%+v: %v %s", c.p, err, d)
		}
	}
}

// Where all metrics are those of a build, a project without a run command is one; the kind's own run is left out.
func TestPlanOfStaticMetrics(t *testing.T) {
	for _, c := range []struct {
		project Project
		runs    int
		fails   bool
	}{
		{Project{Kind: "nvcc", Sources: []string{"a.cu"}, Static: true}, 0, false},
		{Project{Kind: "nvcc", Sources: []string{"a.cu"}, Static: true, Run: []string{"./a"}}, 1, false},
		{Project{Kind: "nvcc", Sources: []string{"a.cu"}}, 1, false},
		{Project{Kind: "make", Static: true}, 0, false},
		{Project{Kind: "make"}, 0, true},
		{Project{Kind: "command", Static: true}, 0, true}, // nothing to build
	} {
		plan, err := NewPlan(c.project)
		if (err != nil) != c.fails || len(plan.Run) != c.runs {
			t.Errorf("%+v: %v, run %q", c.project, err, plan.Run)
		}
	}
}

// Every kind has a name of its own, and what it needs is said with a hint or planned.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k.Name] {
			t.Errorf("two kinds are called %s", k.Name)
		}
		seen[k.Name] = true
		plan, err := NewPlan(Project{Kind: k.Name, Run: []string{"./t"}})
		if err == nil {
			if plan.Kind != k.Name {
				t.Errorf("%s: plan of kind %q", k.Name, plan.Kind)
			}
			continue
		}
		if _, what := hint.Split(err); what == "" {
			t.Errorf("%s: error without a hint: %v", k.Name, err)
		}
	}
}

// What a candidate leaves in place of a folder does not direct the files of the plan into the user's.
func TestWriteStaysInside(t *testing.T) {
	root, home := t.TempDir(), t.TempDir()
	mine := filepath.Join(home, "judge.py")
	if err := errors.Join(os.WriteFile(mine, []byte("mine"), 0o644), os.Symlink(home, filepath.Join(root, "sub")), os.Symlink("real", filepath.Join(root, "link")), os.Mkdir(filepath.Join(root, "real"), 0o755)); err != nil {
		t.Fatal(err)
	}
	plan := Plan{Files: []File{{Name: "sub/judge.py", Text: "judge"}, {Name: "sub/deep/er.py", Text: "judge"}, {Name: "link/judge.py", Text: "judge"}}}
	if err := plan.Write(root); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{mine: "mine", root + "/sub/judge.py": "judge", root + "/real/judge.py": "judge"} {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "deep")); err == nil {
		t.Error("a folder was made in home")
	}
}
