package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// TestHookInstall installs beside what is there, and takes away no more than it brought.
func TestHookInstall(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	hook := filepath.Join(h.dir, ".git", "hooks", "pre-push")
	first, err := os.ReadFile(hook)
	if err != nil {
		t.Fatal(err)
	}
	h.must("hook", "install")
	if again, _ := os.ReadFile(hook); !bytes.Equal(first, again) {
		t.Error("installed twice, it differs")
	}
	h.must("hook", "uninstall")
	if _, err := os.Lstat(hook); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	if _, msg, code := h.kbisect("hook", "uninstall"); code != exit.UsageError || !strings.Contains(msg, "there is no pre-push hook") {
		t.Errorf("%d %s", code, msg)
	}

	foreign := "#!/bin/sh\n# another's\necho \"foreign $*\"\ncat >" + filepath.Join(h.home, "seen") + "\ntest ! -e " + filepath.Join(h.home, "no") + "\n"
	if err := os.WriteFile(hook, []byte(foreign), 0o751); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(hook)
	if out := h.must("hook", "install", "--deadline", "20s"); !strings.Contains(out, "is kept as") {
		t.Error(out)
	}
	h.change(nil, "the same")
	said, code := h.push("a foreign hook that agrees", "origin", "main")
	h.wants(said, code, 0, `foreign origin /`, `passes: the same tree`)
	seen, _ := os.ReadFile(filepath.Join(h.home, "seen"))
	if !regexp.MustCompile(`^refs/heads/main [0-9a-f]{40} refs/heads/main [0-9a-f]{40}\n$`).Match(seen) {
		t.Errorf("the foreign hook read %q", seen)
	}
	os.WriteFile(filepath.Join(h.home, "no"), nil, 0o666)
	h.change(nil, "once more")
	said, code = h.push("a foreign hook that refuses", "origin", "main")
	h.wants(said, code, 1, `foreign origin`, `!kbisect:`)
	h.must("hook", "install")
	h.must("hook", "uninstall")
	after, err := os.Stat(hook)
	text, _ := os.ReadFile(hook)
	if err != nil || string(text) != foreign || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("not as it was: %v %v\n%s", err, after, text)
	}
	if _, msg, code := h.kbisect("hook", "uninstall"); code != exit.UsageError || !strings.Contains(msg, "was not written by kbisect and stays") {
		t.Errorf("%d %s", code, msg)
	}
}

// TestHookManagers gets the lines for hooks that belong to something else, and writes nothing.
func TestHookManagers(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.must("hook", "uninstall")
	refuses := func(file, wantOut, wantErr string) {
		t.Helper()
		out, msg, code := h.kbisect("hook", "install")
		if code != exit.UsageError || !strings.Contains(out, wantOut) || !strings.Contains(msg, wantErr) {
			t.Errorf("%s: %d\n%s%s", file, code, out, msg)
		}
		if _, err := os.Lstat(filepath.Join(h.dir, ".git", "hooks", "pre-push")); !os.IsNotExist(err) {
			t.Errorf("%s: a hook was written", file)
		}
	}
	h.git("config", "core.hooksPath", ".husky/_")
	refuses("husky", `kbisect hook pre-push "$@" || exit 1`, "husky manages")
	h.git("config", "core.hooksPath", ".hooks")
	refuses("core.hooksPath", `kbisect hook pre-push "$@" || exit 1`, "core.hooksPath is "+filepath.Join(h.dir, ".hooks"))

	// the lines that were printed do what they say
	out, _, _ := h.kbisect("hook", "install")
	os.Mkdir(filepath.Join(h.dir, ".hooks"), 0o777)
	os.WriteFile(filepath.Join(h.dir, ".hooks", "pre-push"), []byte("#!/bin/sh\n"+out), 0o777)
	h.change(map[string]string{"wrong": "x"}, "wrong")
	said, code := h.push("core.hooksPath", "origin", "main")
	h.wants(said, code, 1, `regression: B is worse`)
}

// TestHookWorktree pushes from a linked worktree, whose kbisect.toml counts, and where git sets GIT_DIR.
func TestHookWorktree(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	tree := filepath.Join(t.TempDir(), "tree")
	h.git("worktree", "add", "-q", "-b", "linked", tree)
	linked := *h
	linked.repo = &repo{t: t, dir: tree, home: h.home}
	linked.change(map[string]string{"wrong": "x"}, "wrong")
	said, code := linked.push("from a linked worktree", "origin", "linked")
	h.wants(said, code, 1, `linked .* regression: B is worse: it fails in 2 of 2 launches`)
	linked.must("hook", "uninstall")
	if _, err := os.Lstat(filepath.Join(h.dir, ".git", "hooks", "pre-push")); !os.IsNotExist(err) {
		t.Errorf("the hook is in another folder: %v", err)
	}
	linked.must("hook", "install")
	cmd := exec.Command("git", "--git-dir="+filepath.Join(h.dir, ".git"), "--work-tree="+h.dir, "push", "origin", "linked:refs/heads/elsewhere")
	cmd.Dir, cmd.Env = t.TempDir(), h.env()
	out, _ := cmd.CombinedOutput()
	h.wants(string(out), cmd.ProcessState.ExitCode(), 1, `elsewhere .* regression: .*\(kbisect show`)
}
