package kernels

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/kernels/cuda"
)

// profiledPython runs a program under the profiler, with a torch that is none, and counts its traces.
func profiledPython(t *testing.T, program string) (output string, traces int) {
	t.Helper()
	exe, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("lib/torch/__init__.py", fakeTorch)
	write("lib/torch/profiler.py", fakeProfiler)
	write("traces/.keep", "")
	write("main.py", program)
	if err := WriteProfiler(filepath.Join(dir, "profiler")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "main.py")
	cmd.Dir = dir
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + filepath.Join(dir, "lib")}
	cmd.Env = ProfilerEnv(env, filepath.Join(dir, "profiler"), filepath.Join(dir, "traces"))
	out, _ := cmd.CombinedOutput() // a program that fails is one of the cases
	files, err := filepath.Glob(filepath.Join(dir, "traces", "trace-*[0-9].json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 0 {
		if _, err := cuda.OpenTraces(files); err != nil {
			t.Error(err)
		}
	}
	return string(out), len(files)
}

func TestProfilerForPython(t *testing.T) {
	for name, c := range map[string]struct {
		program, want string
		traces        int
	}{
		"a program":      {"import torch\nprint('fine')", "fine", 1},
		"without torch":  {"print('fine')", "fine", 0},
		"one that fails": {"import torch\nraise SystemExit('fine')", "fine", 1},
		"two processes":  {"import torch, subprocess, sys\nsubprocess.check_call([sys.executable, '-c', 'import torch'])\nprint('fine')", "fine", 2},
		"a worker that is terminated": {`
import multiprocessing
def work(n):
    import torch
    return n
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(work, (3,)) == 3
    print("fine")
`, "fine", 1},
		"what torch.compile did": {`
import sys, types, torch
sys.modules["torch._dynamo.utils"] = types.SimpleNamespace(counters={"graph_break": {"why": 2}, "frames": {"ok": 3}, "stats": {"unique_graphs": 5}})
`, "kbisect-profile: frames 3, graphs 5, breaks 2", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, traces := profiledPython(t, c.program)
			for tries := 0; tries < 3 && traces < c.traces; tries++ { // a busy machine may end a worker too fast
				out, traces = profiledPython(t, c.program)
			}
			if !strings.Contains(out, c.want) || strings.Contains(out, "Traceback") || traces != c.traces {
				t.Errorf("%d traces, %s", traces, out)
			}
		})
	}
}

// fakeTorch is enough of torch for the profiler.
const fakeTorch = `
class cuda:
    def is_available(): return True
    def is_initialized(): return False
`

const fakeProfiler = `
class ProfilerActivity:
    CUDA = 1
class profile:
    def __init__(self, activities): assert activities == [1]
    def __enter__(self): return self
    def __exit__(self, *a): pass
    def export_chrome_trace(self, name):
        with open(name, "w") as f: f.write('{"traceEvents": []}')
`
