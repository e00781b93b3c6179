package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/store"
)

// hooked is a repository with the hook installed, and a bare remote.
type hooked struct {
	*repo
	remote string
	table  *strings.Builder // of situations and wall times
}

// hookBench is a benchmark without noise; other files of the tree say how it fails.
const hookBench = `{ echo phase: measure; for k in 1 2 3; do echo "sample: $(cat level) us"; done; } >&$KBISECT_FD
test ! -e infra || echo "infra: $(cat infra)" >&$KBISECT_FD
test ! -e wrong || exit 7
test ! -e slow || { echo phase: warmup >&$KBISECT_FD; sleep "$(cat slow)"; }
`

const hookConfig = `version = 1
kind = "make"
[build]
command = ["make"]
limit = "20s"
[run]
command = ["sh", "./bench.sh"]
limit = "60s"
[run.limits]
warmup = "300ms"
[device]
gpus = "none"
`

func newHooked(t *testing.T) *hooked {
	t.Helper()
	h := &hooked{repo: newRepo(t), remote: filepath.Join(t.TempDir(), "remote.git"), table: &strings.Builder{}}
	h.git("init", "-q", "--bare", h.remote)
	h.git("remote", "add", "origin", h.remote)
	h.change(map[string]string{"bench.sh": hookBench, config.FileName: hookConfig, "Makefile": "all:\n\ttest ! -e unbuilt\n", "level": "23\n"}, "the base")
	h.git("push", "-q", "origin", "main")
	h.must("hook", "install")
	return h
}

// must runs kbisect and wants it to end well.
func (h *hooked) must(args ...string) string {
	h.t.Helper()
	out, errs, code := h.kbisect(args...)
	if code != 0 {
		h.t.Fatalf("kbisect %q: %d\n%s%s", args, code, out, errs)
	}
	return out
}

// change writes files, "" removes one, and commits.
func (h *hooked) change(files map[string]string, subject string) (commit string) {
	h.t.Helper()
	for name, text := range files {
		path := filepath.Join(h.dir, name)
		if text == "" {
			os.Remove(path)
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			h.t.Fatal(err)
		}
	}
	h.git("add", "-A")
	h.git("commit", "-q", "--allow-empty", "-m", subject)
	return h.git("rev-parse", "HEAD")
}

// push pushes as a user does, and notes how long it took.
func (h *hooked) push(what string, args ...string) (said string, code int) {
	h.t.Helper()
	return h.pushWith(what, nil, args...)
}

func (h *hooked) pushWith(what string, env []string, args ...string) (said string, code int) {
	h.t.Helper()
	cmd := exec.Command("git", append([]string{"push"}, args...)...)
	cmd.Dir, cmd.Env = h.dir, append(h.env(), env...)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	wall := time.Since(began)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	end := map[bool]string{true: "pushed", false: "stopped"}[err == nil]
	fmt.Fprintf(h.table, "%-44s %-8s %6.2f s\n", what, end, wall.Seconds())
	return string(out), cmd.ProcessState.ExitCode()
}

// wants checks what a push said, and whether it went on.
func (h *hooked) wants(said string, code, wantCode int, patterns ...string) {
	h.t.Helper()
	if code != wantCode {
		h.t.Errorf("exit %d, want %d:\n%s", code, wantCode, said)
	}
	for _, p := range patterns {
		want := !strings.HasPrefix(p, "!")
		if regexp.MustCompile("(?m)"+strings.TrimPrefix(p, "!")).MatchString(said) != want {
			h.t.Errorf("%q:\n%s", p, said)
		}
	}
}

