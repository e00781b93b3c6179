package kernels

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// Python runs a program with the probe and returns its output and what the probe sent. The
// environment is added to a small one.
func python(t *testing.T, program string, env ...string) (output string, lines []string) {
	t.Helper()
	exe, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python")
	}
	dir := t.TempDir()
	if err := WriteProbe(filepath.Join(dir, "probe")); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "main.py")
	if err := os.WriteFile(script, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	fakes, err := filepath.Abs(filepath.Join("testdata", "python"))
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(exe, script)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PYTHONDONTWRITEBYTECODE=1", "KBISECT_FD=3", "PYTHONPATH=" + fakes}, env...)
	cmd.Env = ProbeEnv(cmd.Env, filepath.Join(dir, "probe"))
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{w}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Minute
	sent := make(chan []byte)
	go func() { b, _ := io.ReadAll(r); sent <- b }()
	err = cmd.Run()
	w.Close()
	if err != nil {
		out.WriteString(err.Error() + "\n")
	}
	text := strings.TrimSuffix(string(<-sent), "\n")
	if text == "" {
		return out.String(), nil
	}
	return out.String(), strings.Split(text, "\n")
}

// stamps runs a program that prints nothing and compares what the probe sent, written as "+compile"
// and "-compile".
func stamps(t *testing.T, want, program string, env ...string) {
	t.Helper()
	out, lines := python(t, program, env...)
	if out != "" {
		t.Errorf("output:\n%s", out)
	}
	got := strings.Join(lines, " ")
	got = strings.NewReplacer("enter: ", "+", "leave: ", "-").Replace(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestProbeStampsAWholeProgram(t *testing.T) {
	const program = `
import submission, torch
assert submission.extension == "ext"
assert submission.custom_kernel(1) == 2
torch._dynamo.reset()
assert submission.custom_kernel(1) == 2
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    pass
g.capture_begin(); g.capture_end()
`
	stamps(t, "+import +extension -extension -import +compile -compile +capture -capture "+
		"+compile -compile +capture -capture +capture -capture +capture -capture", program)
	stamps(t, "+import +extension -extension -import +compile -compile +compile -compile "+
		"+capture -capture +capture -capture", program, "OLD_TORCH=1")
}

func TestProbeWithExceptions(t *testing.T) {
	stamps(t, "+extension -extension +capture -capture +capture -capture +compile -compile +import -import", `
import torch, triton, sys, os
from torch.utils.cpp_extension import load
def fails(f):
    try: f()
    except (RuntimeError, KeyError, ZeroDivisionError): return
    assert False
fails(lambda: load("x", "broken"))
def capture(inside=None):
    with torch.cuda.graph(torch.cuda.CUDAGraph(), fail=inside is None): inside()
fails(capture)
fails(lambda: capture(lambda: {}[1]))
fails(lambda: triton.compile(lambda: 1/0))
open("bad.py", "w").write("1/0")
sys.path.insert(0, os.getcwd())
def bad(): import bad
fails(bad)
`, ProbeModules+"=other, bad")
}

func TestProbeTellsOnlyTheOutermostOfAllThreads(t *testing.T) {
	stamps(t, "+compile +capture -capture -compile", `
import threading, triton, torch
inside, go = threading.Barrier(3), threading.Event()
def one():
    triton.compile(lambda: (inside.wait(), go.wait(), triton.compile("inner")))
ts = [threading.Thread(target=one) for _ in range(2)]
for t in ts: t.start()
inside.wait()
with torch.cuda.graph(torch.cuda.CUDAGraph()): pass
go.set()
for t in ts: t.join()
`)
}

func TestProbeInChildren(t *testing.T) {
	const child = `import os, sys, subprocess
if __name__ == "__main__":
    code = "import os\nf = open('precious', 'w')\nimport submission\nf.write('mine')"
    # The descriptor is not inherited, and its number becomes another file's.
    subprocess.run([sys.executable, "-c", code], check=True, cwd=os.getcwd())
    assert open("precious").read() == "mine"
`
	stamps(t, "+import +extension -extension -import", child)
	stamps(t, "+import +extension -extension -import", `
import multiprocessing, sys
def work():
    import submission
if __name__ == "__main__":
    p = multiprocessing.get_context("spawn").Process(target=work)
    p.start(); p.join()
    sys.exit(p.exitcode)
`)
	stamps(t, "+compile -compile +capture -capture +compile -compile", `
import os, torch, triton
def fork():
    pid = os.fork()
    if pid: os.waitpid(pid, 0)
    return pid == 0
# A worker of a compilation is silent; one of a capture does not end the capture of its parent.
if triton.compile(fork): triton.compile("more"); os._exit(0)
with torch.cuda.graph(torch.cuda.CUDAGraph()): child = fork()
if child: os._exit(0)
if fork(): triton.compile("own"); os._exit(0)
`)
	stamps(t, "", `
import os, runpy, subprocess, sys, torch._inductor
subprocess.run([sys.executable, torch._inductor.__path__[0] + "/helper.py"], check=True)
subprocess.run([sys.executable, "-m", "torch._inductor.helper"], check=True)
`)
}

func TestProbeKeepsOutOfDynamo(t *testing.T) {
	stamps(t, "+compile -compile", `
import torch, triton, torch._dynamo.convert_frame as c
assert {"wrapper", "enter", "leave", "say", "__enter__", "capture_end"} <= set(c.skipped), c.skipped
for f in (triton.compile, torch.cuda.graph.__enter__, torch.cuda.CUDAGraph.capture_end):
    assert f._torchdynamo_disable, f
triton.compile("x")
`)
}

func TestProbeLeavesAKilledSpanOpen(t *testing.T) {
	_, lines := python(t, `
import os, signal, torch
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    os.kill(os.getpid(), signal.SIGKILL)
`)
	if d := cmp.Diff([]string{"enter: capture"}, lines); d != "" {
		t.Error(d)
	}
}

func TestProbeIsSilentWithoutItsPipe(t *testing.T) {
	const program = `
import os, sys
assert not sys.meta_path or type(sys.meta_path[0]).__name__ != "Finder", sys.meta_path
assert "KBISECT_PROBE_FD" not in os.environ
import submission
`
	for _, fd := range []string{"", "x", "77", "-1", "0"} { // 0 is /dev/null here
		stamps(t, "", program, "KBISECT_FD="+fd)
	}
	// A pipe that is gone, and one that nobody reads.
	stamps(t, "", "import os; os.close(3); import submission")
	stamps(t, "", `
import os
r, w = os.pipe()
os.dup2(w, 3); os.close(r); os.close(w)
import submission
`)
}

func TestProbeChangesNothing(t *testing.T) {
	const program = `
import sys, os, inspect, pickle, importlib.util
print([p for p in sys.path if "probe" in p], sorted(m for m in sys.modules if "kbisect" in m))
import submission, torch, triton
from torch.utils import cpp_extension
s = submission.__spec__
print(type(s.loader).__name__, s.loader is submission.__loader__, sorted(vars(s.loader)), s.origin == submission.__file__)
print(pickle.loads(pickle.dumps(submission.Thing())).__class__ is submission.Thing)
old = submission.Thing
print(importlib.reload(submission) is submission, submission.Thing is old)
print(inspect.signature(cpp_extension.load_inline), cpp_extension.load_inline.__doc__)
print(inspect.getsource(triton.compile))
print(pickle.loads(pickle.dumps(triton.compile)) is triton.compile, triton.compile("x"), triton.compiler.compiler.compile is triton.compile)
print(importlib.util.find_spec("nothing_of_that_name"))
try: import torch.nothing
except ImportError as e: print(repr(e))
print(sorted(set(sys.modules) & {"subprocess", "threading", "functools", "json", "logging", "ctypes", "fcntl"}))
`
	with, lines := python(t, program)
	if len(lines) == 0 {
		t.Error("the probe was silent")
	}
	without, lines := python(t, program, "KBISECT_FD=")
	if len(lines) != 0 {
		t.Errorf("sent %q", lines)
	}
	if d := cmp.Diff(without, with); d != "" {
		t.Errorf("the probe changes a program: %s", d)
	}
}

func TestProbeRunsWhatItHides(t *testing.T) {
	hidden := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(hidden, "sitecustomize.py"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	env := "PYTHONPATH=" + hidden
	write("import builtins; builtins.hidden = __file__")
	out, lines := python(t, "import sitecustomize\nprint(hidden == sitecustomize.__file__)\nopen('submission.py', 'w').close()\nimport submission", env)
	if out != "True\n" || len(lines) != 2 {
		t.Errorf("output %q, lines %q", out, lines)
	}
	for _, text := range []string{"1/0", "import nothing_of_that_name", "syntax error"} {
		write(text)
		out, lines = python(t, "open('submission.py', 'w').close()\nimport submission; print('ran')", env)
		if !strings.Contains(out, "Error in sitecustomize") || !strings.HasSuffix(out, "ran\n") || len(lines) != 2 {
			t.Errorf("%q: output %q, lines %q", text, out, lines)
		}
	}
}

func TestProbeEnv(t *testing.T) {
	env := []string{"A=1", "PYTHONPATH=/old", "KBISECT_PROBE_FD=3:1:2:3", "PYTHONPATH=/x:/y", "B"}
	want := []string{"A=1", "B", "PYTHONPATH=/probe:/x:/y"}
	if d := cmp.Diff(want, ProbeEnv(env, "/probe")); d != "" {
		t.Error(d)
	}
	// An empty path would be the working directory.
	if d := cmp.Diff([]string{"PYTHONPATH=/probe"}, ProbeEnv([]string{"PYTHONPATH="}, "/probe")); d != "" {
		t.Error(d)
	}
}

func TestPythonStackOfAPython(t *testing.T) {
	out, _ := python(t, `
import threading, time, os, json
def custom_kernel(*a): os.abort()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
json.JSONEncoder.default = custom_kernel
json.dumps(object())
`, "PYTHONFAULTHANDLER=1")
	if got, ok := protocol.PythonStack([]byte(out)); !ok || got != "main.py:3 in custom_kernel" {
		t.Errorf("%q in\n%s", got, out)
	}
}

// What a program has imported is known when it sends its first line by os.write, and again at its end.
func TestModulesAreToldEarly(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	dir := t.TempDir()
	if err := WriteEarly(dir); err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "list"), filepath.Join(dir, "program.py")
	text := `import json, os, sys
number = int(os.environ["KBISECT_FD"])
def told():
    try:
        return [name in open(sys.argv[1]).read().split() for name in ("json.decoder", "colorsys")]
    except OSError:
        return None
os.write(1, b"")
print(told())
os.write(number, b"phase: compile\n")
print(told(), os.write.__name__)
import colorsys
os.write(number, b"phase: measure\n")
print(told())
`
	if err := os.WriteFile(program, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", program, list)
	cmd.Env = append(ProbeEnv(os.Environ(), dir), "KBISECT_FD=2", LearnModules+"="+list, OutsideOf+"="+dir)
	var lines strings.Builder
	cmd.Stderr = &lines
	out, err := cmd.Output()
	want := "None\n[True, False] write\n[True, False]\n"
	if after, _ := os.ReadFile(list); err != nil || string(out) != want || lines.String() != "phase: compile\nphase: measure\n" || !strings.Contains(string(after), "colorsys\n") {
		t.Errorf("%v, it printed %q, sent %q, told %d bytes at its end; want %q", err, out, lines.String(), len(after), want)
	}
}
