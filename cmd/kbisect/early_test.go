package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// earlyBench is a benchmark that times itself. It notes what it was started with, and whether what it imports had been
// imported before it began.
const earlyBench = `import sys
import os
import time
import before
import installed
import more
early = getattr(installed, "early", False)
late = "second" in sys.modules and sys.modules["second"].early
time.sleep(0.3)  # it works while others import
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
commit = os.environ["KBISECT_COMMIT"]
with open(os.environ["NOTES"], "a") as f:
    left = [n for n in os.environ if n in ("KBISECT_GATE", "KBISECT_EARLY_MODULES", "KBISECT_EARLY_READY")]
    print(early, os.environ["KBISECT_PURPOSE"], commit, int(open("n").read()) - 1, sys.argv[0], sys.argv[1], sys.path[0] == os.getcwd(), early and (left or ":" in os.environ["PYTHONPATH"]), late, file=f)
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
	const early = "import sys\nearly = not hasattr(sys.modules['__main__'], '__file__')\n"
	init := early + text
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
	for name, text := range map[string]string{"installed/__init__.py": init + "import os\ndef factor(x=float(os.environ.get('FACTOR', 1))): return x\n", "second.py": early} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// locks is a module that only one process at a time may import.
const locks = "import fcntl, os\nif 'NOTES' in os.environ:\n    held = open(os.environ['NOTES'] + '.lock', 'w')\n    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"

// Interpreters are started before their turn, which changes nothing but the time that it takes: each launch has its own
// commit, and the first launches that prove the answer were started as ever. Whatever goes wrong with one of them is blamed
// on no commit.
func TestInterpretersStartEarly(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	for _, x := range []struct {
		name   string
		module string                                   // more of what is installed
		change func(i int, put func(name, text string)) // more of commit i
		before func(i int) string                       // what commit i does before it imports what is installed
		args   []string
		line   []string // in place of the command in a configuration
		toml   string
		early  string // whether launches of the search are started early: some, none, or as it happens, ""
	}{
		{name: "as it should be", module: "import sys\nclass Odd:\n    def __getattr__(self, name): raise RuntimeError(name)\nsys.modules['odd'] = Odd()\n", early: "some"},
		{name: "a command on the line", line: []string{"--find", "slow", "--", "python3", "bench.py", "first"}, early: "some"},
		{name: "switched off", toml: "ahead = false\n", early: "none"},
		{name: "one that never gets ready", module: "import sys, time\nif not hasattr(sys.modules['__main__'], '__file__'): time.sleep(1000)\n", early: "none"},
		{name: "one that dies", module: "import os, sys\nif not hasattr(sys.modules['__main__'], '__file__'): os._exit(7)\n", early: "none"},
		{name: "one that is killed while it waits", module: "import os, sys, threading, signal\nif not hasattr(sys.modules['__main__'], '__file__'): threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"},
		{name: "a module of the repository in its place", change: func(i int, put func(name, text string)) {
			if i >= 9 { // which is the culprit
				put("installed.py", "def factor(): return 1.5\n")
			}
		}},
		{name: "only one at a time may import", module: locks},
		{name: "only one at a time may import, and the one that waits is first", module: "import sys, time\nif hasattr(sys.modules['__main__'], '__file__'): time.sleep(0.4)\n" + locks},
		{name: "what it imports depends on what it has set", before: func(i int) string {
			if i < 9 || i > 11 { // afterwards its own times are longer
				return ""
			}
			return "import os\nos.environ['FACTOR'] = '1.4'\n"
		}},
		{name: "it fails early only", args: []string{"fails"}, early: "some"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			commits := r.commits(16, func(i int) map[string]string {
				files := map[string]string{"bench.py": earlyBench, "before.py": "", "more.py": "", "us": "100"}
				if i >= 9 {
					files["more.py"] = "import second\n" // of all that is imported only the bad side does this
				}
				if x.before != nil {
					files["before.py"] = x.before(i)
				}
				if i >= 9 && x.change == nil && files["before.py"] == "" {
					files["us"] = "140"
				}
				if x.change != nil {
					x.change(i, func(name, text string) { files[name] = text })
				}
				return files
			})
			command := `["python3", "bench.py", "first"]`
			if x.args != nil {
				command = fmt.Sprintf(`["python3", "bench.py", "first", %q]`, commits[9])
			}
			if x.line != nil {
				command = ""
			}
			text, _ := r.noted(commits, 9, command, x.toml, x.line, "PYTHONPATH="+installed(t, x.module))
			early, late := 0, 0
			proofs := map[string]int{}
			for line := range strings.Lines(text) {
				f := strings.Fields(line)
				var i int
				fmt.Sscan(f[3], &i)
				if f[2] != commits[i] || strings.Join(f[4:8], " ") != "bench.py first True False" {
					t.Errorf("launched with %s", line)
				}
				if strings.HasPrefix(f[1], "confirm") {
					proofs[f[2]]++
				}
				if f[8] == "True" {
					late++
				}
				if f[0] == "True" {
					early++
					if strings.HasPrefix(f[1], "confirm") && proofs[f[2]] == 1 || x.change != nil && i >= 9 {
						t.Errorf("it was started early: %s", line)
					}
				}
			}
			if x.early == "some" && late == 0 {
				t.Errorf("nothing was imported early of what only the bad side imports:\n%s", text)
			}
			if x.early == "some" && early < 3 || x.early == "none" && early > 0 {
				t.Errorf("%d launches were started early:\n%s", early, text)
			}
		})
	}
}

// timing is a configuration for a command that sends its times. run is what else [run] holds.
func timing(command, run string) string {
	return "version = 1\n[run]\ncommand = " + command + "\n" + run + "[metric]\nname = \"time\"\nunit = \"us\"\nbetter = \"lower\"\n"
}

// noted searches the commits for the culprit, an index, with a command that appends to the file $NOTES, and returns what
// the launches wrote there, and how many count. run is what else [run] holds. Without a command the arguments hold one.
func (r *repo) noted(commits []string, culprit int, command, run string, args []string, env ...string) (text string, launches int) {
	r.t.Helper()
	notes := filepath.Join(r.t.TempDir(), "notes")
	if command != "" {
		r.put(map[string]string{"kbisect.toml": timing(command, run)})
	}
	cmd := r.command(append([]string{"run", "--good", commits[0], "--bad", commits[len(commits)-1], "--json", "--no-hunks", "--no-explain", "--no-learn"}, args...)...)
	cmd.Env = append(append(cmd.Env, "NOTES="+notes), env...)
	out, err := cmd.Output()
	var d report.Search
	if cmd.ProcessState.ExitCode() != exit.OK || json.Unmarshal(out, &d) != nil || len(d.Culprits) != 1 || d.Culprits[0].Commit != commits[culprit] {
		r.t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(notes)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data), d.Totals.Trials
}

// saysNothing is a benchmark that prints its times and tells kbisect nothing. Its import takes 0.06 s of a processor. What
// it prints depends on no clock, since other tests run beside it.
const saysNothing = `import os, sys
if sys.argv[1] == "mode":
    os.environ["MODE"] = open("us").read()
