package session

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// Warnings of a run follow those of the configuration and leave the policy as it was made; of launches of one commit
// that differ in a count only, the first is listed.
func TestWarningsBelongToTheSession(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	repo, err := source.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	s := &Session{Repo: repo, Policy: &policy.Policy{Warnings: []string{"configured"}}}
	for _, w := range []string{"3 lines were not understood", "4 lines were not understood", "another"} {
		s.Launches = append(s.Launches, report.Launch{Candidate: bisect.Candidate{Commit: "abc"}, Outcome: bisect.Outcome{Warnings: []string{w}}})
	}
	s.Warn("first", "second")
	s.Warn()
	want := []string{"configured", "first", "second", "commit abc: 3 lines were not understood", "commit abc: another"}
	if got := s.LaunchWarnings(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := s.Policy.Warnings; !slices.Equal(got, []string{"configured"}) {
		t.Errorf("the policy has changed: %q", got)
	}
}

// A command that no launch could run is an error of the user; one launch that ran it is enough to go on.
func TestCommandNotFound(t *testing.T) {
	r := gittest.New(t)
	r.Commit(t, "one")
	repo, err := source.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	launch := func(exit int, tail string) report.Launch {
		return report.Launch{Outcome: bisect.Outcome{Class: bisect.Wrong, Phase: "run", Exit: exit, Tail: tail}}
	}
	for name, c := range map[string]struct {
		launches []report.Launch
		want     string
	}{
		"no launch":       {nil, ""},
		"not found":       {[]report.Launch{launch(127, ""), launch(127, "")}, "the command cannot be run at HEAD"},
		"not executable":  {[]report.Launch{launch(126, "")}, "exit 126: not executable"},
		"one that ran":    {[]report.Launch{launch(127, ""), launch(1, "")}, ""},
		"glibc's message": {[]report.Launch{launch(127, "./x: error while loading shared libraries: libcublas.so.11: cannot open")}, "does not find libcublas.so.11"},
		"musl's message":  {[]report.Launch{launch(127, "Error loading shared library libfoo.so: No such file")}, "does not find libfoo.so"},
	} {
		err := NotFound(&Session{Repo: repo, Policy: &policy.Policy{}, Launches: c.launches}, "at HEAD")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Examples come from the ends, and there are none where the failure is a build that takes too long.
func TestExamples(t *testing.T) {
	good := report.Launch{Purpose: bisect.EndGood, Outcome: bisect.Outcome{Class: bisect.OK, Wall: 1}}
	bad := report.Launch{Purpose: bisect.EndBad, Outcome: bisect.Outcome{Class: bisect.Wrong, Phase: "run", Wall: 2}}
	searched, slowBuild, skipped := bad, bad, bad
	searched.Purpose = bisect.Searching
	slowBuild.Outcome.Class, slowBuild.Outcome.Phase = bisect.Timeout, "build"
	skipped.Outcome.Class = bisect.Skip
	for name, c := range map[string]struct {
		launches []report.Launch
		want     bool
	}{
		"both ends": {[]report.Launch{good, bad}, true}, "one end": {[]report.Launch{good}, false}, "not an end": {[]report.Launch{good, searched}, false},
		"build time-out": {[]report.Launch{good, slowBuild}, false}, "skipped": {[]report.Launch{good, skipped}, false},
	} {
		pass, fail, ok := Examples(c.launches)
		if ok != c.want || ok && (pass.Wall != 1 || fail.Wall != 2) {
			t.Errorf("%s: %v, %+v, %+v", name, ok, pass, fail)
		}
	}
}