// TestHookSituations pushes in every situation of git's conventions. The table of wall times is in the log.
func TestHookSituations(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	defer func() { t.Logf("\n%s", h.table) }()
	base := h.git("rev-parse", "HEAD")

	h.change(map[string]string{"level": "23.0\n"}, "written otherwise")
	said, code := h.push("one branch, no difference", "origin", "main")
	h.wants(said, code, 0, `main .* against .* \(A, main on origin\): passes: No difference of 3 %`, `1 of 1 refs decided`)

	said, code = h.push("nothing to push", "origin", "main")
	h.wants(said, code, 0, `^Everything up-to-date$`, `!kbisect`)

	h.change(nil, "an empty commit")
	said, code = h.push("the same tree", "origin", "main")
	h.wants(said, code, 0, `passes: the same tree`)

	h.change(map[string]string{"level": "25\n"}, "more work")
	said, code = h.push("slower", "origin", "main")
	h.wants(said, code, 1, `regression: B is worse: time \+8\.\d % \(99 % CI`, `push stopped after`, `hint: kbisect run --good`)
	said, code = h.push("slower, known from the store", "origin", "main")
	h.wants(said, code, 1, `regression: B is worse: .*\(kbisect show 2`)
	h.git("commit", "-q", "--amend", "-m", "more work, in other words")
	said, code = h.push("slower, amended: known by its inputs", "origin", "main")
	h.wants(said, code, 1, `regression: .*\(kbisect show 2`)
	said, code = h.pushWith("KBISECT_SKIP=1", []string{"KBISECT_SKIP=1"}, "--dry-run", "origin", "main")
	h.wants(said, code, 0, `KBISECT_SKIP is set: this push is not checked`, `!regression`)
	said, code = h.push("--no-verify", "--no-verify", "--dry-run", "origin", "main")
	h.wants(said, code, 0, `!kbisect`)

	h.git("reset", "-q", "--hard", "origin/main")
	h.change(map[string]string{"wrong": "x"}, "wrong")
	said, code = h.push("wrong results", "origin", "main")
	h.wants(said, code, 1, `regression: B is worse: it fails in 2 of 2 launches, A in none of 2: wrong in measure: exit 7`)

	h.git("reset", "-q", "--hard", "origin/main")
	h.change(map[string]string{"slow": "30"}, "a slow warm-up")
	said, code = h.push("a time-out of a phase", "origin", "main")
	h.wants(said, code, 1, `regression: B is worse: .*timeout in warmup: warmup reached its limit of 300ms`)

	h.git("reset", "-q", "--hard", "origin/main")
	h.change(map[string]string{"unbuilt": "x"}, "no build")
	said, code = h.push("unbuildable", "origin", "main")
	h.wants(said, code, 1, `regression: B is worse: it fails in 1 of 1 launches, A in none of 1: build-failed`)

	h.git("reset", "-q", "--hard", "origin/main")
	h.git("checkout", "-q", "-b", "topic")
	h.change(nil, "a topic")
	said, code = h.push("a new branch", "origin", "topic")
	h.wants(said, code, 0, `topic .* \(A, the nearest commit on origin\): passes: the same tree`)

	h.git("checkout", "-q", "-b", "other", "main")
	h.change(map[string]string{"level": "25\n"}, "slow, with a baseline")
	h.must("baseline", "record", "--launches", "2", "--quiet")
	h.git("checkout", "-q", "-b", "third", "main")
	h.change(map[string]string{"wrong": "x"}, "wrong elsewhere")
	h.git("tag", "v1")
	said, code = h.push("several refs, one of them bad", "origin", "other", "third", "v1", ":topic")
	h.wants(said, code, 1, `other .*: passes: a baseline is recorded \(kbisect baseline show 2`, `third .*: regression: `, `skipped: .*v1 \(tag\)`, `topic \(deleted\)`)
	said, code = h.push("several refs, known from the store", "origin", "other", "v1", ":topic")
	h.wants(said, code, 0, `1 of 1 refs decided`)
	said, code = h.push("a tag alone", "--force", "origin", "other:refs/tags/v1")
	h.wants(said, code, 0, `skipped: v1 \(tag\)`, `!refs decided`)
	said, code = h.push("a delete alone", "origin", ":refs/tags/v1")
	h.wants(said, code, 0, `skipped: v1 \(deleted\)`)

	h.git("checkout", "-q", "main")
	h.git("reset", "-q", "--hard", base)
	h.change(map[string]string{"level": "23.0\n"}, "history rewritten")
	said, code = h.push("not forced, refused by git", "origin", "main")
	h.wants(said, code, 1, `rejected`, `!kbisect`)
	said, code = h.push("a forced push", "--force", "origin", "main")
	h.wants(said, code, 0, `main .* \(A, main on origin\): passes: the same tree`)
}

