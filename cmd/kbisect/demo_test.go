package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

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

// TestDemoFitsATerminal: on a terminal of 80 by 24 characters the last screen of each of the demo's searches holds the
// whole answer, beside the prompt.
func TestDemoFitsATerminal(t *testing.T) {
	t.Parallel()
	const columns, rows = 80, 24
	r := newRepo(t)
	cmd := r.command("demo")
	cmd.Env = append(r.env(), "TERM=xterm", "TMPDIR="+t.TempDir())
	said, code := startOnTerminal(t, cmd, columns, rows).wait()
	if code != exit.OK {
		t.Fatalf("exit %d: %s", code, said)
	}
	first, second, ok := strings.Cut(said, "$ kbisect run --axis flags")
	if !ok {
		t.Fatalf("no second search: %s", said)
	}
	for _, c := range []struct {
		said, verdict string
		rows          []string
	}{
		{first, "✗ 9df16d629a makes loading exceed its limit of 3 s", []string{"commit", "author", "confidence", "(lines|files)", "workaround", "next"}}, // on a slow machine there is no time for lines
		{second, "✗ autotune=max causes a timeout", []string{"confidence", "use", "your claim", "next"}},
	} {
		shown := screen(t, c.said, columns, rows)
		last := shown[max(0, len(shown)-rows):]
		text := "\n" + strings.Join(last, "\n") + "\n"
		at := strings.Index(text, "\n"+c.verdict)
		if at < 0 {
			t.Errorf("the last screen has no %q:%s", c.verdict, text)
			continue
		}
		for _, row := range c.rows {
			if row == "workaround" && strings.Contains(text, "not searched completely") {
				continue // a busy machine has no time to look for one, and says so
			}
			if !regexp.MustCompile("\n  " + row + " ").MatchString(text[at:]) {
				t.Errorf("the last screen has no %s:%s", row, text)
			}
		}
		if !strings.Contains(text, " tested in ") {
			t.Errorf("the last screen has no totals:%s", text)
		}
		for _, line := range strings.Split(c.said[strings.Index(c.said, c.verdict):], "\r\n") {
			if n := utf8.RuneCountInString(controlsAnywhere.ReplaceAllString(line, "")); n > columns {
				t.Errorf("%d characters: %q", n, line)
			}
		}
	}
}
