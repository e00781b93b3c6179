package kernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// example writes an example into a folder.
func example(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	e, err := harness.NewExample(name)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range e.Files {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// heard runs a program with a protocol of its own and reads what it says; exit is its status.
func heard(t *testing.T, dir string, argv ...string) (p *protocol.Reader, exit int, output string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = dir, []*os.File{write}, &out, &out
	cmd.Env = append(os.Environ(), "KBISECT_FD=3", "PYTHONDONTWRITEBYTECODE=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(read); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	p = &protocol.Reader{}
	for i, l := range slices.Collect(strings.Lines(text.String())) {
		p.Line(strings.TrimSuffix(l, "\n"), time.Duration(i)*time.Millisecond)
	}
	if w := p.Warnings(); w != nil {
		t.Errorf("%q: %q", argv, w)
	}
	return p, cmd.ProcessState.ExitCode(), out.String()
}

// counts says how many values each series has.
func counts(p *protocol.Reader) map[string]int {
	out := map[string]int{}
	for _, s := range p.Series() {
		out[s.Metric+" "+s.Case] = len(s.Values)
	}
	return out
}

func phaseNames(p *protocol.Reader) []string {
	var out []string
	for _, ph := range p.Phases(time.Hour, false) {
		out = append(out, ph.Name)
	}
	return out
}

// cpuBench compiles the example of the header for the host.
func cpuBench(t *testing.T, dir string, options ...string) string {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("SKIPPED: there is no g++; the header was not compiled")
	}
	argv := append([]string{"-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-DKBISECT_CPU", "-o", "bench", "-x", "c++", "bench.cu"}, options...)
	cmd := exec.Command("g++", argv...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "bench")
}

func TestHeader(t *testing.T) {
	dir := example(t, "cuda")
	bench := cpuBench(t, dir)
	p, exit, out := heard(t, dir, bench, "--samples", "7", "--graph")
	want := map[string]int{
		"cold n=4096": 1, "warmup calls n=4096": 1, "time n=4096": 7, "cold n=262144": 1, "warmup calls n=262144": 1, "time n=262144": 7,
	}
	if d := cmp.Diff(want, counts(p)); d != "" || exit != 0 {
		t.Errorf("exit %d\n%s\n%s", exit, d, out)
	}
	if d := cmp.Diff([]string{"load", "warmup", "capture", "check", "measure", "teardown"}, phaseNames(p)); d != "" {
		t.Error(d)
	}
	if said := p.Said(); said.Wrong != "" {
		t.Errorf("said %+v", said)
	}
	only, _, _ := heard(t, dir, bench, "--samples", "2", "--batch", "3", "--case", "n=4096")
	if c := counts(only); c["time n=4096"] != 2 || c["time n=262144"] != 0 {
		t.Errorf("one case of two batches: %v", c)
	}
	if _, exit, out := heard(t, dir, bench, "--colour"); exit != 2 || !strings.Contains(out, "unknown option --colour\nusage: ") {
		t.Errorf("exit %d: %s", exit, out)
	}
	standalone := exec.Command(bench, "--samples", "1")
	standalone.Env = []string{}
	if text, err := standalone.Output(); err != nil || !strings.HasPrefix(string(text), "case: n=4096\nphase: warmup\n") {
		t.Errorf("without a descriptor: %v\n%s", err, text)
	}
}

// faulty is a kernel that is wrong in a way of its own, which the environment chooses.
const faulty = `static int calls = 0;
  std::string fault = std::getenv("FAULT") == nullptr ? "" : std::getenv("FAULT");
  if (fault == "remembers" && calls++ > 0) return;
  if (fault == "leaves") n--;
  for (size_t i = 0; i < n; i++) out[i] = x[i] / (1 + (fault == "rounds" ? 1 - x[i] : std::exp(-x[i]))) * y[i];`

func TestHeaderFindsWrongResults(t *testing.T) {
	const right = "for (size_t i = 0; i < n; i++) out[i] = x[i] / (1 + std::exp(-x[i])) * y[i];"
	dir := example(t, "cuda")
	file := filepath.Join(dir, "bench.cu")
	text, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(text, []byte(right)) {
		t.Fatalf("the example has changed: %v", err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte(right), []byte(faulty), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	bench := cpuBench(t, dir)
	for fault, why := range map[string]string{
		"leaves":    "1 of 4096 values differ, the first at 4095: nan instead of ",
		"remembers": "4096 of 4096 values differ, the first at 0: nan instead of ",
		"rounds":    " of 4096 values differ",
		"none":      "",
	} {
		t.Setenv("FAULT", fault)
		p, exit, out := heard(t, dir, bench, "--samples", "1", "--case", "n=4096")
		said := p.Said()
		if (exit == 1) != (why != "") || !strings.Contains(said.Wrong, why) || why != "" && !strings.HasPrefix(said.Wrong, "case n=4096: ") {
			t.Errorf("%s: exit %d, said %q\n%s", fault, exit, said.Wrong, out)
		}
	}
}

func TestPythonModule(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: there is no python3; the module was not run")
	}
	dir := example(t, "python")
	p, exit, out := heard(t, dir, "python3", "bench.py")
	want := map[string]int{"cold n=1000": 1, "warmup calls n=1000": 1, "time n=1000": 30, "cold n=4000": 1, "warmup calls n=4000": 1, "time n=4000": 30}
	if d := cmp.Diff(want, counts(p)); d != "" || exit != 0 {
		t.Errorf("exit %d\n%s\n%s", exit, d, out)
	}
	if d := cmp.Diff([]string{"load", "compile", "warmup", "check", "measure", "teardown"}, phaseNames(p)); d != "" {
		t.Error(d)
	}
	const wrong = `
import kbisect_harness as kb
h = kb.Harness(samples=2, warmup=0.05)
h.run("a\nb", lambda d: {"x": [d + 1e-3]}, inputs=[1.0, 2.0], reference=lambda d: {"x": [d]})
h.run("ok", lambda d: d * 2, inputs=[1, 2], check=lambda d, r: "" if r == 2 * d else "no")
h.run("unchecked", lambda d: None, inputs=[1])
h.out.metric("tensor pipe", 57, "%")
raise SystemExit(h.finish())
`
	p, exit, out = heard(t, dir, "python3", "-c", wrong)
	if said := p.Said(); exit != 1 || said.Wrong != "case a b: 1.001 instead of 1.0" {
		t.Errorf("exit %d, said %q\n%s", exit, said.Wrong, out)
	}
	if c := counts(p); c["time unchecked"] != 2 || c["tensor pipe unchecked"] != 1 {
		t.Errorf("counts %v", c)
	}
	for _, e := range []string{`kb.Harness(samples=0)`, `kb.Harness().run("g", print, [1], graph=True)`} {
		if _, exit, out := heard(t, dir, "python3", "-c", "import kbisect_harness as kb\n"+e); exit != 1 || !strings.Contains(out, "Error: ") {
			t.Errorf("%s: exit %d\n%s", e, exit, out)
		}
	}
}

// A launch warms up until its times are steady. Times that scatter take no more than about 0.1 s, and long ones few calls.
func TestPythonWarmsUp(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: there is no python3; the module was not run")
	}
	const warms = `
import math, random
import kbisect_harness as kb

random.seed(1)
now = 0.0
kb.time.perf_counter = lambda: now
h = kb.Harness()
h.processor.settle = lambda: None
h.out.metric = lambda name, value, unit="": calls.append(value)
calls = []

class Device:
    def time(self, call):
        global now
        seconds = self.seconds(call()) * random.lognormvariate(0, self.scatter)
        now += seconds
        return seconds, None

def warmed(scatter, seconds):
    h.device = Device()
    h.device.scatter, h.device.seconds = scatter, seconds
    h._warm(lambda n: n)
    return calls[-1]

quiet = warmed(0.001, lambda n: 4e-4)
steady = [warmed(0.1, lambda n: 4e-4) for _ in range(50)]
long = [warmed(0.1, lambda n: 0.03) for _ in range(50)]
falls = warmed(0.002, lambda n: 4e-4 * (1 + math.exp(-n / 100)))
assert quiet == 15, quiet
assert 15 <= min(steady) and sorted(steady)[45] <= 350, steady
assert sorted(long)[45] <= 60, long
assert falls >= 120, falls
`
	if _, exit, out := heard(t, example(t, "python"), "python3", "-c", warms); exit != 0 {
		t.Errorf("exit %d\n%s", exit, out)
	}
}

// The processors are made up: the scheduler of a real machine moves the thread when it likes.
func TestPythonProcessors(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: there is no python3; the module was not run")
	}
	dir := example(t, "python")
	const moves = `
import os, sys
import kbisect_harness as kb

slow, allowed, calls = {0, 2}, {0, 1, 2, 3}, []
os.sched_getaffinity = lambda pid: set(allowed)

def set_(pid, cpus):
    calls.append(sorted(cpus))
    if len(cpus) == 1:
        set_.here, = cpus

set_.here = 0
os.sched_setaffinity = set_
p = kb._Processor()
p.near = lambda cpus: sorted(cpus)
p.loop = lambda: 2e-4 if set_.here in slow else 1e-4

def block():
    blocks.append(set_.here)
    if hit:
        slow.add(hit.pop())
    return len(blocks)

blocks, hit = [], []
assert p.take(block) == 1 and blocks == [1], blocks  # all are looked at, and the first of the fast ones is taken
assert calls == [[0], [1], [2], [3], [1], sorted(allowed)], calls
calls.clear()
assert p.take(block) == 2 and not calls  # it stays
hit = [1]
assert p.take(block) == 4 and blocks[2:] == [1, 3], blocks  # was slowed down meanwhile
assert calls[-1] == sorted(allowed) and 0 < p.spent < p.spare
hit = [3]
assert p.take(block) == 7, blocks  # no fast one is left: two repeats, and the last one counts
slow.clear()
assert p.take(block) == 8
hit, p.spare = [set_.here], 0
assert p.take(block) == 9, blocks  # no time is left for a repeat
slow.clear()

def refuse(pid, cpus):
    raise PermissionError()

os.sched_setaffinity = refuse
p = kb._Processor()
assert p.take(block) == 10 and p.fixed
p = kb._Processor()
p.near = lambda cpus: [][0]  # nothing tells where it is
assert p.take(block) == 11 and p.fixed
del os.sched_setaffinity  # as on macOS
p = kb._Processor()
assert p.take(block) == 12 and p.fixed
`
	if _, exit, out := heard(t, dir, "python3", "-c", moves); exit != 0 {
		t.Errorf("exit %d\n%s", exit, out)
	}
	const free = `
import os, threading
import kbisect_harness as kb
all, seen = os.sched_getaffinity(0), []

def kernel(d):
    t = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
    t.start()
    t.join()

h = kb.Harness(samples=20)
h.run("threads", kernel, inputs=[1])
h = kb.Harness(samples=1000, seconds=0)
h.processor.slow = 0  # always
h.run("busy", lambda d: None, inputs=[1])
assert os.sched_getaffinity(0) == all and all in seen and seen.count(all) == len(seen), seen
`
	p, exit, out := heard(t, dir, "python3", "-c", free)
	if c := counts(p); exit != 0 || c["time threads"] != 20 || c["time busy"] != 3 {
		t.Errorf("exit %d, counts %v\n%s", exit, c, out)
	}
}