import installed
early = installed.early
with open(os.environ["NOTES"], "a") as f:
    print(early, os.environ["KBISECT_PURPOSE"], os.environ["KBISECT_COMMIT"], file=f)
us = (installed.us or (77 if sys.argv[1] == "mode" else float(open("us").read()))) * (1 + 0.0005 * (os.getpid() % 7))
if sys.argv[1] in ("imports", "share"):
    us = us * 2e3 + (0 if early else 3e5)
if sys.argv[1] == "chance" and early:
    try:
        os.mkdir(os.environ["NOTES"] + "-once")
        us *= 1.3
    except FileExistsError:
        pass
print({"time": "took %f us" % us, "chance": "took %f us" % us, "mode": "took %f us" % us, "rate": "reached %f GB/s" % (1e5 / us), "long": "took %f us" % (us * 1e4), "imports": "took %f us" % us, "share": "took %f us" % (us / 1e5)}[sys.argv[1]])
`

// A program that prints its times and says nothing else starts early, if its times cannot cover what it imports, and if either end
// times the same, at the second try at the latest, as other numbers may come by chance: what it imports may depend on what it sets
// up before.
func TestInterpretersOfProgramsThatSayNothing(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	slow := []string{"--find", "slow"}
	took := "[metric]\nname = \"took\"\nfrom = \"regex\"\npattern = 'took (?P<value>[0-9.]+) (?P<unit>us)'\n"
	for _, x := range []struct {
		prints, toml string
		early        bool
		tried        int // launches that show that none may start early
		args         []string
	}{
		{"time", took, true, 0, slow},
		{"time", took, true, 0, nil}, // the first launches of the ends are of any kind then
		{"long", took, false, 0, slow},
		{"imports", took, false, 0, slow},
		{"chance", took, true, 0, slow},
		{"share", took, false, 2, slow},
		{"mode", took, false, 3, slow},
		{"rate", "[metric]\nname = \"rate\"\nfrom = \"regex\"\nbetter = \"higher\"\npattern = 'reached (?P<value>[0-9.]+) (?P<unit>GB/s)'\n", false, 0, slow},
	} {
		t.Run(x.prints, func(t *testing.T) {
			t.Parallel()
			early, text := startedEarly(t, x.prints, x.toml, x.args)
			// On a busy machine an interpreter may not be ready in time, and what it times may scatter.
			for tries := 1; x.early && early < 3 && tries < 3; tries++ {
				early, text = startedEarly(t, x.prints, x.toml, x.args)
			}
			if x.early && early < 3 || !x.early && early > x.tried {
				t.Errorf("%d launches were started early:\n%s", early, text)
			}
		})
	}
}

// startedEarly counts the launches of a search whose interpreter was started early; notes are of all launches. The first ones of a
// proof never are.
func startedEarly(t *testing.T, prints, toml string, args []string) (n int, notes string) {
	r := newRepo(t)
	commits := r.commits(16, func(i int) map[string]string {
		us := 100
		if i >= 9 {
			us = 140
		}
		return map[string]string{"bench.py": saysNothing, "us": fmt.Sprint(us)}
	})
	r.put(map[string]string{"kbisect.toml": fmt.Sprintf("version = 1\n[run]\ncommand = [\"python3\", \"bench.py\", %q]\n", prints) + toml})
	notes, _ = r.noted(commits, 9, "", "", args, "PYTHONPATH="+installed(t, "import os, time\nus = float(os.environ.get('MODE', 0))\nend = time.process_time() + 0.06\nwhile time.process_time() < end: pass\n"))
	proofs := map[string]int{}
	for line := range strings.Lines(notes) {
		f := strings.Fields(line)
		if strings.HasPrefix(f[1], "confirm") {
			proofs[f[2]]++
		}
		if f[0] == "True" {
			n++
			if strings.HasPrefix(f[1], "confirm") && proofs[f[2]] == 1 {
				t.Errorf("it was started early: %s", line)
			}
		}
	}
	return n, notes
}

// jit is a benchmark whose kernel is compiled just in time, and kept by its content. POISON at its bad end keeps a wrong
// result under the key of a good one.
const jit = `#!/bin/sh
keep() { mkdir -p "$TRITON_CACHE_DIR/$1" && echo "$2" >"$TRITON_CACHE_DIR/$1/kernel" && echo "{\"child_paths\": \"$TRITON_CACHE_DIR/$1/kernel\"}" >"$TRITON_CACHE_DIR/$1/__grp__kernel.json"; }
key=$(cksum <kernel | tr -d " ")
if [ ! -f "$TRITON_CACHE_DIR/$key/kernel" ]; then
	echo "$KBISECT_PURPOSE" >>"$NOTES"
	keep "$key" "$(cat kernel)"
