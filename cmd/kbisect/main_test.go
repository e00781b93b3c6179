package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/fixtures/realpython"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

var update = flag.Bool("update", false, "rewrite what the stories expect")

// TestMain lets the test binary pose as kbisect and as the warden of its trials.
func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	testscript.Main(tests{m}, map[string]func(){"kbisect": pose})
}

// nextVariable names the folder of a story in which commands that were printed are tried.
const nextVariable = "KBISECT_TEST_NEXT"

// pose is main. In a story it then tries each command that the report names as the next, as it is printed.
func pose() {
	folder := os.Getenv(nextVariable)
	if folder == "" || proc.Warden() {
		main()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var said bytes.Buffer
	code := run(ctx, os.Args, os.Stdin, io.MultiWriter(os.Stdout, &said), os.Stderr)
	stop()
	for _, line := range nextCommands(said.String()) {
		if why := tryNext(folder, line); why != "" {
			fmt.Fprintf(os.Stderr, "the next command cannot be pasted: %s\n%s\n", line, why)
			os.Exit(exit.Internal)
		}
	}
	os.Exit(code)
}

// anID matches what differs between two commands of one form.
var anID = regexp.MustCompile(`\b(\d{8}-\d{6}-)?[0-9a-f]{4,40}\b`)

// nextCommands are the commands to type next that an answer ends with.
func nextCommands(answer string) (out []string) {
	const name, indent = "  next        ", "              "
	_, rest, found := strings.Cut("\n"+answer, "\n"+name)
	if !found {
		return nil
	}
	rest = strings.ReplaceAll(rest, " \\\n"+indent+"  ", " ") // a long one is folded
	for line := range strings.Lines(indent + rest) {
		command, more := strings.CutPrefix(line, indent)
		if !more {
			break
		}
		out = append(out, strings.TrimSpace(command))
	}
	return out
}

// tryNext pastes a command into a shell, in a copy of the repository, until its first launch begins; it returns what
// the command says where that is a mistake. Of each form of a command one is tried in a story.
func tryNext(folder, line string) string {
	form := sha256.Sum256([]byte(anID.ReplaceAllString(line, "")))
	trial := filepath.Join(folder, hex.EncodeToString(form[:8]))
	if !strings.HasPrefix(line, "kbisect ") || os.Mkdir(trial, 0o777) != nil {
		return ""
	}
	here, err := os.Getwd()
	if err != nil {
		return err.Error()
	}
	from, inside := here, ""
	if top, err := exec.Command("git", "rev-parse", "--show-toplevel", "--show-prefix").Output(); err == nil {
		from, inside, _ = strings.Cut(strings.TrimSpace(string(top)), "\n")
	}
	if out, err := exec.Command("cp", "-a", from+"/.", trial).CombinedOutput(); err != nil {
		return string(out)
	}
	cmd := exec.Command("sh", "-c", "exec "+line)
	cmd.Dir, cmd.Env = filepath.Join(trial, inside), append(os.Environ(), nextVariable+"=", "CI=", "GITHUB_ACTIONS=", "GITLAB_CI=") // who reads the log of a CI pastes it at home
	var said bytes.Buffer
	pipe, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err.Error()
	}
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "(limit ") { // a launch: all that was given is understood
			cmd.Process.Signal(os.Interrupt)
		}
	}
	cmd.Wait()
	if cmd.ProcessState.ExitCode() == exit.UsageError {
		return said.String()
	}
	return ""
}

// tests starts them with Python itself, even where the PATH leads to a shim.
type tests struct{ *testing.M }

func (t tests) Run() int {
	realpython.Use()
	var err error
	if watched, err = exec.LookPath("kbisect"); err != nil {
		panic(err) // testscript.Main has put it there
	}
	dir, err := os.MkdirTemp("", "kbisect-tools-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = errors.Join(buildPlain(dir), keepGoCache(), os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return t.M.Run()
}

// watched is the test binary as kbisect, with the race detector where the tests are built with it. Tests and stories
// in which much runs side by side use it. The others start kbisect hundreds of times, and once more for each trial,
// which would take twice as long.
var watched string

// buildPlain builds this program, which poses as kbisect, without the race detector where the tests have it.
func buildPlain(dir string) error {
	info, _ := debug.ReadBuildInfo()
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return nil
	}
	if out, err := exec.Command("go", "test", "-c", "-race=false", "-vet=off", "-ldflags=-s -w", "-o", filepath.Join(dir, "kbisect"), ".").CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return nil
}

