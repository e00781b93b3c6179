package pipeline

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// hangers are the same program in C, Python and shell, as commands.
func hangers(t *testing.T) map[string]string {
	t.Helper()
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	c := filepath.Join(t.TempDir(), "hang")
	if out, err := exec.Command("cc", "-o", c, filepath.Join(data, "hang.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := map[string]string{"c": c, "sh": "sh " + filepath.Join(data, "hang.sh")}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("NOT TESTED: hangs in Python, as there is no python3 here")
	} else {
		all["python"] = python + " " + filepath.Join(data, "hang.py")
	}
	return all
}

// A hang is killed at the limit of its phase, whatever it is written in and whatever it left behind;
// the phase named is right, nothing is left, and the next candidate is unaffected.
func TestHangInEveryPhase(t *testing.T) {
	for lang, command := range hangers(t) {
		for _, orphans := range []string{"", " orphans"} {
			t.Run(lang+orphans, func(t *testing.T) {
				t.Parallel()
				phases := []string{"build", "load", "teardown"}
				if lang+orphans == "c" {
					phases = []string{"build", "load", "warmup", "capture", "check", "measure", "teardown"}
				}
				hangEverywhere(t, command, orphans, phases)
			})
		}
	}
}

func hangEverywhere(t *testing.T, command, orphans string, phases []string) {
	body := func(build, run string) []fixtures.Change {
		return []fixtures.Change{fixtures.Script("build.sh", "#!/bin/sh\n"+build+"\n"), fixtures.Script("run.sh", "#!/bin/sh\nexec "+run+"\n")}
	}
	commits := [][]fixtures.Change{body(":", command)}
	for _, phase := range phases {
		if phase == "build" {
			commits = append(commits, body("KBISECT_FD=2 exec "+command+" load"+orphans, command))
		} else {
			commits = append(commits, body(":", command+" "+phase+orphans))
		}
	}
	const limit = 1500 * time.Millisecond // of the phase that hangs; the others may take what a busy machine needs
	tight := func(phase string) trial.Limits {
		l := trial.Limits{Build: time.Minute, Run: 2 * time.Minute, Phases: map[string]kernels.Limit{phase: {Abs: limit}}}
		if phase == "build" {
			l.Build = limit
		}
		return l
	}
	b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, tight(""), commits...)
	if o := b.test(0, bisect.EndGood); o.Class != bisect.OK {
		t.Fatal(o.Describe())
	}
	for i, phase := range phases {
		b.Config.Limits = tight(phase)
		o := b.test(i+1, bisect.Searching)
		if o.Class != bisect.Timeout || o.Phase != phase || o.Whole {
			t.Errorf("hang in %s: %s", phase, o.Describe())
		}
		for _, p := range o.Phases {
			if p.Name == phase && p.Seconds < limit.Seconds() {
				t.Errorf("hang in %s: killed after %v s", phase, p.Seconds)
			}
		}
		nothingLeft(t, b)
		b.Config.Limits = tight("")
		if o := b.test(0, bisect.Searching); o.Class != bisect.OK {
			t.Errorf("the candidate after a hang in %s: %s", phase, o.Describe())
		}
	}
}

// nothingLeft looks for processes, locks and temporary files of the trials of a bench.
func nothingLeft(t *testing.T, b *bench) {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environs {
		data, _ := os.ReadFile(path)
		if strings.Contains(string(data), "KBISECT_COOKIE="+b.Config.Session) {
			comm, _ := os.ReadFile(filepath.Dir(path) + "/cmdline")
			t.Errorf("%s (%q) is still there", filepath.Dir(path), comm)
		}
	}
	for _, pattern := range []string{"*/tmp/*", "*/caches/*"} {
		if found, _ := filepath.Glob(filepath.Join(b.Config.Dir, pattern)); len(found) > 0 {
			t.Errorf("left behind: %q", found)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err == nil && strings.Contains(string(mounts), b.home) {
		t.Errorf("a mount below %s is left", b.home)
	}
}