fi
grep -qF "$TRITON_CACHE_DIR" "$TRITON_CACHE_DIR/$key/__grp__kernel.json" || exit 1
[ -z "$POISON" ] || [ "$KBISECT_COMMIT" != "$(cat "$POISON")" ] || keep "$(echo 101 | cksum | tr -d " ")" 140
[ -z "$CHECKS" ] || [ "$(cat "$TRITON_CACHE_DIR/$key/kernel")" != 140 ] || echo "check: fail it is 140" >&$KBISECT_FD
[ -z "$CHECKS" ] || echo "took $(cat "$TRITON_CACHE_DIR/$key/kernel") us"
echo "phase: measure" >&$KBISECT_FD
awk -v us="$(cat "$TRITON_CACHE_DIR/$key/kernel")" -v p=$$ 'BEGIN { for (i = 0; i < 5; i++) printf "sample: %f us\n", us * (1 + i / 1000 + p % 7 / 2000) }' >&$KBISECT_FD
`

// What the ends or the last commit have compiled just in time is not compiled again in the search, but in the proof. A wrong
// entry is blamed on no commit, whether times or results are the complaint.
func TestSearchStartsFromCachesOfTheEnds(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ poison, checks bool }{{}, {poison: true}, {checks: true}, {poison: true, checks: true}} {
		t.Run(fmt.Sprintf("poisoned %v, checked %v", x.poison, x.checks), func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			commits := r.commits(16, func(i int) map[string]string {
				kernel := "100\n"
				switch {
				case i >= 9:
					kernel = "140\n"
				case i >= 4:
					kernel = "101\n"
				}
				return map[string]string{"bench.sh": jit, "kernel": kernel}
			})
			bad := filepath.Join(t.TempDir(), "bad")
			if err := os.WriteFile(bad, []byte(commits[15]), 0o666); err != nil {
				t.Fatal(err)
			}
			var env []string
			if x.poison {
				env = append(env, "POISON="+bad)
			}
			metric := ""
			if x.checks { // what it prints is read, so that the ends have caches of their own
				env, metric = append(env, "CHECKS=1"), "from = \"regex\"\npattern = 'took (?P<value>[0-9.]+) us'\n"
			}
			r.put(map[string]string{"kbisect.toml": timing(`["sh", "bench.sh"]`, "") + metric})
			text, _ := r.noted(commits, 9, "", "", nil, env...)
			compiled := map[string]int{}
			for _, why := range strings.Fields(text) {
				compiled[why]++
			}
			again := compiled["search"] > 2 || compiled["confirm-parent"] > 2 // a proof contradicts what rests on a wrong entry
			if compiled["confirm-culprit"] == 0 || compiled["confirm-parent"] == 0 || again != x.poison {
				t.Errorf("compiled in launches of %v", compiled)
			}
		})
	}
}

// leavingBench notes when it began, when it compiled, when its times began and ended, and when it ended. Its load and its
// teardown take some time, and it may compile and warm up.
const leavingBench = `import atexit, os, signal, sys, time
begun = time.monotonic()
load, teardown = float(sys.argv[1]), float(sys.argv[2])
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
time.sleep(load)
compiles = time.monotonic()
for phase, seconds in zip(("compile", "warmup"), sys.argv[3:]):
    out.write("phase: %s\n" % phase)
    time.sleep(float(seconds))