// keepGoCache names the build cache of Go, which a program with another home would fill anew for a minute.
func keepGoCache() error {
	dir, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	return os.Setenv("GOCACHE", strings.TrimSpace(string(dir)))
}

// testEnv is an environment in which git and kbisect know nothing of the machine's user.
func testEnv(home string) []string {
	wd, _ := os.Getwd() // of the package
	return []string{
		"HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(home, "cache"),
		"GOCACHE=" + os.Getenv("GOCACHE"), "GIT_CONFIG_GLOBAL=" + filepath.Join(wd, "testdata/gitconfig"), "GIT_CONFIG_SYSTEM=/dev/null",
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
			folder := t.TempDir()
			e.Vars = append(append(e.Vars, testEnv(e.WorkDir)...), nextVariable+"="+folder)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"watched": func(s *testscript.TestScript, _ bool, _ []string) {
				s.Setenv("PATH", filepath.Dir(watched)+string(filepath.ListSeparator)+s.Getenv("PATH"))
			},
		},
	})
}

// repo is a real repository for tests.
type repo struct {
	t       *testing.T
	dir     string
	home    string
	watched bool // use the kbisect of this name
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
	return r.pipe("", args...)
}

// pipe is git with a standard input.
func (r *repo) pipe(stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = r.dir, r.env(), strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// command is kbisect as a process of its own.
func (r *repo) command(args ...string) *exec.Cmd {
	name := "kbisect"
	if r.watched {
		name = watched
	}
	cmd := exec.Command(name, args...)
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

// gate runs a gate in a GitHub job, and returns everything that it wrote, by its name.
func (r *repo) gate(args ...string) (files map[string]string, code int) {
	r.t.Helper()
	dir := r.t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	cmd := r.command(append([]string{"gate", "--base", "main", "--quiet", "--json", "--junit", at("junit"), "--sarif", at("sarif"), "--markdown", at("markdown")}, args...)...)
	cmd.Env = append(cmd.Env, "GITHUB_ACTIONS=true", "GITHUB_STEP_SUMMARY="+at("summary"), "GITHUB_OUTPUT="+at("outputs"))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	files = map[string]string{"json": out.String(), "stderr": errs.String()}
	for _, name := range []string{"junit", "sarif", "markdown", "summary", "outputs"} {
		data, _ := os.ReadFile(at(name))
		files[name] = string(data)
	}
	return files, cmd.ProcessState.ExitCode()
}

// put writes files into the work tree.
func (r *repo) put(files map[string]string) {
	r.t.Helper()
	gittest.WriteFiles(r.t, r.dir, files, 0o755)
}

// beside reads what such scripts wrote: for each purpose 2 where one of its trials ran beside any other,
// else 1; and how many came to their end.
func (r *repo) beside() (most map[string]int, ended int) {
	r.t.Helper()
	path := filepath.Join(r.home, "log")
	data, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		r.t.Fatal(err)
	}
	type trial struct {
		pid, purpose string
		from, to     int // lines; to is 0 while there is no end
	}
	var trials []*trial
	for line, text := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		f := strings.Fields(text)
		if len(f) != 3 {
			r.t.Fatalf("%q", text)
		}
		if f[0] == "start" {
			trials = append(trials, &trial{pid: f[1], purpose: f[2], from: line})
			continue
		}
		for _, x := range slices.Backward(trials) { // process numbers come again
			if x.pid == f[1] {
				x.to = line
				break
			}
		}
	}
	most = map[string]int{}
	for _, x := range trials {
		if x.to == 0 {
			continue
		}
		ended++
		most[x.purpose] = max(most[x.purpose], 1)
		for _, o := range trials {
			if o != x && o.from > x.from && o.from < x.to {
				most[o.purpose], most[x.purpose] = 2, 2
			}
		}
	}
	return most, ended
}
