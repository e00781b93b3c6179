package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestExamples(t *testing.T) {
	_, err := NewExample("rust")
	if err == nil || !strings.HasSuffix(err.Error(), "use one of cuda, python, torch") {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"cuda", "python", "torch"} {
		e, err := NewExample(name)
		if err != nil || len(e.Files) < 2 || e.Next == "" {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// TestHellos runs every known-good program whose tools are here.
func TestHellos(t *testing.T) {
	for _, h := range Hellos() {
		t.Run(h.Name, func(t *testing.T) {
			if got := HelloFor(h.Name); got.File != h.File || len(got.Text) == 0 {
				t.Fatalf("%+v", got)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, h.File), h.Text, 0o600); err != nil {
				t.Fatal(err)
			}
			if h.Name != "cc" {
				t.Skip("needs a device")
			}
			for _, argv := range [][]string{h.Compile, h.Run} {
				cmd := exec.Command(argv[0], argv[1:]...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				if err != nil || len(argv) == len(h.Run) && strings.TrimSpace(string(out)) != HelloWord {
					t.Errorf("%q: %v\n%s", argv, err, out)
				}
			}
		})
	}
	if got := HelloFor("fortran"); got.Name != "" {
		t.Errorf("%+v", got)
	}
}