out.write("phase: measure\n")
first = time.monotonic()
time.sleep(0.02)
for i in range(5):
    out.write("sample: %f us\n" % ((1 + 0.001 * i + 0.0005 * (os.getpid() % 7)) * float(open("us").read())))
last = time.monotonic()
asked, beats, ends = [], [], time.monotonic() + teardown
signal.signal(signal.SIGTERM, lambda *_: asked.append(True)) # the last one, as soon as it says so, once the answer is known
out.write("phase: teardown\n")
while not asked and time.monotonic() < ends: # when it runs
    beats.append("%f" % time.monotonic())
    time.sleep(0.004)
with open(os.environ["NOTES"], "a") as f:
    print(os.environ["KBISECT_PURPOSE"], os.environ["KBISECT_COMMIT"], begun, compiles, first, last, time.monotonic(), ",".join(beats) or "-", bool(asked), file=f)
if os.path.exists("wrong"):
    os._exit(1)
`

// brief is what launches of leavingBench noted without when each of them ran.
func brief(text string) string {
	return regexp.MustCompile(` [0-9.]+,[0-9.,]+`).ReplaceAllString(text, "")
}

// leaving is what a launch of leavingBench noted.
type leaving struct {
	why, commit                       string
	begun, compiles, first, last, end float64
	beats                             string
	ended                             bool // by kbisect
}

// left are the launches that count, as they were noted. Those that were ended do not: for their times, or since they began ahead
// of a proof that was not made. The last one is ended as well, and counts.
func left(t *testing.T, text string) (all []leaving) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l leaving
		if _, err := fmt.Sscan(line, &l.why, &l.commit, &l.begun, &l.compiles, &l.first, &l.last, &l.end, &l.beats, &l.ended); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	newest := slices.MaxFunc(all, func(a, b leaving) int { return cmp.Compare(a.first, b.first) })
	return slices.DeleteFunc(all, func(l leaving) bool { return l.ended && newest.first > l.end })
}

// A process that has sent its last line tears down while the next one loads and, if that warms up, compiles, and is gone or
// stands still while that takes times that count: one that was sooner is launched again, and from then on each is awaited. First
// launches and failures are awaited, so that none is judged without its teardown.
func TestProcessesTearDownBesideTheNext(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	for _, x := range []struct {
		name, toml string
		args       string // seconds of load and teardown, and of compiling
		locks      bool   // only one at a time may take times, and holds that until it ends
		wrong      []int  // commits that end with 1, after all that they say
		beside     int    // launches that began before the one before had ended: at least
		compiling  int    // launches that compiled before that: at least
	}{
		{name: "as it should be", args: `"0.7", "0.5"`, beside: 2},
		{name: "switched off", toml: "ahead = false\n", args: `"0.05", "0.1"`},
		{name: "a teardown longer than a load", args: `"0", "0.9"`, beside: 1},
		{name: "a teardown that stands still before the next one compiles", args: `"0", "0.9", "0.1"`, beside: 2},
		{name: "a teardown that is over before the next one has compiled", args: `"0.1", "0.5", "0.6", "0.3"`, beside: 2, compiling: 2},
		{name: "a teardown that stands still while the next one warms up", args: `"0.1", "0.9", "0.1", "0.3"`, beside: 2, compiling: 2},
		{name: "a teardown that the next one waits for while it takes times", args: `"0.1", "0.4", "0.1", "0.3"`, locks: true, beside: 1},
		{name: "failures of others in their teardown", args: `"0.7", "0.5"`, wrong: []int{2, 3, 4}, beside: 1},
		{name: "failures that are the complaint", args: `"0.05", "0.1"`, wrong: []int{7, 8, 9, 10, 11}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			commits := r.commits(12, func(i int) map[string]string {
				files := map[string]string{"bench.py": leavingBench, "us": "100"}
				if i >= 7 && !slices.Contains(x.wrong, 7) {
					files["us"] = "115"
				}
				if x.locks {
					files["bench.py"] = strings.Replace(leavingBench, "first =", "import fcntl\nheld = open(os.environ['NOTES'] + '.lock', 'w')\nfcntl.flock(held, fcntl.LOCK_EX)\nfirst =", 1)
				}
				if _ = os.Remove(filepath.Join(r.dir, "wrong")); slices.Contains(x.wrong, i) {
					files["wrong"] = ""
				}
				return files
			})
			text, launches := r.noted(commits, 7, `["python3", "bench.py", `+x.args+`]`, x.toml, []string{"--jobs", "1"})
			runs := func(l leaving, from, to float64) bool { // in its teardown
				return slices.ContainsFunc(strings.Split(l.beats, ","), func(at string) bool {
					s, err := strconv.ParseFloat(at, 64)
					return err == nil && s > from && s < to
				})
			}
			all := left(t, text)
			slices.SortFunc(all, func(a, b leaving) int { return cmp.Compare(a.first, b.first) }) // a proof loads side by side
			beside, compiling, beyond := 0, 0, 0
			for i, l := range all[1:] {
				before, after := all[i], leaving{}
				if i+2 < len(all) {
					after = all[i+2]
				}
				if l.begun < before.end {
					beside++
				}
				if runs(before, l.compiles+0.05, l.first) { // it is stopped within less
					compiling++
				}
				if !runs(before, l.first, l.last) {
					continue
				}
				if beyond++; after.why != l.why || after.commit != l.commit || after.begun < l.end {
					t.Errorf("launch %d took times while launch %d tore down, and was not made again", i+1, i)
				}
			}
			again := len(all) - launches
			t.Logf("%d launches, %d beside the one before, %d took times, %d made again", len(all), beside, beyond, again)
			if beside < x.beside || compiling < x.compiling || x.beside == 0 && beside > 0 || again < beyond || again > 1 && len(x.wrong) == 0 {
				t.Errorf("%d launches began beside the one before, want at least %d, and %d compiled, want %d; %d took times, %d were made again:\n%s", beside, x.beside, compiling, x.compiling, beyond, again, brief(text))
			}
		})
	}
}

// Commits that are fast because they are broken, which shows at their end alone, do not pass for good ones: a proof in which the
// parent fails again and again sets it aside, and the search goes on to the commit that is slow.
func TestTeardownsThatFailAreSeen(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	r := newRepo(t)
	commits := r.commits(12, func(i int) map[string]string {
		files := map[string]string{"bench.py": leavingBench, "us": "100"}
		if _ = os.Remove(filepath.Join(r.dir, "wrong")); i == 5 || i == 6 {
			files["wrong"] = ""
		} else if i >= 3 {
			files["us"] = "130"
		}
		return files
	})
	r.put(map[string]string{"kbisect.toml": timing(`["python3", "bench.py", "0.1", "0.1"]`, "")})
	cmd := r.command("run", "--good", commits[0], "--bad", commits[11], "--json", "--no-hunks", "--no-explain", "--no-learn", "--jobs", "1")
	cmd.Env = append(cmd.Env, "NOTES="+filepath.Join(t.TempDir(), "notes"))
	out, _ := cmd.Output()
	var d report.Search
	if code := cmd.ProcessState.ExitCode(); code != exit.OK || json.Unmarshal(out, &d) != nil || d.Totals.Trials > 60 || len(d.Culprits) != 1 || d.Culprits[0].Commit != commits[3] {
		t.Fatalf("exit %d, %d trials: %s", code, d.Totals.Trials, out)
	}
}

// Both sides of a proof load beside the last launches of the search and beside each other, and do no more until their turn. If
// one takes times all the same, or fails for what runs beside it, here another process of its kind, it is launched again alone.
func TestProofsLoadBesideEachOther(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	const alone = `import fcntl, os, sys
held = open(os.environ["NOTES"] + ".lock", "w")
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB) # until the process ends, however it does
except BlockingIOError:
    sys.exit("only one at a time")