// TestHookRemote has others push in between, and pushes where nothing is known.
func TestHookRemote(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	defer func() { t.Logf("\n%s", h.table) }()
	their := t.TempDir()
	h.git("clone", "-q", "-b", "main", h.remote, their)
	h.git("-C", their, "commit", "-q", "--allow-empty", "-m", "theirs")
	h.git("-C", their, "push", "-q", "origin", "main")
	h.change(nil, "ours")
	said, code := h.push("forced over what is not known here", "--force", "origin", "main")
	h.wants(said, code, 0, `\(A, the nearest commit on origin; its main is not fetched\): passes: the same tree`)

	empty := filepath.Join(t.TempDir(), "empty.git")
	h.git("init", "-q", "--bare", empty)
	said, code = h.push("to a URL", empty, "main:refs/heads/x")
	h.wants(said, code, 0, `x .* passes: the remote has this commit`)
	h.git("update-ref", "-d", "refs/remotes/origin/main")
	h.change(map[string]string{"level": "23\n"}, "first")
	said, code = h.push("the first push to an empty remote", empty, "main")
	h.wants(said, code, 0, `^kbisect: main [0-9a-f]{10}: passes: `)
	h.change(map[string]string{"wrong": "x"}, "wrong from the start")
	said, code = h.push("the first push, failing", empty, "HEAD:refs/heads/y")
	h.wants(said, code, 1, `y [0-9a-f]{10}: regression: .*wrong in measure: exit 7`, `!kbisect run --good`)

	h.git("push", "-q", "--no-verify", "origin", "main")
	h.change(map[string]string{"level": "26\n"}, "still wrong")
	said, code = h.push("failing as its base does", "origin", "main")
	h.wants(said, code, 0, `passes: Cannot tell: both fail in the same way`)
}

