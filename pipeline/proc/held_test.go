package proc

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// atGate is a program that notes its start, waits for its turn, and says what it was told.
func atGate(t *testing.T, rest string) (s Spec, started string) {
	started = filepath.Join(t.TempDir(), "started")
	s = Spec{Argv: []string{"sh", "-c", `echo $$ > "$0"; word=$(eval "cat <&$KBISECT_GATE"); [ -n "$word" ] || exit 9; eval "echo $word >&$FD"; ` + rest, started}, Env: os.Environ(), Protocol: "FD", Cookie: "held-" + filepath.Base(t.TempDir()) + t.Name()}
	return s, started
}

// await waits for a file.
func await(t *testing.T, path string) {
	t.Helper()
	for range 3000 {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s did not come", path)
}

// A program that was started before its turn does nothing until then, its limits and times begin there, and all else is as
// if it had been started at its turn.
func TestHeld(t *testing.T) {
	t.Parallel()
	s, started := atGate(t, "echo printed; exit 3")
	h, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	await(t, started)
	for _, on := range []bool{true, false, true} { // its turn comes while it stands still
		h.Freeze(on)
	}
	time.Sleep(1200 * time.Millisecond) // longer than its limit
	var lines []string
	var at time.Duration
	s.Limit = time.Second
	s.Output = filepath.Join(t.TempDir(), "output")
	s.Watch = func(line string, when time.Duration) Transition {
		lines, at = append(lines, line), when
		return Transition{}
	}
	res, ok, err := h.Run(t.Context(), s, []byte("hello"))
	if err != nil || !ok || res.Exit != 3 || res.Timeout != nil || string(res.Tail) != "printed\n" {
		t.Errorf("ended as %+v, %v, %v", res, ok, err)
	}
	if len(lines) != 1 || lines[0] != "hello" || at < 0 || at > s.Limit || res.Wall > s.Limit {
		t.Errorf("lines %q at %v of %v", lines, at, res.Wall)
	}
	if text, _ := os.ReadFile(s.Output); string(text) != "printed\n" {
		t.Errorf("output %q", text)
	}
}

// A limit holds from the turn on.
func TestHeldTimesOut(t *testing.T) {
	t.Parallel()
	s, started := atGate(t, "sleep 100 & sleep 100")
	h, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	await(t, started)
	s.Limit = 200 * time.Millisecond
	res, ok, err := h.Run(t.Context(), s, []byte("go"))
	if err != nil || !ok || res.Timeout == nil || res.Wall < s.Limit {
		t.Errorf("ended as %+v, %v, %v", res, ok, err)
	}
	none(t, s.Cookie)
}

// One that ends before its turn, is killed or is not wanted any more leaves nothing behind, and nothing is said of it.
func TestHeldIsGone(t *testing.T) {
	t.Parallel()
	s, _ := atGate(t, "true")
	s.Argv = []string{"sh", "-c", "sleep 1000 & exit 0"}
	h, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	<-h.done
	if _, ok, err := h.Run(t.Context(), s, []byte("go")); ok || err != nil {
		t.Errorf("one that had ended ran: %v", err)
	}
	none(t, s.Cookie)

	s, started := atGate(t, "sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	if h, err = Start(ctx, s); err != nil {
		t.Fatal(err)
	}
	await(t, started)
	h.Freeze(true)
	cancel()
	<-h.done
	none(t, s.Cookie)

	s, started = atGate(t, "sleep 1000")
	if h, err = Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	await(t, started)
	h.Close()
	if _, ok, _ := h.Run(t.Context(), s, []byte("go")); ok {
		t.Error("one that was closed ran")
	}
	none(t, s.Cookie)
}

// A launch that is cancelled in its turn ends as any other.
func TestHeldIsCancelled(t *testing.T) {
	t.Parallel()
	s, started := atGate(t, "sleep 1000")
	h, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	await(t, started)
	ctx, cancel := context.WithCancel(t.Context())
	s.Watch = func(string, time.Duration) Transition {
		cancel()
		return Transition{}
	}
	if res, ok, err := h.Run(ctx, s, []byte("go")); err != nil || !ok || !res.Canceled {
		t.Errorf("ended as %+v, %v, %v", res, ok, err)
	}
	none(t, s.Cookie)
}

// One whose output cannot be kept is ended at its turn, with all that it has started meanwhile.
func TestHeldWithoutOutput(t *testing.T) {
	t.Parallel()
	s, started := atGate(t, "")
	s.Argv[2] = `sleep 1000 & ` + s.Argv[2]
	h, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	await(t, started)
	s.Output = filepath.Join(started, "not-a-folder")
	if _, ok, err := h.Run(t.Context(), s, []byte("go")); err == nil || !ok {
		t.Errorf("ran: %v", err)
	}
	none(t, s.Cookie)
}

// none fails if a process carries the cookie of a trial.
func none(t *testing.T, cookie string) {
	t.Helper()
	if n, err := Sweep(cookie); n > 0 || err != nil {
		t.Errorf("%d processes were left: %v", n, err)
	}
}