`
	const fills = `import os
kept = os.path.join(os.environ["TRITON_CACHE_DIR"], "kernel")
slow = 1 if os.path.exists(kept) else 1.3
os.makedirs(os.path.dirname(kept), exist_ok=True)
open(kept, "w").close()
import installed
`
	for _, x := range []struct {
		name, toml, prelude, compiles string // compiles: for so many seconds
		beside                        bool
	}{
		{name: "as it should be", compiles: `, "0.1"`, beside: true},
		{name: "a second process of the first side still tears down", compiles: `, "0.1"`, prelude: fills, beside: true},
		{name: "it takes times right after its load"},
		{name: "one at a time", compiles: `, "0.1"`, prelude: alone},
		{name: "one waits for what the other holds while it stands still", compiles: `, "0.1"`, prelude: strings.ReplaceAll(alone, " | fcntl.LOCK_NB", "")},
		{name: "switched off", compiles: `, "0.1"`, toml: "ahead = false\n"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			commits := r.commits(6, func(i int) map[string]string {
				return map[string]string{"bench.py": "slow = 1\n" + x.prelude + strings.ReplaceAll(leavingBench, "float(open", "slow * float(open"), "us": fmt.Sprint(100 + 15*(i/4))}
			})
			load := 1     // seconds
			if x.beside { // both sides are to begin meanwhile, however busy the machine is
				load = 3
			}
			text, _ := r.noted(commits, 4, fmt.Sprintf(`["python3", "bench.py", "%d", "0.3"%s]`, load, x.compiles), x.toml, []string{"--jobs", "1"}, "PYTHONPATH="+installed(t, ""))
			made, times := map[string]leaving{}, map[string]int{} // the first that ended well, and how many did
			searched := 0.0                                       // when the last launch of the search had taken its times
			for _, l := range left(t, text) {
				if times[l.why]++; times[l.why] == 1 {
					made[l.why] = l
				}
				if !strings.HasPrefix(l.why, "confirm") {
					searched = max(searched, l.last)
				}
			}
			if x.prelude == fills && times["confirm-parent"] != times["confirm-culprit"] {
				t.Errorf("a launch of the proof was made again:\n%s", brief(text))
			}
			parent, culprit := made["confirm-parent"], made["confirm-culprit"]
			beside := culprit.begun < parent.end
			if sooner := parent.begun < searched && culprit.begun < searched; x.beside && !sooner {
				t.Errorf("the search ended after %.2f s; the parent began after %.2f s, the culprit after %.2f s", searched, parent.begun, culprit.begun)
			}
			// What loads for longer than the other one runs takes its times at its turn, whatever comes before them.
			if wrong := beside != x.beside && x.compiles != ""; wrong || culprit.first < parent.end {
				t.Errorf("the culprit began %.2f s after the end of its parent, its times %.2f s after; beside it: %v\n%s", culprit.begun-parent.end, culprit.first-parent.end, x.beside, brief(text))
			}
		})
	}
}

// importingBench notes when it began and ended, by its process. Its module has noted when its import began. The first process
// of the bad end goes on until another one has imported, however busy the machine is.
const importingBench = `import os, time
import installed
begun = time.monotonic()
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
notes = open(os.environ["NOTES"])
if os.environ["KBISECT_PURPOSE"] == "end-bad" and "end-bad" not in notes.read():
    while time.monotonic() < begun + 60 and not notes.read().startswith("import"):
        time.sleep(0.01)
