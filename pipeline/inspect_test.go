package pipeline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// inspected is a history whose build makes two outputs; its program says what it was called with.
func inspected(t *testing.T) *bench {
	plan := kernels.Plan{
		Build:   []string{"sh", "-c", "echo compiling $(cat n) && cp n built && test $(cat n) != broken"},
		Outputs: []string{"built"}, Run: []string{"./run.sh"},
	}
	const script = "#!/bin/sh\necho \"phase: measure\" >&$KBISECT_FD\necho ran $WRAPPED $(cat built)\nmkdir -p $XDG_CACHE_HOME; echo >$XDG_CACHE_HOME/made\n"
	commit := func(n string) []fixtures.Change {
		return []fixtures.Change{fixtures.Write("n", n), fixtures.Script("run.sh", script)}
	}
	return newBench(t, plan, trial.Limits{Build: time.Minute, Run: time.Minute}, commit("1"), commit("2"), commit("broken"))
}

func TestInspect(t *testing.T) {
	b := inspected(t)
	r := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[1]}, Purpose: bisect.EndBad}
	if o := b.test(1, bisect.EndBad); o.Class != bisect.OK {
		t.Fatal(o.Describe())
	}
	var lines []string
	o, err := b.Inspect(t.Context(), r, func(in *Inspection) error {
		if data, err := os.ReadFile(filepath.Join(in.w.Dir, "built")); err != nil || string(data) != "2" {
			t.Errorf("%q %v", data, err)
		}
		dir, err := in.Scratch("notes")
		if err != nil {
			return err
		}
		res, err := in.Run(t.Context(), Wrapped{
			Wrap: []string{"sh", "-c", `echo noted >"$0/it"; "$@"; exit 3`, dir}, Name: "wrapped", Limit: time.Minute,
			Env:    func(env []string) []string { return append(env, "WRAPPED=yes") },
			Output: func(line string) { lines = append(lines, line) },
		})
		if err != nil || res.Exit != 3 {
			t.Errorf("%+v %v", res, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "it")); err != nil {
			t.Error(err)
		}
		out, err := in.Tool(t.Context(), []string{"cat", "built"}, time.Minute)
		if err != nil || string(out) != "2" {
			t.Errorf("%q %v", out, err)
		}
		if _, err := in.Tool(t.Context(), []string{"sh", "-c", "echo not so; exit 1"}, time.Minute); err == nil || !strings.Contains(err.Error(), "not so") {
			t.Error(err)
		}
		if _, err := in.Tool(t.Context(), []string{"sleep", "100"}, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end") {
			t.Error(err)
		}
		if in.Python() {
			t.Error("a shell script is taken for Python")
		}
		return nil
	})
	if err != nil || o.Class != "" || o.Built || !slices.Equal(lines, []string{"ran yes 2"}) {
		t.Errorf("%+v %v %q", o, err, lines)
	}
	if got := string(b.BuildOutput(r.Candidate)); got != "compiling 2\n" {
		t.Errorf("%q", got)
	}
	if got := b.BuildOutput(bisect.Candidate{Commit: b.ids[0]}); got != nil {
		t.Errorf("%q", got)
	}
}

// TestInspectBroken looks at a candidate that cannot be built, and one that hangs under a tool.
func TestInspectBroken(t *testing.T) {
	b := inspected(t)
	look := func(i int, look func(*Inspection) error) (bisect.Outcome, error) {
		return b.Inspect(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[i]}, Purpose: bisect.EndBad}, look)
	}
	o, err := look(2, func(*Inspection) error { t.Error("looked"); return nil })
	if err != nil || o.Class != bisect.BuildFailed {
		t.Errorf("%+v %v", o, err)
	}
	_, err = look(1, func(in *Inspection) error {
		res, err := in.Run(t.Context(), Wrapped{Wrap: []string{"sh", "-c", "sleep 100"}, Name: "hangs", Limit: 100 * time.Millisecond})
		if err != nil || res.Timeout == nil {
			t.Errorf("%+v %v", res, err)
		}
		if _, err := os.Stat(in.w.Caches.Dir); !os.IsNotExist(err) {
			t.Errorf("the caches of a killed process were kept: %v", err)
		}
		_, err = in.Run(t.Context(), Wrapped{Wrap: []string{"no-such-profiler"}, Name: "missing", Limit: time.Minute})
		if err == nil {
			t.Error("a profiler that is not there was run")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPrograms finds device code: in the outputs, and in what trials compile and keep.
func TestPrograms(t *testing.T) {
	b := inspected(t)
	code := append([]byte("\x7fELF\x02\x01\x01\x33\x07"), make([]byte, 55)...)
	code[16], code[18], code[20] = 2, 190, 0x76 // a cubin without sections
	_, err := b.Inspect(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.EndGood}, func(in *Inspection) error {
		if got := in.Programs(); len(got) > 0 {
			t.Errorf("%q", got)
		}
		stray := filepath.Join(in.w.Dir, "lib.cubin")
		kept := filepath.Join(in.w.Caches.Dir, "triton", "k.cubin")
		if err := os.MkdirAll(filepath.Dir(kept), 0o777); err != nil {
			return err
		}
		for _, path := range []string{stray, kept} {
			if err := os.WriteFile(path, code, 0o666); err != nil {
				return err
			}
		}
		if got := in.Programs(); !slices.Equal(got, []string{stray, kept}) {
			t.Errorf("%q", got)
		}
		if err := os.WriteFile(filepath.Join(in.w.Dir, "built"), code, 0o666); err != nil {
			return err
		}
		if got := in.Programs(); !slices.Equal(got, []string{filepath.Join(in.w.Dir, "built"), kept}) {
			t.Errorf("%q", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
