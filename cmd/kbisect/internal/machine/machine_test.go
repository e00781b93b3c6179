package machine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc"
)

func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	os.Exit(m.Run())
}

// two is a machine with two devices.
func two() Machine {
	return Machine{Devices: []Device{{"H100", "GPU-1"}, {"H200", "GPU-2"}}, Driver: "580.1", Compiler: "cc 14"}
}

func TestElsewhere(t *testing.T) {
	none := Machine{}
	one := Machine{Devices: two().Devices[:1]}
	for _, c := range []struct {
		name     string
		measured Machine
		here     Machine
		want     bool
	}{
		{"the same", two(), two(), false},
		{"one of two is here", two(), one, true},
		{"one more is here", one, two(), false},
		{"no device at all", none, none, false},
		{"measured without one", none, one, true},
		{"measured with one", one, none, true},
	} {
		if got := c.measured.Elsewhere(&c.here); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestDescriptions(t *testing.T) {
	m := two()
	if got := m.UUIDs(); !slices.Equal(got, []string{"GPU-1", "GPU-2"}) {
		t.Errorf("%q", got)
	}
	if m.DeviceNames() != "H100, H200" || (Machine{}).DeviceNames() != "no device" {
		t.Errorf("%q, %q", m.DeviceNames(), Machine{}.DeviceNames())
	}
	want := [][2]string{{"device", "H100 GPU-1"}, {"device", "H200 GPU-2"}, {"driver", "580.1"}, {"compiler", "cc 14"}}
	if got := m.Lines(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := (Machine{}).Lines(); !slices.Equal(got, [][2]string{{"device", "none used"}}) {
		t.Errorf("%q", got)
	}
}

func TestCheck(t *testing.T) {
	for want, m := range map[string]Machine{
		"":                              two(),
		`invalid device UUID "0"`:       {Devices: []Device{{"H100", "0"}}},
		"a driver without a device":     {Driver: "580.1"},
		`invalid device UUID "gpu-low"`: {Devices: []Device{{"A", "MIG-3"}, {"B", "gpu-low"}}},
	} {
		err := m.Check()
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
}

// TestRunTool: what a program prints and how it ends.
func TestRunTool(t *testing.T) {
	for script, want := range map[string]struct{ text, err string }{
		"echo one; echo two >&2":            {"one\ntwo\n", ""},
		"echo no such option; exit 3":       {"no such option\n", "sh exited with 3: no such option"},
		"kill -SEGV $$":                     {"", "sh was killed by signal 11"},
		"echo $LC_ALL $GIT_OPTIONAL_LOCKS":  {"C 0\n", ""},
		"printf '1\\n2\\n3\\n4\\n'; exit 1": {"1\n2\n3\n4\n", "sh exited with 1: 2\n3\n4"},
	} {
		s := RunTool(t.Context(), 20*time.Second, t.TempDir(), "sh", "-c", script)
		if s.Text != want.text || want.err == "" && s.Err != nil || want.err != "" && (s.Err == nil || !strings.HasPrefix(s.Err.Error(), want.err)) {
			t.Errorf("%s: %q, %v", script, s.Text, s.Err)
		}
	}
	if s := RunTool(t.Context(), time.Second, "", "no-such-program-here"); s.Err == nil {
		t.Error("a program that does not exist ran")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s := RunTool(ctx, 20*time.Second, "", "sleep", "20"); s.Err == nil {
		t.Error("a cancelled tool ended well")
	}
}

// TestToolVersion takes the tool from a PATH of its own.
func TestToolVersion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	tool := "#!/bin/sh\necho 'banner'\nprintf 'Release 12.4\\033[0m\\n'\n"
	if err := os.WriteFile(filepath.Join(dir, "pretend"), []byte(tool), 0o755); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]string{"Release": "Release 12.4 [0m", "": "banner", "Version": "banner"} {
		if got := toolVersion(t.Context(), prefix, "pretend"); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
	if got := toolVersion(t.Context(), "", "no-such-program-here"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestFirstWord(t *testing.T) {
	for text, want := range map[string]string{"ccache gcc": "ccache", "  cc ": "cc", "": "", " ": ""} {
		if got := FirstWord(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestToolKillsItsTree runs a tool that hangs with a child that holds its output.
func TestToolKillsItsTree(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	begin := time.Now()
	s := RunTool(t.Context(), 500*time.Millisecond, "", "sh", "-c", "sleep 300 & echo $! >"+file+"; trap '' TERM; wait; wait")
	if s.Err == nil || !strings.Contains(s.Err.Error(), "did not end within 500ms") {
		t.Errorf("got %v", s.Err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
		t.Error("the child lives on")
	}
}