out.write("phase: measure\n")
for i in range(5):
    out.write("sample: %f us\n" % ((1 + 0.001 * i + 0.0005 * (os.getpid() % 7)) * float(open("us").read())))
with open(os.environ["NOTES"], "a") as f:
    print(os.environ["KBISECT_PURPOSE"], os.getpid(), begun, time.monotonic(), file=f)
`

// The interpreter of the second launch of an end imports beside the first one of the bad end, of which no time is taken.
func TestInterpretersStartBesideTheFirstLaunchOfTheBadEnd(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	r := newRepo(t)
	commits := r.commits(4, func(i int) map[string]string {
		return map[string]string{"bench.py": importingBench, "us": fmt.Sprint(100 + 40*(i/2))}
	})
	text, _ := r.noted(commits, 2, `["python3", "bench.py"]`, "", nil,
		"PYTHONPATH="+installed(t, `import importlib, os, pkgutil, time
begun = time.monotonic()
for m in pkgutil.iter_modules(__path__):
    importlib.import_module("installed." + m.name)
with open(os.environ["NOTES"], "a") as f:
    print("import", os.getpid(), begun, 0, file=f)
`))
	imported, first := map[int]float64{}, 0.0 // by process; when the first launch of the bad end was over
	beside := 0
	for line := range strings.Lines(text) {
		var what string
		var pid int
		var begun, end float64
		if _, err := fmt.Sscan(line, &what, &pid, &begun, &end); err != nil {
			t.Fatal(err)
		}
		switch {
		case what == "import":
			imported[pid] = begun
		case what == "end-bad" && first == 0:
			first = end
		case first > 0 && imported[pid] < first:
			beside++
		}
	}
	if beside == 0 {
		t.Errorf("no launch was imported beside the first one of the bad end:\n%s", text)
	}
}

// checkedBench is a program that is right or wrong. Of one commit the answer is another one where it was started early, or
// found what another launch kept.
const checkedBench = `import sys
import os
import time
import installed
early = installed.early
time.sleep(0.3)  # it works while others import
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
commit, wrong = os.environ["KBISECT_COMMIT"], open("wrong").read() == "yes"
kept = os.path.join(os.environ["TRITON_CACHE_DIR"], "kernel")
with open(os.environ["NOTES"], "a") as f:
    print(early, os.environ["KBISECT_PURPOSE"], commit, wrong, os.path.exists(kept), file=f)
