package kernels

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/kernels/harness"
)

func TestArchOption(t *testing.T) {
	for capability, want := range map[string]string{
		"7.5": "-gencode=arch=compute_75,code=sm_75", "8.9": "-gencode=arch=compute_89,code=sm_89",
		"9.0": "-gencode=arch=compute_90a,code=sm_90a", "10.3": "-gencode=arch=compute_103a,code=sm_103a",
		"": "-arch=native", "9": "-arch=native", "x.y": "-arch=native", "-1.0": "-arch=native", "9.10": "-arch=native",
	} {
		if got := archOption(capability); got != want {
			t.Errorf("%q: %s, want %s", capability, got, want)
		}
	}
}

func TestNvccPlan(t *testing.T) {
	plan, err := NewPlan(Project{Kind: "nvcc", Sources: []string{"src/bench.cu"}, Device: "8.0", Options: []string{"-O2", "-DNAME=a b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := Plan{
		Kind: "nvcc", Outputs: []string{"bench"}, Run: []string{"./bench"}, Depfiles: []string{".kbisect/nvcc/0.d"},
		Build: []string{"sh", "-ec", "mkdir -p .kbisect/nvcc\n" +
			"exec nvcc -O2 '-DNAME=a b' -std=c++17 -gencode=arch=compute_80,code=sm_80 -Xptxas=-v,--warn-on-spills -MD -MF .kbisect/nvcc/0.d -o bench src/bench.cu"},
	}
	if d := cmp.Diff(want, plan); d != "" {
		t.Error(d)
	}
	for _, bad := range []Project{{Kind: "nvcc"}, {Kind: "nvcc", Sources: []string{"-o"}}} {
		if _, err := NewPlan(bad); err == nil || !strings.Contains(err.Error(), "\nhint: ") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	asIs, err := NewPlan(Project{Kind: "nvcc", Build: []string{"nvcc", "-o", "x", "x.cu"}, Run: []string{"./x"}})
	if d := cmp.Diff(Plan{Kind: "nvcc", Build: []string{"nvcc", "-o", "x", "x.cu"}, Run: []string{"./x"}}, asIs); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
}

// fakeNvcc understands the options that a plan uses, by way of the C++ compiler.
const fakeNvcc = `#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
	word=$1; shift; n=$((n-1))
	case $word in
	-gencode=*|-arch=*|-Xptxas=*) ;;
	*.cu) set -- "$@" -x c++ "$word" -x none ;;
	*) set -- "$@" "$word" ;;
	esac
done
exec c++ "$@"
`

// TestNvccBuilds carries out the build of two sources whose names need quotes, and reads what it read.
func TestNvccBuilds(t *testing.T) {
	if _, err := exec.LookPath("c++"); err != nil {
		t.Skip("SKIPPED: there is no C++ compiler")
	}
	root, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"my bench.cu":   "#include \"it's.h\"\nint twice(int);\nint main() { return twice(HALF) - 42; }\n",
		"it's.h":        "#define HALF 21\n",
		"twice.cu":      "#include \"sub dir/two.h\"\nint twice(int x) { return TWO * x; }\n",
		"sub dir/two.h": "#define TWO 2\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "nvcc"), []byte(fakeNvcc), 0o755); err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(Project{Kind: "nvcc", Sources: []string{"my bench.cu", "twice.cu"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{plan.Build, plan.Run} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, out)
		}
	}
	inside := readInputs(t, root, plan)
	if d := cmp.Diff([]string{"it's.h", "my bench.cu", "sub dir/two.h", "twice.cu"}, inside); d != "" {
		t.Error(d)
	}
}

func readInputs(t *testing.T, root string, plan Plan) []string {
	t.Helper()
	var all []string
	for _, d := range plan.Depfiles {
		data, err := os.ReadFile(filepath.Join(root, d))
		if err != nil {
			t.Fatal(err)
		}
		deps, err := Deps(data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, deps...)
	}
	return slices.Compact(slices.Sorted(slices.Values(Inputs(root, root, all))))
}

// TestRealNvcc compiles the example for a device that need not be here.
func TestRealNvcc(t *testing.T) {
	if _, err := exec.LookPath("nvcc"); err != nil {
		t.Skip("SKIPPED: there is no nvcc; its dependency files, ptxas and cuobjdump were read from testdata only")
	}
	if testing.Short() {
		t.Skip("compiles for seconds")
	}
	root := t.TempDir()
	example, err := harness.NewExample("cuda")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range example.Files {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := NewPlan(Project{Kind: "nvcc", Sources: []string{"bench.cu"}, Device: "8.0"})
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command(plan.Build[0], plan.Build[1:]...)
	build.Dir, build.Env = root, append(os.Environ(), "NVCC_PREPEND_FLAGS=-allow-unsupported-compiler") // newer than nvcc knows, often
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if inside := readInputs(t, root, plan); !slices.Equal(inside, []string{"bench.cu", harness.Header}) {
		t.Errorf("inputs %q", inside)
	}
	compiled := cuda.Ptxas(out)
	if len(compiled) != 1 || compiled[0].Arch != "sm_80" || compiled[0].Registers == 0 {
		t.Fatalf("ptxas %+v\n%s", compiled, out)
	}
	if _, err := exec.LookPath("cuobjdump"); err != nil {
		t.Skip("SKIPPED: there is no cuobjdump")
	}
	sass, resources := cuda.DeviceTools(filepath.Join(root, "bench"))
	functions, finished := cuda.SASS(toolOutput(t, sass)), cuda.Resources(toolOutput(t, resources))
	if len(functions) != 1 || functions[0].Name != compiled[0].Kernel || functions[0].Histogram["EXIT"] == 0 || functions[0].Bytes%128 != 0 {
		t.Errorf("sass %+v", functions)
	}
	if len(finished) != 1 || finished[0].Registers != compiled[0].Registers || finished[0].Kernel != compiled[0].Kernel {
		t.Errorf("resources %+v, ptxas %+v", finished, compiled)
	}
	program, err := os.ReadFile(filepath.Join(root, "bench"))
	if err != nil {
		t.Fatal(err)
	}
	if device, host, err := cuda.Artefact(program); err != nil || device == "" || host == "" {
		t.Errorf("artefact %q %q %v", device, host, err)
	}
}

func toolOutput(t *testing.T, argv []string) []byte {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	return out
}

func TestShellWords(t *testing.T) {
	words := []string{"a", "", "it's", "$HOME `x` \\", "a\nb", "*", "-O3"}
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+ShellWords(words...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(words, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); d != "" {
		t.Error(d)
	}
}

func TestCMakePlan(t *testing.T) {
	plan, err := NewPlan(Project{Kind: "cmake", Run: []string{"./build/b"}, Device: "9.0"})
	if err != nil || plan.Build[2] != CMakeScript("") || !slices.Equal(plan.Env, []string{"CUDAARCHS=90a-real"}) {
		t.Errorf("%+v, %v", plan, err)
	}
	if got := Merge([]string{"CUDAARCHS=80", "A=1"}, append(plan.Env, "B=2")); !slices.Equal(got, []string{"CUDAARCHS=80", "A=1", "B=2"}) {
		t.Errorf("the user's own environment counts: %q", got)
	}
}

// TestCMakeBuilds builds a project of one C file, with ninja where there is one.
func TestCMakeBuilds(t *testing.T) {
	if _, err := exec.LookPath("cmake"); err != nil {
		t.Skip("SKIPPED: there is no cmake")
	}
	root := t.TempDir()
	for name, text := range map[string]string{"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nadd_executable(prog p.c)\n", "p.c": "int main(void) { return 0; }\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		cmd := exec.Command("sh", "-c", CMakeScript("prog"))
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	_, noNinja := exec.LookPath("ninja")
	if _, err := os.Stat(filepath.Join(root, "build", "build.ninja")); (err == nil) != (noNinja == nil) {
		t.Errorf("ninja is here: %v; it was used: %v", noNinja == nil, err == nil)
	}
	if out, err := exec.Command(filepath.Join(root, "build", "prog")).CombinedOutput(); err != nil {
		t.Errorf("%v %s", err, out)
	}
}

func TestOldestArch(t *testing.T) {
	for _, c := range []struct {
		p    Project
		want bool
	}{
		{Project{}, true}, {Project{Device: "9.0"}, false},
		{Project{Options: []string{"-O3", "-arch=sm_90"}}, false}, {Project{Options: []string{"-gencode", "arch=compute_80,code=sm_80"}}, false},
	} {
		if got := OldestArch(c.p); got != c.want {
			t.Errorf("%+v: %v", c.p, got)
		}
	}
}
