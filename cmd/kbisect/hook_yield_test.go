package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/pipeline/store"
)

// busy waits until the background has the repository, and returns its process id.
func (h *hooked) busy(st *store.Store) int {
	h.t.Helper()
	pid := h.worker()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if st.Running() != "" {
			return pid
		}
	}
	h.t.Fatal("the background launches nothing")
	return 0
}

// TestHookYields starts commands while the background works: they go first, and it goes on after them.
func TestHookYields(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	defer func() { t.Logf("\n%s", h.table) }()
	q := queueOf(filepath.Join(h.dir, ".git"))
	h.git("checkout", "-q", "-b", "topic")
	config := strings.Replace(hookConfig, `warmup = "300ms"`, `warmup = "30s"`, 1)
	h.change(map[string]string{"slow": "0.9", configName: config}, "slow, but well")
	h.must("measure", "--launches", "1", "--quiet")
	said, code := h.pushWith("launched before, for longer than the deadline", []string{"KBISECT_HOOK_DEADLINE=4s"}, "origin", "topic")
	h.wants(said, code, 0, `not checked: the launches before ended well, and a comparison takes ([4-9]\.\d|\d\d)s at least, which`, `!is built and launched`, `left to the background: 1`)
	st, err := store.Open(filepath.Join(h.dir, ".git", "kbisect"), store.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	told := regexp.MustCompile(`(?m)^kbisect: the hook's background \(process \d+\) has stepped aside; .*$`)
	for _, x := range []struct {
		args      string
		code, say int
	}{
		{"measure main --launches 1", exitOK, 1},
		{"gate --base main --budget 1s", exitInconclusive, 1},
		{"run --good main --find build --quiet", exitNoDifference, 0},
	} {
		args, pid := strings.Fields(x.args), h.busy(st)
		_, errs, code := h.kbisect(args...)
		if code != x.code || len(told.FindAllString(errs, -1)) != x.say {
			t.Errorf("%q: %d\n%s", args, code, errs)
		}
		if next := h.worker(); next == pid {
			t.Errorf("%q: process %d works on", args, pid)
		}
		if j, ok := q.next(); !ok || j.Tries > 1 {
			t.Errorf("%q: %+v", args, j)
		}
	}

	pid := h.busy(st)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // it hangs
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	c := cli.NewContext(cli.NewApp(), nil, nil)
	c.Context = ctx
	_, err = takeRepository(c, st, filepath.Join(h.dir, ".git"), "another")
	if want := regexp.MustCompile(`^the hook's own background, process (\d+), works on this repository \(session 2.*\) and does not step aside: not within .*\nhint: kill (\d+) stops it, `); err == nil || !want.MatchString(err.Error()) {
		t.Error(err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := q.stepAside(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	var d statusDocument
	if err := json.Unmarshal([]byte(h.must("hook", "status", "--json")), &d); err != nil || len(d.Jobs) != 1 || d.Jobs[0].State != jobQueued || d.WorkerPID != 0 {
		t.Errorf("%v %+v", err, d)
	}
}
