package trial

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// A build reads a variable that its command or a build file names; sources, programs and binaries do not count.
func TestBuildFileNames(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       bool
	}{
		"a makefile":           {"Makefile", "all:\n\techo $(WARM)\n", true},
		"a script in a folder": {"tools/build.sh", "echo $WARM", true},
		"setup.py":             {"setup.py", "os.environ['WARM']", true},
		"build.py":             {"sub/build.py", "os.environ['WARM']", true},
		"a program":            {"bench.py", "os.environ['WARM']", false},
		"a source":             {"a.cu", `getenv("WARM")`, false},
		"a header":             {"a.cuh", `getenv("WARM")`, false},
		"documentation":        {"README.md", "set WARM", false},
		"a binary":             {"prog", "\x7fELF\x00WARM", false},
		"another name":         {"Makefile", "$(COLD)", false},
		"a large file":         {"log", strings.Repeat(" ", 256<<10) + "WARM", false},
	} {
		dir := t.TempDir()
		gittest.WriteFiles(t, dir, map[string]string{c.file: c.text, "other": "x"}, 0o666)
		if got := buildFileNames(dir, "WARM"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// One build serves all settings that only the program reads.
func TestBuildOf(t *testing.T) {
	s := newStand(t, kernels.Plan{Build: []string{"sh", "-c", "echo $INCMD"}, Run: []string{"true"}}, []fixtures.Change{fixtures.Write("Makefile", "$(INFILE)\n")})
	s.Flags = []kernels.Flag{{Name: "def", Define: "D"}, {Name: "opt", Option: "-O{value}"}, {Name: "arg", Arg: "{value}"}, {Name: "cmd", Env: "INCMD"}, {Name: "file", Env: "INFILE"}, {Name: "run", Env: "INRUN"}}
	const all = "def=1,opt=2,arg=3,cmd=4,file=5,run=6"
	if got := s.buildOf(s.w, s.ask(0, all).Candidate).Assign; got != "def=1,opt=2,cmd=4,file=5,run=6" {
		t.Errorf("before there are files to look at: %q", got)
	}
	s.build(t, 0, all)
	if got := s.buildOf(s.w, s.ask(0, all).Candidate).Assign; got != "def=1,opt=2,cmd=4,file=5" {
		t.Errorf("%q", got)
	}
	if got := s.buildOf(s.w, s.ask(0, "nosuch=1").Candidate).Assign; got != "nosuch=1" {
		t.Errorf("an unknown flag: %q", got)
	}
	if !s.Holds(s.w, s.ask(0, "def=1,opt=2,arg=7,cmd=4,file=5").Candidate) || s.Holds(s.w, s.ask(0, "def=2,opt=2,cmd=4,file=5").Candidate) {
		t.Error("which candidates the workspace holds")
	}
}

// What processes find in their environment: kbisect's own variables do not leak from one into another, a flag at
// "unset" is not inherited, the user's variables come before the plan's, and flags before both.
func TestEnvironments(t *testing.T) {
	s := newStand(t, kernels.Plan{Build: []string{"true"}, Run: []string{"true"}, Dir: "sub", Env: []string{"PLAN=plan", "USER=plan", "MODE=plan"}}, []fixtures.Change{fixtures.Write("sub/a", "")})
	if err := s.w.Open(s.Opening()); err != nil {
		t.Fatal(err)
	}
	s.Env = []string{"PATH=" + os.Getenv("PATH"), "USER=me", "MODE=mine", "KBISECT_FD=7", "KBISECT_COMMIT=old", kernels.ProbeModules + "=m", "NVCC_APPEND_FLAGS=-lineinfo"}
	s.Flags = []kernels.Flag{{Name: "mode", Env: "MODE"}, {Name: "opt", Option: "-O{value}"}}
	s.Sources = []Source{{Metric: "registers", From: FromStatic}}
	r := s.ask(0, "mode=fast,opt=3")
	common := map[string]string{
		"USER": "me", "PLAN": "plan", "MODE": "fast", "KBISECT_FD": "", "KBISECT_COMMIT": s.ids[0], "KBISECT_PURPOSE": string(bisect.Searching),
		kernels.ProbeModules: "m", "PWD": filepath.Join(s.w.Dir, "sub"),
	}
	for name, c := range map[string]struct {
		make func(*workspace.Workspace, bisect.Request) ([]string, error)
		want map[string]string
	}{
		"build": {func(w *workspace.Workspace, r bisect.Request) ([]string, error) {
			return s.buildEnv(t.Context(), w, r, nil)
		}, map[string]string{"KBISECT_ASSIGN": "", "NVCC_APPEND_FLAGS": "-lineinfo -O3 -Xptxas=-v", "TRITON_CACHE_DIR": filepath.Join(s.w.Tmp, "triton_cache_dir")}},
		"launch": {s.RunEnv, map[string]string{"KBISECT_ASSIGN": "mode=fast,opt=3", "NVCC_APPEND_FLAGS": "-lineinfo -O3", "TRITON_CACHE_DIR": filepath.Join(s.w.Caches.Dir, "triton_cache_dir")}},
	} {
		env, err := c.make(s.w, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []map[string]string{common, c.want} {
			for variable, value := range want {
				if got := proc.Getenv(env, variable); got != value {
					t.Errorf("%s: %s is %q, want %q", name, variable, got, value)
				}
			}
		}
		unset := r
		unset.Candidate.Assign = "mode=unset"
		if env, err = c.make(s.w, unset); err != nil || slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "MODE=") }) {
			t.Errorf("%s: a flag at unset is inherited (%v)", name, err)
		}
		unset.Candidate.Assign = "nosuch=1"
		if _, err := c.make(s.w, unset); err == nil || !strings.Contains(err.Error(), `"nosuch=1" is not a flag of the configuration`) {
			t.Errorf("%s: an unknown flag: %v", name, err)
		}
	}
}

