package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
)

var update = flag.Bool("update", false, "rewrite what the stories expect")

// TestMain lets the test binary pose as kbisect and as the warden of its trials.
func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	testscript.Main(tests{m}, map[string]func(){"kbisect": main})
}

// tests are run past a shim for python3 that the PATH may hold: it takes longer to find the interpreter than
// most of what is run here.
type tests struct{ *testing.M }

func (t tests) Run() int {
	found, _ := exec.LookPath("python3")
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if python := strings.TrimSpace(string(out)); err == nil && python != "" && !source.SameFile(python, found) {
		os.Setenv("PATH", filepath.Dir(python)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	return t.M.Run()
}

// testEnv is an environment in which git and kbisect know nothing of the machine's user.
func testEnv(home string) []string {
	return []string{
		"HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(home, "cache"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
		"GORACE=atexit_sleep_ms=0", // else each kbisect waits for a second at its end, where it is built with the race detector
	}
}

// TestStories runs the stories of testdata/script: one file holds a repository to make, the
// commands of a user, and what they must say.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, testEnv(e.WorkDir)...)
			return nil
		},
	})
}

// repo is a real repository for tests.
type repo struct {
	t    *testing.T
	dir  string
	home string
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t: t, dir: t.TempDir(), home: t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repo) env() []string {
	env := []string{}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			env = append(env, v)
		}
	}
	return append(env, testEnv(r.home)...)
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = r.dir, r.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// command is kbisect as a process of its own.
func (r *repo) command(args ...string) *exec.Cmd {
	cmd := exec.Command("kbisect", args...) // the test binary, which testscript.Main put on the PATH
	cmd.Dir, cmd.Env = r.dir, r.env()
	return cmd
}

// kbisect runs it to its end.
func (r *repo) kbisect(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	cmd := r.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const taskYML = `
lang: py
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "eval.py", "source": "eval.py"}
config: {main: "eval.py"}
description: adds
tests:
  - {"n": 8, "seed": 1}
benchmarks:
  - {"n": 64, "seed": 2}
`