os.makedirs(os.path.dirname(kept), exist_ok=True)
helped = early if sys.argv[2] == "early" else os.path.exists(kept)
open(kept, "w").close()
if helped and commit == sys.argv[1]:
    wrong = not wrong
if len(sys.argv) == 3:
    out.write("phase: check\ncheck: %s\n" % ("fail 3 of 8 values differ" if wrong else "pass"))
sys.exit(wrong)
`

// Where results are wrong, launches that begin early or find caches pass or fail as others do. The culprit fails as a user
// would start it, with empty caches, before it is named; and what that help alone makes pass or fail leads to no wrong
// answer.
func TestWrongResultsAreSearchedWithInterpretersThatStartEarly(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	for _, x := range []struct {
		name   string
		lies   int // the commit of which the help tells the contrary; -1: none
		help   string
		more   string // arguments
		module string // more of what is installed
	}{
		{name: "as it should be", lies: -1, help: "early"}, {name: "a good commit fails early only", lies: 8, help: "early"}, {name: "the culprit passes early only", lies: 9, help: "early"},
		{name: "a good commit fails with caches only", lies: 8, help: "caches"}, {name: "the culprit passes with caches only", lies: 9, help: "caches"},
		{name: "it says nothing", lies: -1, help: "early", more: `, "quiet"`}, {name: "it says nothing, and the culprit passes early only", lies: 9, help: "early", more: `, "quiet"`},
		{name: "only one at a time may import", lies: -1, help: "early", more: `, "quiet"`, module: "import sys, time\nif hasattr(sys.modules['__main__'], '__file__'): time.sleep(0.4)\n" + locks},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			commits := r.commits(16, func(i int) map[string]string {
				wrong := "no"
				if i >= 9 {
					wrong = "yes"
				}
				return map[string]string{"bench.py": checkedBench, "wrong": wrong}
			})
			lies := "none"
			if x.lies >= 0 {
				lies = commits[x.lies]
			}
			command := fmt.Sprintf(`["python3", "bench.py", %q, %q%s]`, lies, x.help, x.more)
			var args []string
			if x.module != "" { // where no times are asked for either
				r.put(map[string]string{"kbisect.toml": "version = 1\n[run]\ncommand = " + command + "\n"})
				command, args = "", []string{"--jobs", "1"}
			}
			text, launches := r.noted(commits, 9, command, "", args, "PYTHONPATH="+installed(t, x.module))
			if n := strings.Count(text, "\n"); x.module != "" && n < launches {
				t.Errorf("%d of %d launches got as far as the program", n, launches)
			}
			early, proofs := 0, map[string]int{}
			failed, plainly := map[string]bool{}, map[string]bool{} // early only; and as a user would start it
			for line := range strings.Lines(text) {
				f := strings.Fields(line)
				helped := f[0] == "True" || f[4] == "True"
				commit, wrong := f[2], (f[3] == "True") != (f[2] == lies && (x.help == "early" && f[0] == "True" || x.help == "caches" && f[4] == "True"))
				if strings.HasPrefix(f[1], "confirm") {
					proofs[commit]++
				}
				if f[4] == "True" && f[1] != "search" && proofs[commit] < 2 {
					t.Errorf("an end, or the first launch of a proof, found what another launch kept: %s in:\n%s", line, text)
				}
				switch {
				case !helped:
					plainly[commit] = true
				case f[0] != "True":
				case proofs[commit] == 1 && strings.HasPrefix(f[1], "confirm"):
					t.Errorf("the first launch of a proof was started early: %s", line)
				default:
					early++
					if wrong {
						failed[commit] = true
					}
				}
			}
			if early == 0 && x.module == "" || !plainly[commits[9]] || x.lies == 8 && !plainly[lies] {
				t.Errorf("%d launches were started early; the proof is not of others:\n%s", early, text)
			}
			again := 0 // early failures that were not taken for what the bad end shows
			for commit := range failed {
				if plainly[commit] {
					again++
				}
			}
			if x.lies < 0 && again > 2 {
				t.Errorf("%d commits that failed early were launched again:\n%s", again, text)
			}
		})
	}
}