// Options reach every host compiler that a build calls, quotes and spaces in them too; a compiler that nvcc calls has
// them already.
func TestCompilerWrappers(t *testing.T) {
	s := newStand(t, kernels.Plan{Build: []string{"true"}, Run: []string{"true"}}, []fixtures.Change{fixtures.Write("a", "")})
	if err := s.w.Open(s.Opening()); err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	gittest.WriteFiles(t, tools, map[string]string{"gcc": "#!/bin/sh\nfor a in \"$@\"; do printf '<%s>' \"$a\"; done\n"}, 0o777)
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	env, err := compileEnv(s.w, os.Environ(), []string{"-DX=it's a \"b\"", "-O3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	nvcc := filepath.Join(tools, "nvcc") // a process of that name, as the wrapper finds it in /proc
	data, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(nvcc, data, 0o777); err != nil {
		t.Fatal(err)
	}
	for shell, want := range map[string]string{sh: `<-c><a b><-DX=it's a "b"><-O3>`, nvcc: `<-c><a b>`} {
		cmd := exec.Command(shell, "-c", "gcc -c 'a b'; true")
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("called by %s: %s (%v), want %s", filepath.Base(shell), out, err, want)
		}
	}
	again, err := compileEnv(s.w, os.Environ(), []string{"-DX=it's a \"b\"", "-O3"}, nil)
	if d := cmp.Diff(env, again); d != "" || err != nil {
		t.Error(d, err)
	}
	if plain, err := compileEnv(s.w, os.Environ(), nil, nil); err != nil || proc.Getenv(plain, "PATH") != os.Getenv("PATH") {
		t.Errorf("without options: %v", err)
	}
}

// A build command that names a compiler by its full path gets the options there.
func TestArgvOfACompiler(t *testing.T) {
	p := Recipe{Flags: []kernels.Flag{{Name: "opt", Option: "-O{value}"}}}
	for _, c := range []struct{ argv, want []string }{
		{[]string{"/usr/bin/gcc", "a.c"}, []string{"/usr/bin/gcc", "a.c", "-O3"}},
		{[]string{"gcc", "a.c"}, []string{"gcc", "a.c"}},
		{[]string{"/usr/bin/make"}, []string{"/usr/bin/make"}},
	} {
		p.Plan.Build = c.argv
		j := Job{Recipe: p, Request: bisect.Request{Candidate: bisect.Candidate{Assign: "opt=3"}}}
		if got := j.argv(); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
}

// A script that the candidate lacks comes from the user's work tree, a program with a warning; nothing else does.
func TestArgvFromTheWorkTree(t *testing.T) {
	s := newStand(t, kernels.Plan{Dir: "sub", Run: []string{"x"}}, []fixtures.Change{fixtures.Write("a", "")})
	tree := t.TempDir()
	gittest.WriteFiles(t, s.w.Dir, map[string]string{"sub/own.sh": "committed"}, 0o777)
	gittest.WriteFiles(t, tree, map[string]string{"sub/own.sh": "the user's", "sub/new.sh": "#!/bin/sh\n", "sub/prog": "\x7fELF...", "sub/folder/x": "", "sub/short": "EL"}, 0o777)
	s.WorkTree = tree
	for _, c := range []struct {
		run, want []string
		warned    bool
	}{
		{[]string{"./own.sh", "1"}, []string{"./own.sh", "1"}, false},
		{[]string{"./new.sh", "1"}, []string{tree + "/sub/new.sh", "1"}, false},
		{[]string{"python3", "new.sh"}, []string{"python3", tree + "/sub/new.sh"}, false},
		{[]string{"python3", "-c", "new.sh"}, []string{"python3", "-c", "new.sh"}, false},
		{[]string{"./prog", "new.sh"}, []string{tree + "/sub/prog", "new.sh"}, true},
		{[]string{"./short"}, []string{tree + "/sub/short"}, false},
		{[]string{"./folder"}, []string{"./folder"}, false},
		{[]string{"./nowhere"}, []string{"./nowhere"}, false},
		{[]string{"new.sh"}, []string{"new.sh"}, false}, // looked up in PATH
	} {
		before := slices.Clone(c.run)
		got, warning := s.Argv(s.w, c.run)
		if !slices.Equal(got, c.want) || (warning != "") != c.warned || !slices.Equal(before, c.run) {
			t.Errorf("%q: %q, warning %q, want %q", c.run, got, warning, c.want)
		}
	}
	s.WorkTree = ""
	if got, _ := s.Argv(s.w, []string{"./new.sh"}); got[0] != "./new.sh" {
		t.Errorf("without a work tree: %q", got)
	}
}

// The probe goes with Python programs whose times are not compared, unless the user says otherwise.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	gittest.WriteFiles(t, dir, map[string]string{"run": "#!/usr/bin/env python3\n", "sh": "#!/bin/sh\npython\n", "long": "#!" + strings.Repeat("x", 300) + "python\n", "cut": "#!python"}, 0o777)
	for _, c := range []struct {
		probe            Probe
		timing           bool
		argv             []string
		probed, unprobed bool
	}{
		{"", false, []string{"python3.12", "x.py"}, true, false},
		{"", true, []string{"/usr/bin/python3"}, false, true},
		{"", false, []string{"./run"}, true, false},
		{"", false, []string{dir + "/run"}, true, false},
		{"", false, []string{"./sh"}, false, false},
		{"", false, []string{"./long"}, false, false},
		{"", false, []string{"./cut"}, false, false},
		{"", true, []string{"./nowhere"}, false, false},
		{ProbeOn, true, []string{"./sh"}, true, false},
		{ProbeOff, true, []string{"python"}, false, false},
	} {
		if probed, unprobed := c.probe.goesWith(bisect.Request{Timing: c.timing}, dir, c.argv); probed != c.probed || unprobed != c.unprobed {
			t.Errorf("%+v: probed %v, unprobed %v", c, probed, unprobed)
		}
	}
}

// Paths cover the files below them, however they are written.
func TestCovers(t *testing.T) {
	p := Recipe{Paths: []string{"src/", "./a.c", "lib//x"}}
	for file, want := range map[string]bool{"src/a": true, "src": true, "srcs": false, "a.c": true, "b/a.c": false, "lib/x/y": true, "lib/xy": false, "lib": false} {
		if got := p.Covers(file); got != want {
			t.Errorf("%s: %v", file, got)
		}
	}
	if !(Recipe{Paths: []string{"."}}).Covers("anything") || (Recipe{}).Covers("anything") {
		t.Error("the top covers everything, no path nothing")
	}
}
