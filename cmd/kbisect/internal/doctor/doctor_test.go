package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/fixtures/realpython"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// repoWith makes a repository with one commit of files.
func repoWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := writeFiles(t, files)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	realpython.Use()
	os.Exit(m.Run())
}

func examineDir(t *testing.T, dir string) (string, bool) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var out strings.Builder
	good := Run(t.Context(), &out, "devel", dir, "")
	t.Log(out.String())
	return out.String(), good
}

// hasLine looks for one line of the table.
func hasLine(t *testing.T, table, pattern string) {
	t.Helper()
	if !regexp.MustCompile("(?m)^" + pattern).MatchString(table) {
		t.Errorf("no line %q", pattern)
	}
}

func TestDoctorGood(t *testing.T) {
	dir := repoWith(t, map[string]string{"bench.sh": "exit 0\n", config.FileName: "[run]\ncommand = [\"sh\", \"bench.sh\"]\n"})
	table, good := examineDir(t, dir)
	if !good {
		t.Error("not ok")
	}
	hasLine(t, table, `Ready for a search here \(kind command\)`)
	for _, p := range []string{`ok +system`, `ok +git +git version`, `ok +repository .*HEAD [0-9a-f]{12}`, `ok +kbisect.toml .*kind command`,
		`ok +commands +run: /.*sh`, `ok +C compiler .*compiles and runs`, `ok +build cache .* free`, `ok +store`, `ok +hooks +no pre-push`} {
		hasLine(t, table, p)
	}
	if out, err := exec.Command("git", "-C", dir, "status", "--porcelain", "--ignored").Output(); err != nil || len(out) > 0 {
		t.Errorf("left behind: %s, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".git", "kbisect")); err == nil {
		t.Error("the store was made")
	}
}

// TestDoctorInstructions: why they cannot be counted is always said, what to do where they are asked for.
func TestDoctorInstructions(t *testing.T) {
	const run = "[run]\ncommand = [\"sh\"]\n"
	plain, _ := examineDir(t, repoWith(t, map[string]string{config.FileName: run}))
	asked, ready := examineDir(t, repoWith(t, map[string]string{config.FileName: run + "[metric]\nfrom = \"instructions\"\n"}))
	if proc.CanCount() == nil {
		hasLine(t, plain, `ok +instructions +counted by the processor`)
	} else {
		hasLine(t, plain, `missing +instructions +instructions cannot be counted here: `)
		hasLine(t, asked, ` +hint: .*--metric cpu`)
	}
	if ready != (proc.CanCount() == nil) {
		t.Errorf("ready: %v", ready)
	}
}

func TestDoctorNoRepository(t *testing.T) {
	table, good := examineDir(t, t.TempDir())
	if good {
		t.Error("ok without a repository")
	}
	hasLine(t, table, `problem +repository`)
	hasLine(t, table, ` +hint: `)
	hasLine(t, table, `missing +kbisect.toml`)
	hasLine(t, table, `Not ready for a search here .*: fix repository\.`)
}

func TestDoctorBadConfig(t *testing.T) {
	table, good := examineDir(t, repoWith(t, map[string]string{config.FileName: "[run]\nlimt = \"1s\"\n"}))
	if good {
		t.Error("ok with a broken configuration")
	}
	hasLine(t, table, `problem +kbisect.toml .*kbisect.toml:2: run.limt: unknown key; did you mean "limit"`)
}

// TestDoctorPaths replaces PATH by tools that are broken in different ways.
func TestDoctorPaths(t *testing.T) {
	bin := writeFiles(t, map[string]string{
		"cc":      "#!/bin/sh\n[ \"$1\" = --version ] && echo pretend 1.0 && exit\necho cannot find stdio.h >&2\nexit 1\n",
		"make":    "#!/bin/sh\nexit 3\n",
		"ninja":   "#!/bin/sh\nkill -SEGV $$\n",
		"python3": "#!/bin/sh\ncase $1 in --version) echo Python 9.9;; *) echo ImportError: libcudart >&2; exit 1;; esac\n",
	})
	for _, name := range []string{"cc", "make", "ninja", "python3"} {
		if err := os.Chmod(filepath.Join(bin, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := repoWith(t, map[string]string{config.FileName: "kind = \"make\"\n[run]\ncommand = [\"no-such-program\"]\n"})
	t.Setenv("PATH", bin)
	t.Setenv("CC", "")
	table, good := examineDir(t, dir)
	if good {
		t.Error("ok with a broken make")
	}
	for _, p := range []string{`missing +git +not in PATH`, `problem +commands +run: no-such-program not found`, `problem +C compiler .*does not compile: .*stdio`,
		`problem +make .*exited with 3`, `problem +ninja .*signal 11`, `ok +python3 +Python 9.9`, `problem +torch .*libcudart`,
		`missing +cmake`, `Not ready .*: fix commands, make\.`} {
		hasLine(t, table, p)
	}
}

func TestCheckBounded(t *testing.T) {
	slow := check{name: "slow", limit: 20 * time.Millisecond, run: func(ctx context.Context) Finding {
		<-ctx.Done()
		return broken("gave up", "")
	}}
	if f := slow.bounded(t.Context()); f.Found != "gave up" {
		t.Errorf("got %+v", f)
	}
}

func TestDoctorHooks(t *testing.T) {
	dir := repoWith(t, map[string]string{"hooks/pre-push": "#!/bin/sh\nexec kbisect hook pre-push\n"})
	if out, err := exec.Command("git", "-C", dir, "config", "core.hooksPath", "hooks").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	e := open(dir, "")
	defer e.close()
	if f := e.hooks(t.Context()); f.State != StateProblem || !strings.Contains(f.Hint, "chmod") {
		t.Errorf("got %+v", f)
	}
	if err := os.Chmod(filepath.Join(dir, "hooks", "pre-push"), 0o755); err != nil {
		t.Fatal(err)
	}
	if f := e.hooks(t.Context()); f.State != StateOK || !strings.Contains(f.Found, "core.hooksPath) calls kbisect") {
		t.Errorf("got %+v", f)
	}
}

func TestDeviceLine(t *testing.T) {
	d := gpu.Device{Index: 1, UUID: "GPU-1", Name: "NVIDIA H200", MemoryTotal: 141 << 30, ComputeCapability: "9.0", SMClock: 345, SMClockMax: 1980, MemClock: 3201, Temperature: 31, PowerW: 77, PowerLimitW: 700, PersistenceMode: "on"}
	line, hint := deviceLine(d)
	if hint != "" || !strings.HasPrefix(line, "1: NVIDIA H200, 141 GiB, compute capability 9.0, SM 345 of 1980 MHz, memory 3201 MHz, 31 °C, 77 of 700 W, persistence on") {
		t.Errorf("%s\n%s", line, hint)
	}
	d.Processes = []gpu.Process{{PID: 1 << 30, UsedBytes: 3 << 29}}
	if line, hint = deviceLine(d); hint == "" || !strings.Contains(line, "in use by process 1073741824  (1.5 GiB)") {
		t.Errorf("%s\n%s", line, hint)
	}
	d.RecoveryAction = "reset the GPU"
	if line, hint = deviceLine(d); hint == "" || !strings.Contains(line, "asks to reset the GPU") {
		t.Errorf("%s\n%s", line, hint)
	}
	if line, _ = deviceLine(gpu.Device{Index: 2, Absent: []gpu.Absence{{Field: "device", Why: "no permission"}}}); line != "2: no permission" {
		t.Errorf("%s", line)
	}
}

func TestRoomIn(t *testing.T) {
	dir := t.TempDir()
	if f := roomIn(filepath.Join(dir, "a", "b"), ""); f.State != StateOK || !strings.HasSuffix(f.Found, "created when needed") {
		t.Errorf("got %+v", f)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := roomIn(filepath.Join(file, "sub"), "free it"); f.State != StateProblem || f.Hint != "free it" {
		t.Errorf("got %+v", f)
	}
}

// TestDoctorOfLaunchesThatMustFail: what is not configured and what was left to be filled in.
func TestDoctorOfLaunchesThatMustFail(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing to run": {map[string]string{config.FileName: "kind = \"command\"\n"}, `problem +kbisect.toml .*\n +nothing to run`},
		"left open":      {map[string]string{config.FileName: "[run]\n# FILL IN: name it\ncommand = [\"sh\", \"x\"]\n"}, `problem +kbisect.toml .*\n +line 2: # FILL IN: name it`},
	} {
		table, good := examineDir(t, repoWith(t, c.files))
		if good {
			t.Errorf("%s: nothing is in the way", name)
		}
		hasLine(t, table, c.want)
	}
}

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	gittest.WriteFiles(t, dir, files, 0o644)
	return dir
}
