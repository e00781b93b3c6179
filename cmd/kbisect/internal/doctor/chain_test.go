package doctor

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// A chain tells what a program did by what it sent, and where it failed.
func TestRunExample(t *testing.T) {
	const well = "echo 'phase: check' >&$KBISECT_FD; echo 'check: pass' >&$KBISECT_FD; echo 'phase: measure' >&$KBISECT_FD; echo 'case: n=4' >&$KBISECT_FD; echo 'sample: 3 us' >&$KBISECT_FD"
	for _, c := range []struct{ script, want, wrong string }{
		{well, "3 us for n=4", ""},
		{"echo 'phase: check' >&$KBISECT_FD; echo 'check: fail off by 1' >&$KBISECT_FD; exit 1", "", "it computes wrong results: off by 1"},
		{"echo 'phase: warmup' >&$KBISECT_FD; echo no kernel image >&2; exit 3", "", "it fails in warmup: no kernel image"},
		{"kill -SEGV $$", "", "it fails in load"},
		{"true", "", "it sent no times"},
	} {
		done, err := runExample(t.Context(), t.TempDir(), kernels.Plan{Run: []string{"sh", "-c", c.script}})
		text := strings.Join(done, ", ")
		if err != nil {
			text = err.Error()
		}
		if c.wrong == "" && (err != nil || !strings.HasSuffix(text, c.want) || !strings.Contains(text, "check ")) || c.wrong != "" && (err == nil || !strings.HasPrefix(text, c.wrong)) {
			t.Errorf("%q: %v %q", c.script, err, text)
		}
	}
}

// The example for PyTorch goes through the whole chain, on the processor where there is no device.
func TestTorchChain(t *testing.T) {
	if testing.Short() || exec.Command("python3", "-c", "import torch").Run() != nil {
		t.Skip("SKIPPED: there is no PyTorch; the chain of kind torch was not run")
	}
	f := torchChain(t.Context())
	if f.State != StateOK || !strings.Contains(f.Found, "check ") || !strings.Contains(f.Found, " us for ") {
		t.Errorf("%+v", f)
	}
}

// What a chain needs and is not there is said.
func TestChainsNotTried(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, f := range []Finding{nvccChain(t.Context(), gpu.Report{}, nil), torchChain(t.Context())} {
		if f.State != stateMissing || !strings.HasPrefix(f.Found, "skipped: no ") {
			t.Errorf("%+v", f)
		}
	}
}