// TestHookMachine spoils machine, store and configuration: no push is stopped for that.
func TestHookMachine(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	defer func() { t.Logf("\n%s", h.table) }()
	h.change(map[string]string{"infra": "the device fell off the bus"}, "machine trouble")
	said, code := h.pushWith("machine trouble", []string{"KBISECT_HOOK_DEADLINE=soon"}, "--dry-run", "origin", "main")
	h.wants(said, code, 0, `not decided: .*the device fell off the bus`, `warning: KBISECT_HOOK_DEADLINE: invalid duration "soon".*using 30s`)

	h.git("reset", "-q", "--hard", "origin/main")
	h.change(map[string]string{"wrong": "x"}, "wrong")
	st, err := store.Open(filepath.Join(h.dir, ".git", "kbisect"), store.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := st.Lock("another")
	if err != nil {
		t.Fatal(err)
	}
	said, code = h.push("the store is busy", "--dry-run", "origin", "main")
	h.wants(said, code, 0, `not decided: another run works on this repository: .*session another`, `^hint: kbisect compare [0-9a-f]{10} [0-9a-f]{10} decides it$`)
	lock.Unlock()
	st.Close()

	if err := os.WriteFile(filepath.Join(h.dir, config.FileName), []byte("version = 2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	said, code = h.push("a configuration that is wrong", "--dry-run", "origin", "main")
	h.wants(said, code, 0, `this push is not checked: .*kbisect\.toml`)
	os.Remove(filepath.Join(h.dir, config.FileName))
	said, code = h.push("no configuration", "--dry-run", "origin", "main")
	h.wants(said, code, 0, `this push is not checked: .*kbisect\.toml does not exist`, `!a command`)
	h.git("checkout", "-q", config.FileName)

	path := filepath.Join(h.dir, ".git", "kbisect", "kbisect.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	said, code = h.push("a damaged store", "--dry-run", "origin", "main")
	h.wants(said, code, 0, `this push is not checked: open the store: .* is damaged`)
	os.WriteFile(path, whole, 0o666)

	hook := filepath.Join(h.dir, ".git", "hooks", "pre-push")
	script, err := os.ReadFile(hook)
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^kbisect='.*'$`)
	for name, program := range map[string]string{"kbisect ends badly": "#!/bin/sh\nexit 70\n", "kbisect is killed": "#!/bin/sh\nkill -9 $$\n", "kbisect is not for this machine": "\x7fELF"} {
		fake := filepath.Join(t.TempDir(), "fake")
		os.WriteFile(fake, []byte(program), 0o777)
		os.WriteFile(hook, lines.ReplaceAll(script, []byte("kbisect='"+fake+"'")), 0o777)
		said, code = h.push(name, "--dry-run", "origin", "main")
		h.wants(said, code, 0, `this push is not checked`)
	}
	os.WriteFile(hook, lines.ReplaceAll(script, []byte("kbisect='/nonexistent/kbisect'")), 0o777)
	said, code = h.pushWith("kbisect is gone", []string{"PATH=/usr/bin:/bin"}, "--dry-run", "origin", "main")
	h.wants(said, code, 0, `the program is not found: this push is not checked`)
	said, code = h.push("kbisect has moved, and is on the PATH", "--dry-run", "origin", "main")
	h.wants(said, code, 1, `regression: `)
}

// undecidedHint matches the line that names the command which decides a push.
var undecidedHint = regexp.MustCompile(`(?m)^hint: kbisect (compare [0-9a-f]{10} [0-9a-f]{10}|measure [0-9a-f]{10}) decides it$`)

// TestHookDeadline pushes what takes longer than the deadline: it passes with the command that decides it, whose
// result decides the next push.
func TestHookDeadline(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.watched = true
	h.must("hook", "install")
	defer func() { t.Logf("\n%s", h.table) }()
	base := h.git("rev-parse", "HEAD")
	h.git("checkout", "-q", "-b", "topic")
	text := strings.Replace(hookConfig, `warmup = "300ms"`, `warmup = "2s"`, 1)
	bad := h.change(map[string]string{"slow": "30", config.FileName: text}, "longer than anybody waits")
	short := []string{"KBISECT_HOOK_DEADLINE=2s"}
	said, code := h.pushWith("beyond a deadline of 2 s", short, "origin", "topic")
	h.wants(said, code, 0, `topic .*: not decided: the 2s deadline came `, `^hint: kbisect compare `+base[:10]+" "+bad[:10]+` decides it$`, `0 of 1 refs decided in [12]\.\ds`)
	h.pushed("topic", bad)
	if h.runsOn() {
		t.Error("a trial runs on after the push")
	}
	command := undecidedHint.FindStringSubmatch(said)
	if command == nil {
		t.Fatal(said)
	}
	if out, errs, code := h.kbisect(append(strings.Fields(command[1]), "--quiet")...); code != exit.Regression {
		t.Fatalf("%s: %d\n%s%s", command[1], code, out, errs)
	}
	h.git("update-ref", "-d", "refs/remotes/origin/topic")
	said, code = h.pushWith("the same commit, after the command", short, "origin", "topic:refs/heads/anew")
	h.wants(said, code, 1, `anew .*: regression: B is worse: it fails in 2 of 2 launches.*timeout in warmup.*\(kbisect show `, `!decides it`)

	h.git("checkout", "-q", "-b", "second", "main")
	good := h.change(map[string]string{"level": "23.0\n", "slow": "0.4", config.FileName: text}, "slow, but well")
	h.git("checkout", "-q", "-b", "third", "main")
	h.change(map[string]string{"level": "23.00\n", "slow": "0.4", config.FileName: text}, "the same, written otherwise")
	said, code = h.pushWith("two refs, beyond a deadline of 2 s", short, "origin", "second", "third")
	h.wants(said, code, 0, `second .*: not decided: `, `third .*: not decided: `, `0 of 2 refs decided in [12]\.\ds`)
	if n := len(undecidedHint.FindAllString(said, -1)); n != 2 {
		t.Errorf("%d commands:\n%s", n, said)
	}
	h.pushed("second", good)

	h.git("checkout", "-q", "-b", "orphan", "second")
	empty := filepath.Join(t.TempDir(), "empty.git")
	h.git("init", "-q", "--bare", empty)
	for _, ref := range strings.Fields(h.git("for-each-ref", "--format=%(refname)", "refs/remotes")) {
		h.git("update-ref", "-d", ref)
	}
	first := h.change(map[string]string{"slow": "1.9"}, "the first push")
	said, code = h.pushWith("nothing to compare with, beyond a deadline of 2 s", short, empty, "orphan")
	h.wants(said, code, 0, `orphan [0-9a-f]{10}: not decided: the 2s deadline came `, `^hint: kbisect measure `+first[:10]+` decides it$`)
}

// pushed wants the remote to have a commit on a branch.
func (h *hooked) pushed(branch, commit string) {
	h.t.Helper()
	if got := h.git("ls-remote", "origin", "refs/heads/"+branch); got != commit+"\trefs/heads/"+branch {
		h.t.Errorf("the remote has %q on %s, want %s", got, branch, commit)
	}
}

// runsOn reports that a process of a trial runs, whose work tree is in the user's cache.
func (h *hooked) runsOn() bool {
	found, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, link := range found {
		if dir, err := os.Readlink(link); err == nil && strings.HasPrefix(dir, h.home) {
			return true
		}
	}
	return false
}

// TestHookHangs has kbisect itself hang where no limit holds, in a store that another program has locked: the push
// goes on at the deadline.
func TestHookHangs(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.must("measure", "--launches", "1")
	h.change(map[string]string{"level": "23.0\n"}, "written otherwise")
	db, err := sql.Open("sqlite", filepath.Join(h.dir, ".git", "kbisect", "kbisect.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE sessions SET seed = seed"); err != nil {
		t.Fatal(err)
	}
	said, code := h.pushWith("kbisect hangs", []string{"KBISECT_HOOK_DEADLINE=1s"}, "origin", "main")
	h.wants(said, code, 0, `main .*: not decided: the 1s deadline came before its turn`, undecidedHint.String(), `0 of 1 refs decided in 1\.\ds`)
}

// TestHookOldQueue has the files of a version that kept a queue: they mean nothing, and stay as they are.
func TestHookOldQueue(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	base := h.git("rev-parse", "HEAD")
	old := filepath.Join(h.dir, ".git", "kbisect", "hook")
	files := map[string]string{
		"1.job.json":  `{"id": "1", "ref": "main", "base": "` + base + `", "commit": "` + base + `", "state": "queued"}`,
		"2.job.json":  `{"id": "2", "ref": "main", "commit": "` + base + `", "state": "done", "result": "regression", "verdict": "B is worse."}`,
		"worker.lock": "1\n",
	}
	if err := os.MkdirAll(old, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(old, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	h.must("measure", "--launches", "1", "--quiet")
	h.change(map[string]string{"level": "23.0\n"}, "written otherwise")
	said, code := h.push("", "origin", "main")
	h.wants(said, code, 0, `main .*: passes: No difference of 3 %`, `!pushed earlier`)
	for name, text := range files {
		if now, err := os.ReadFile(filepath.Join(old, name)); err != nil || string(now) != text {
			t.Errorf("%s: %v\n%s", name, err, now)
		}
	}
}

// TestHookEvidence has sessions of other devices, other rules and other flags decide nothing.
func TestHookEvidence(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	good := h.git("rev-parse", "HEAD")
	bad := h.change(map[string]string{"level": "23.0\n"}, "written otherwise")
	h.must("compare", good, bad, "--pairs", "5", "--quiet")
	st, err := store.Open(filepath.Join(h.dir, ".git", "kbisect"), store.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	own, err := st.Session("last")
	if err != nil {
		t.Fatal(err)
	}
	plant := func(id, uuid, effect, candidate string) {
		s := own
		s.ID, s.Created, s.Status = id, own.Created.Add(time.Hour), "regression"
		s.Config = bytes.ReplaceAll(s.Config, []byte(`"Effect":0.03`), []byte(`"Effect":`+effect))
		if err := st.CreateSession(s); err != nil {
			t.Fatal(err)
		}
		o := bisect.Outcome{Class: bisect.OK}
		if uuid != "" {
			o.Devices = []bisect.DeviceNote{{UUID: uuid, Before: json.RawMessage("null"), After: json.RawMessage("null"), Change: json.RawMessage("null")}}
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.AddLaunch(store.Launch{Session: s.ID, Seq: 1, Candidate: candidate, Commit: bad, Purpose: "end-bad", Class: "ok", Started: s.Created, Outcome: data}); err != nil {
			t.Fatal(err)
		}
	}
	plant("29990101-000000-aaaa", "GPU-0", "0.03", bad)
	plant("29990101-000000-bbbb", "", "0.02", bad)
	plant("29990101-000000-bbbc", "", "0.03", bad+":fast=on")
	said, code := h.push("", "--dry-run", "origin", "main")
	h.wants(said, code, 0, `passes: No difference of 3 % .*\(kbisect show `+own.ID)
	plant("29990101-000000-cccc", "", "0.03", bad)
	st.Close()
	said, code = h.push("", "--dry-run", "origin", "main")
	h.wants(said, code, 1, `regression: .*\(kbisect show 29990101-000000-cccc\)`)
}

// TestHookInterrupted stops a push by Ctrl-C: nothing is pushed, and nothing runs on.
func TestHookInterrupted(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.change(map[string]string{"slow": "0.9", "level": "23.0\n"}, "slow, but well")
	cmd := exec.Command("git", "push", "origin", "main")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = h.dir, h.env(), &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	logs := filepath.Join(h.dir, ".git", "kbisect", "logs", "*", "*run*")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if found, _ := filepath.Glob(logs); len(found) > 0 {
			break
		}
		if time.Now().After(deadline) {
			cmd.Wait()
			t.Fatalf("no trial runs: %v\n%s", cmd.ProcessState, out.String())
		}
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Errorf("pushed:\n%s", out.String())
	}
	if h.git("ls-remote", "origin", "refs/heads/main") == h.git("rev-parse", "HEAD")+"\trefs/heads/main" {
		t.Error("the remote has it")
	}
	if h.runsOn() {
		t.Error("a trial runs on")
	}
}
