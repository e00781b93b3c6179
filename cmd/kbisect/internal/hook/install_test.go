package hook

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// TestInstallBesideAnotherHook: whatever was there is kept, and uninstalling brings it back as it was.
func TestInstallBesideAnotherHook(t *testing.T) {
	script := Script("/opt/kbisect", 0)
	install := func(t *testing.T, h file) string {
		t.Helper()
		done, err := h.Install(script)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(h.path); err != nil || !bytes.Equal(text, script) {
			t.Fatalf("%v: %s", err, text)
		}
		return done
	}
	uninstall := func(t *testing.T, h file) string {
		t.Helper()
		done, err := h.Uninstall()
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	write := func(t *testing.T, path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("none", func(t *testing.T) {
		h := At(filepath.Join(t.TempDir(), "hooks")) // a folder that does not exist yet
		install(t, h)
		install(t, h)
		if st, err := os.Stat(h.path); err != nil || st.Mode()&0o111 == 0 {
			t.Errorf("git would not call it: %v %v", st, err)
		}
		if done := uninstall(t, h); !strings.Contains(done, "removed") {
			t.Error(done)
		}
		if _, err := h.Uninstall(); err == nil || !strings.Contains(err.Error(), "there is no pre-push hook") {
			t.Error(err)
		}
	})
	t.Run("overwritten", func(t *testing.T) {
		h := At(t.TempDir())
		write(t, h.path, "#!/bin/sh\n# first\n", 0o777)
		if done := install(t, h); !strings.Contains(done, "is kept as") {
			t.Error(done)
		}
		write(t, h.path, "#!/bin/sh\n", 0o777) // by another program
		if _, err := h.Install(script); err == nil || !strings.Contains(err.Error(), "another hook is kept as") {
			t.Error(err)
		}
		if _, err := h.Uninstall(); err == nil || !strings.Contains(err.Error(), "was not written by kbisect and stays") {
			t.Error(err)
		}
		os.Remove(h.path)
		if done := uninstall(t, h); !strings.Contains(done, "is as it was before") {
			t.Error(done)
		}
		if text, err := os.ReadFile(h.path); err != nil || string(text) != "#!/bin/sh\n# first\n" {
			t.Errorf("%v: %s", err, text)
		}
	})
	t.Run("link", func(t *testing.T) {
		h := At(t.TempDir())
		write(t, filepath.Join(h.dir, "bench.sh"), "", 0o666)
		os.Symlink("bench.sh", h.path)
		if done := install(t, h); !strings.Contains(done, "neither will kbisect") { // it is not executable
			t.Error(done)
		}
		uninstall(t, h)
		if to, err := os.Readlink(h.path); err != nil || to != "bench.sh" {
			t.Errorf("%q %v", to, err)
		}
	})
	t.Run("link to nowhere", func(t *testing.T) {
		h := At(t.TempDir())
		os.Symlink("nowhere", h.path)
		install(t, h)
		uninstall(t, h)
		if to, err := os.Readlink(h.path); err != nil || to != "nowhere" {
			t.Errorf("%q %v", to, err)
		}
	})
}

func TestScript(t *testing.T) {
	text := string(Script("/opt/it's here/kbisect", 20*time.Second))
	for _, want := range []string{`kbisect='/opt/it'\''s here/kbisect'`, `export KBISECT_HOOK_DEADLINE="${KBISECT_HOOK_DEADLINE:-20s}"`, "\n" + marker} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if text := string(Script("kbisect", 0)); strings.Contains(text, DeadlineVariable) {
		t.Error(text)
	}
}

// TestManaged: hooks outside of git's own folder are somebody else's.
func TestManaged(t *testing.T) {
	for hooksPath, want := range map[string]string{"": "", ".husky/_": "husky", ".hooks": "core.hooksPath is "} {
		r := gittest.New(t)
		if hooksPath != "" {
			r.Git(t, "config", "core.hooksPath", hooksPath)
		}
		repo, err := source.Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := Dir(context.Background(), repo)
		if err != nil {
			t.Fatal(err)
		}
		if file, why := Managed(repo, dir); (file != "") != (want != "") || !strings.Contains(why, want) {
			t.Errorf("%q: %q, %q", hooksPath, file, why)
		}
		repo.Close()
	}
}
