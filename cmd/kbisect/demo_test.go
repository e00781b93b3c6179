package main

import (
	"os"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

func TestDemoConfigs(t *testing.T) {
	t.Parallel()
	for _, device := range []string{"cpu", "cuda", "torch", "cuda-small", "slow-build"} {
		p, err := plantedOn(device)
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range p.hunts {
			if _, err := config.Parse(p.config(device, i), h.config); err != nil {
				t.Error(err)
			}
		}
	}
	data, err := os.ReadFile("../../fixtures/round9-cuda/macros.toml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse("macros.toml", data); err != nil {
		t.Error(err)
	}
}

func TestDemoWithoutDevice(t *testing.T) {
	if len(gpu.Probe().Devices) > 0 {
		t.Skip("there is a device")
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for device, code := range map[string]int{"torch": exit.Machine, "cuda": exit.Machine, "hip": exit.UsageError} {
		var out, errs strings.Builder
		if got := run(t.Context(), []string{"kbisect", "demo", "--on", device}, nil, &out, &errs); got != code {
			t.Errorf("%s: exit %d, want %d: %s", device, got, code, errs.String())
		}
		if text := errs.String(); !strings.Contains(text, "demo --on "+device) || !strings.Contains(text, "hint: ") || out.String() != "" {
			t.Errorf("%s: %s%s", device, text, out.String())
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v (%v)", left, err)
	}
}
