package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// waitDone waits until so many jobs of the queue are done.
func (h *hooked) waitDone(n int) statusDocument {
	h.t.Helper()
	var d statusDocument
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) { // of a hang, not of slowness
		if err := json.Unmarshal([]byte(h.must("hook", "status", "--json")), &d); err != nil {
			h.t.Fatal(err)
		}
		done := 0
		for _, j := range d.Jobs {
			if j.over() {
				done++
			}
		}
		if done >= n && d.WorkerPID == 0 {
			return d
		}
	}
	h.t.Fatalf("%+v", d)
	return d
}

// worker waits until the background works, and returns its process id.
func (h *hooked) worker() int {
	h.t.Helper()
	q := queueOf(filepath.Join(h.dir, ".git"))
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if pid := q.worker(); pid > 1 {
			return pid
		}
	}
	h.t.Fatal("nobody works in the background")
	return 0
}

// TestHookDeadline pushes what takes longer than the deadline: it goes on in the background, and the next push
// is told.
func TestHookDeadline(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	defer func() { t.Logf("\n%s", h.table) }()
	h.git("checkout", "-q", "-b", "topic")
	config := strings.Replace(hookConfig, `warmup = "300ms"`, `warmup = "2s"`, 1)
	bad := h.change(map[string]string{"slow": "30", configName: config}, "longer than anybody waits")
	h.git("checkout", "-q", "-b", "second", "main")
	h.change(map[string]string{"level": "23.0\n", "slow": "0.4", configName: config}, "slow, but well")
	said, code := h.pushWith("two refs, beyond a deadline of 2 s", []string{"KBISECT_HOOK_DEADLINE=2s"}, "origin", "topic", "second")
	h.wants(said, code, 0, `topic .*: not checked: the deadline of 2s came `, `second .*: (not checked|passes): `, `of 2 refs checked in [12]\.\ds`, `left to the background: 2`)
	pid := h.worker()
	var d statusDocument
	if err := json.Unmarshal([]byte(h.must("hook", "status", "--json")), &d); err != nil || len(d.Jobs) != 2 || d.WorkerPID != pid {
		t.Fatalf("%v %+v", err, d)
	}
	if text := h.must("hook", "status"); !strings.Contains(text, "topic") || !strings.Contains(text, "worker  process") {
		t.Error(text)
	}
	// a push that has to be measured goes first
	h.git("checkout", "-q", "-b", "third", "main")
	h.change(map[string]string{"wrong": "x"}, "wrong")
	said, code = h.push("while the background works", "origin", "third")
	h.wants(said, code, 1, `third .*: regression: B is worse: it fails in 2 of 2 launches`, `!left to the background`)
	if next := h.worker(); next == pid {
		t.Errorf("process %d works on", pid)
	}
	h.git("branch", "alike", "main")
	said, code = h.push("equal inputs, with work left", "origin", "alike")
	h.wants(said, code, 0, `alike .*: passes: the remote has this commit`)
	earlier := said // the background may be done with topic at any time, and it is told by the next push
	// the worker is killed; the next push has another go on
	h.killWorkers()
	if text := h.must("hook", "status"); !strings.Contains(text, "worker  none: the next push goes on") {
		t.Error(text)
	}
	said, code = h.push("nothing new, while a worker was killed", "origin", "alike:refs/heads/alike1")
	h.wants(said, code, 0, `alike1 .*: passes: the remote has this commit`)
	earlier += said
	d = h.waitDone(2)
	for _, j := range d.Jobs {
		want := map[bool]string{true: "regression", false: "no-difference"}[j.Commit == bad]
		if j.Result != want && !(j.Commit != bad && j.Result == "cannot-tell") {
			t.Errorf("%+v", j)
		}
	}
	h.git("branch", "again", "topic")
	said, code = h.push("the same commit, known by now", "origin", "topic:refs/heads/again")
	h.wants(earlier+said, code, 0, `pushed earlier: topic .*B is worse: it fails in 2 of 2 launches.*timeout in warmup`, `again .* passes: the remote has this commit`)
	said, _ = h.push("told once", "origin", "alike:refs/heads/alike2")
	h.wants(said, 0, 0, `!pushed earlier`)
	h.git("checkout", "-q", "topic") // with the limits that the background went by
	h.git("update-ref", "-d", "refs/remotes/origin/topic")
	h.git("update-ref", "-d", "refs/remotes/origin/again")
	said, code = h.push("a regression that the background found", "origin", "topic:refs/heads/anew")
	h.wants(said, code, 1, `anew .* regression: B is worse: .*\(kbisect show `)
}

// killWorkers kills the background until none is left: two pushes in a row may each have begun one, of which
// the second waits a moment for the first.
func (h *hooked) killWorkers() {
	q := queueOf(filepath.Join(h.dir, ".git"))
	for calm, deadline := 0, time.Now().Add(time.Minute); calm < 15 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		calm++
		if pid := q.worker(); pid > 0 {
			calm = 0
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
		}
	}
}

// TestHookHangs has kbisect itself hang where no limit holds, in reading a pipe: the push goes on at the deadline.
func TestHookHangs(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.change(map[string]string{"level": "23.0\n", configName: ""}, "written otherwise")
	if err := syscall.Mkfifo(filepath.Join(h.dir, configName), 0o666); err != nil {
		t.Fatal(err)
	}
	said, code := h.pushWith("kbisect hangs", []string{"KBISECT_HOOK_DEADLINE=1s"}, "origin", "main")
	h.wants(said, code, 0, `main .*: not checked: the deadline of 1s came before its turn`, `0 of 1 refs checked`)
	if err := syscall.Kill(h.worker(), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// TestQueueDamage leaves files alone that are no jobs, and goes on with the others.
func TestQueueDamage(t *testing.T) {
	q := queue{t.TempDir()}
	id := strings.Repeat("a", 40)
	for i := range 3 {
		if err := q.put(queued{ID: fmt.Sprint(i), Commit: id, State: jobDone, Queued: time.Unix(int64(i), 0)}); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"x": "", "y": `{"id":"z","commit":"` + id + `"}`, "z": `{"id":"z","commit":"--upload-pack=x"}`} {
		os.WriteFile(q.path(name), []byte(text), 0o666)
	}
	all, err := q.all()
	if len(all) != 3 || err == nil || strings.Count(err.Error(), "is no job of the queue") != 3 {
		t.Errorf("%+v\n%v", all, err)
	}
	if j, ok := q.next(); ok {
		t.Errorf("next is %+v", j)
	}
	first := q.lock()
	if first == nil || q.lock() != nil || q.worker() != os.Getpid() {
		t.Error("the lock does not hold")
	}
	first.Close()
	if q.worker() != 0 {
		t.Error("the lock holds on")
	}
}
