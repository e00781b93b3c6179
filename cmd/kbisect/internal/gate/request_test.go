package gate

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
)

// TestAcceptIsForPeople: --accept needs a reason, a work tree, and somebody to commit the file.
func TestAcceptIsForPeople(t *testing.T) {
	r := gittest.New(t)
	r.Commit(t, "first")
	bare := filepath.Join(t.TempDir(), "bare.git")
	r.Git(t, "clone", "-q", "--bare", ".", bare)
	for _, x := range []struct {
		dir, reason, env string
		accepts          bool
		want             string
	}{
		{dir: r.Dir}, {dir: bare}, {dir: r.Dir, reason: "needed", accepts: true}, {dir: r.Dir, reason: "needed", accepts: true, env: "CI=false"},
		{dir: r.Dir, accepts: true, want: "--accept needs a reason"},
		{dir: bare, reason: "needed", accepts: true, want: "this repository is bare"},
		{dir: r.Dir, reason: "needed", accepts: true, env: "GITLAB_CI=true", want: "(GITLAB_CI is set)"},
		{dir: r.Dir, env: "CI=true"},
	} {
		repo, err := source.Open(x.dir)
		if err != nil {
			t.Fatal(err)
		}
		name, value, _ := strings.Cut(x.env, "=")
		env := func(v string) string {
			if v == name {
				return value
			}
			return ""
		}
		err = (&request{reason: x.reason}).checkAccept(Options{Accepts: x.accepts, Env: env}, repo)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x, err)
		}
		repo.Close()
	}
}

func TestFilesAreCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	for _, x := range []struct {
		files Files
		want  string
	}{
		{Files{}, ""}, {Files{JUnit: filepath.Join(dir, "x.xml"), SARIF: "log.sarif"}, ""},
		{Files{SARIF: filepath.Join(dir, "no", "x")}, "does not exist"}, {Files{HTML: dir}, "--report " + dir + " is a folder"},
		{Files{JUnit: filepath.Join(dir, "no", "x")}, "--junit"}, {Files{Markdown: dir}, "--markdown"},
	} {
		if err := x.files.check(); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x.files, err)
		}
	}
	if err := appendTo(filepath.Join(dir, "no", "x"), "text"); err == nil {
		t.Error("appended to a file in a folder that does not exist")
	}
}

// TestWhyOfFailures: what is said where numbers did not decide.
func TestWhyOfFailures(t *testing.T) {
	side := func(launches, failed int, class bisect.Class) compare.Side {
		s := compare.Side{Launches: launches, Failed: failed}
		if failed > 0 {
			s.Failure = &bisect.Outcome{Class: class, Why: "exit 7"}
		}
		return s
	}
	for want, x := range map[string]compare.Result{
		"numbers decide": {Why: "numbers decide", Answer: compare.Worse},
		"HEAD fails in 2 of 2 launches, the merge base in 0 of 2 launches: wrong: exit 7": {ByClass: true, Answer: compare.Worse, Sides: [2]compare.Side{side(2, 0, ""), side(2, 2, bisect.Wrong)}},
		"too few": {ByClass: true, Answer: compare.Open, Why: "too few", Sides: [2]compare.Side{side(6, 0, ""), side(6, 1, bisect.Crash)}},
		"HEAD fails in the same way as the merge base: crash: exit 7":              {ByClass: true, Answer: compare.Open, Sides: [2]compare.Side{side(2, 2, bisect.Crash), side(2, 2, bisect.Crash)}},
		"the merge base fails, so there is nothing to compare with: crash: exit 7": {ByClass: true, Answer: compare.Open, Sides: [2]compare.Side{side(2, 2, bisect.Crash), side(2, 0, "")}},
		"HEAD cannot be tested: skip: exit 7":                                      {ByClass: true, Answer: compare.Open, Sides: [2]compare.Side{side(2, 0, ""), side(2, 2, bisect.Skip)}},
	} {
		if got := why(x); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestHunkPlaces: the largest change first, as lines of HEAD.
func TestHunkPlaces(t *testing.T) {
	got := hunkPlaces([]hunks.Hunk{
		{File: "a.c", Kind: hunks.Block, OldStart: 4, OldLines: 1, NewStart: 4, NewLines: 1},
		{File: "b.c", Kind: hunks.Block, OldStart: 1, OldLines: 0, NewStart: 2, NewLines: 9},
		{File: "c.c", Kind: hunks.Block, OldStart: 1, OldLines: 3, NewStart: 0, NewLines: 0}, // only removed
		{File: "d.c", Kind: hunks.Deleted, OldLines: 100},
	})
	want := []report.Place{{File: "b.c", Start: 2, End: 10}, {File: "c.c", Start: 1, End: 1}, {File: "a.c", Start: 4, End: 4}}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
}
