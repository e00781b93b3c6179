package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// earlyBench is a benchmark that times itself. It notes what it was started with, and whether what it imports had been
// imported before it began.
const earlyBench = `import sys
early = "installed" in sys.modules
import os
import installed
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
commit = os.environ["KBISECT_COMMIT"]
with open(os.environ["NOTES"], "a") as f:
    left = [n for n in os.environ if n in ("KBISECT_GATE", "KBISECT_EARLY_MODULES", "KBISECT_EARLY_READY")]
    print(early, os.environ["KBISECT_PURPOSE"], commit, open("id").read().strip(), sys.argv[0], sys.argv[1], sys.path[0] == os.getcwd(), early and (left or ":" in os.environ["PYTHONPATH"]), file=f)
out.write("phase: measure\n")
for i in range(5):
    out.write("sample: %f us\n" % (installed.factor() * (1 + 0.001 * i + 0.0005 * (os.getpid() % 7)) * float(open("us").read())))
out.write("phase: teardown\n")
if len(sys.argv) > 2 and early and commit == sys.argv[2]:
    sys.exit(1)
`

// installed writes modules outside of the repository: many, so that it pays to import them before the turn of a process.
func installed(t *testing.T, text string) (dir string) {
	dir = t.TempDir()
	init := text
	for i := range 220 {
		name := fmt.Sprintf("m%d", i)
		if err := os.MkdirAll(filepath.Join(dir, "installed"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "installed", name+".py"), []byte("x = 1\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		init += "from . import " + name + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "installed", "__init__.py"), []byte(init+"def factor(): return 1.0\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Interpreters are started before their turn, which changes nothing but the time that it takes: each launch has its own
// commit, and what proves the answer was started as ever. Whatever goes wrong with one of them accuses nobody.
func TestInterpretersStartEarly(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	for _, x := range []struct {
		name   string
		module string                                   // more of what is installed
		change func(i int, put func(name, text string)) // more of commit i
		args   []string
		toml   string
		early  string // whether launches of the search are started early: some, none, or as it happens, ""
	}{
		{name: "as it should be", module: "import sys\nclass Odd:\n    def __getattr__(self, name): raise RuntimeError(name)\nsys.modules['odd'] = Odd()\n", early: "some"},
		{name: "switched off", toml: "ahead = false\n", early: "none"},
		{name: "one that never gets ready", module: "import sys, time\nif not hasattr(sys.modules['__main__'], '__file__'): time.sleep(1000)\n", early: "none"},
		{name: "one that dies", module: "import os, sys\nif not hasattr(sys.modules['__main__'], '__file__'): os._exit(7)\n", early: "none"},
		{name: "one that is killed while it waits", module: "import os, sys, threading, signal\nif not hasattr(sys.modules['__main__'], '__file__'): threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"},
		{name: "a module of the repository in its place", change: func(i int, put func(name, text string)) {
			if i >= 9 { // which is the culprit
				put("installed.py", "def factor(): return 1.5\n")
			}
		}},
		{name: "it fails early only", args: []string{"fails"}, early: "some"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			var commits []string
			for i := range 16 {
				us := "100"
				if i >= 9 && x.change == nil {
					us = "140"
				}
				r.put(map[string]string{"bench.py": earlyBench, "us": us, "id": fmt.Sprint(i)})
				if x.change != nil {
					x.change(i, func(name, text string) { r.put(map[string]string{name: text}) })
				}
				r.git("add", ".")
				r.git("commit", "-qm", fmt.Sprint("change ", i))
				commits = append(commits, strings.TrimSpace(r.git("rev-parse", "HEAD")))
			}
			notes := filepath.Join(t.TempDir(), "notes")
			command := `["python3", "bench.py", "first"]`
			if x.args != nil {
				command = fmt.Sprintf(`["python3", "bench.py", "first", %q]`, commits[9])
			}
			r.put(map[string]string{"kbisect.toml": "version = 1\n[run]\ncommand = " + command + "\n" + x.toml + "[metric]\nname = \"time\"\nunit = \"us\"\nbetter = \"lower\"\n"})
			cmd := r.command("run", "--good", commits[0], "--bad", commits[15], "--json", "--no-hunks", "--no-explain", "--no-learn")
			cmd.Env = append(cmd.Env, "PYTHONPATH="+installed(t, x.module), "NOTES="+notes)
			out, err := cmd.Output()
			if cmd.ProcessState.ExitCode() != exit.OK || !strings.Contains(string(out), `"commit": "`+commits[9]) {
				t.Fatalf("%v: %s", err, out)
			}
			text, err := os.ReadFile(notes)
			if err != nil {
				t.Fatal(err)
			}
			early := 0
			for line := range strings.Lines(string(text)) {
				f := strings.Fields(line)
				var i int
				fmt.Sscan(f[3], &i)
				if f[2] != commits[i] || strings.Join(f[4:], " ") != "bench.py first True False" {
					t.Errorf("launched with %s", line)
				}
				if f[0] == "True" {
					early++
					if strings.HasPrefix(f[1], "confirm") || x.change != nil && i >= 9 {
						t.Errorf("it was started early: %s", line)
					}
				}
			}
			if x.early == "some" && early < 3 || x.early == "none" && early > 0 {
				t.Errorf("%d launches were started early:\n%s", early, text)
			}
		})
	}
}
