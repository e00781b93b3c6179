package kernels

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
		if _, err := OpenTraces(files); err != nil {
			t.Error(err)
		}
	}
	return string(out), len(files)
}
