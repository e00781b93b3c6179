package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// bisectable is a repository with a submodule, tags, ignored and untracked files, whose commit 5 of 8 breaks it.
func bisectable(t *testing.T) (r *repo, culprit, good string) {
	t.Helper()
	r = newRepo(t)
	dep := newRepo(t)
	dep.put(map[string]string{"lib": "lib\n"})
	dep.commit("lib")
	r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", dep.dir, "dep")
	for i := range 9 {
		state := "fine"
		if i >= 5 {
			state = "broken"
			r.put(map[string]string{"bug": "here\n"})
		}
		r.put(map[string]string{
			"state": fmt.Sprintf("%s\n", state), "n": fmt.Sprint(i), ".gitignore": "vendor/\nout/\napp\n", "fixable": "wrong\n",
			"Makefile": "app: state n\n\tcat state n >app\n", "ci/check.sh": "#!/bin/sh\ngrep -q fine state\n",
		})
		r.git("add", ".")
		r.git("update-index", "--chmod=+x", "ci/check.sh")
		r.git("commit", "-qm", fmt.Sprint("change ", i))
		switch i {
		case 0:
			r.git("tag", "-a", "v1.0", "-m", "v1.0")
		case 3:
			r.git("tag", "v2.0")
		case 5:
			culprit = r.git("rev-parse", "HEAD")
		}
	}
	r.put(map[string]string{
		"vendor/bin/tool": "#!/bin/sh\ngrep -q fine \"$1\"\n", "data/want": "fine\n",
		"fix.patch": "--- a/fixable\n+++ b/fixable\n@@ -1 +1 @@\n-wrong\n+right\n",
	})
	if err := os.Chmod(filepath.Join(r.dir, "vendor/bin/tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("checkout", "-q", "-b", "topic-branch", "v1.0")
	r.put(map[string]string{"topic": "topic\n"})
	r.git("add", "topic")
	r.git("commit", "-qm", "topic")
	r.git("tag", "topic")
	r.git("checkout", "-q", "main")
	return r, culprit, "v1.0"
}

// Scripts as repositories tell people to give to git bisect run name the same commit here, unchanged.
func TestScriptsOfGitBisectRun(t *testing.T) {
	made, culprit, good := bisectable(t) // and left as it is
	t.Parallel()
	for _, c := range []struct {
		name    string
		script  string   // t.sh, not committed
		argv    []string // the command; nil is ./t.sh
		options []string // of kbisect
		outside bool     // the script lies outside of the repository
		link    bool     // the user, the command and the script take a symbolic link to the repository
	}{
		{name: "make or skip", script: "make -s || exit 125\ngrep -q fine app"},
		{name: "a test of a file", argv: []string{"test", "!", "-f", "bug"}},
		{name: "a line of shell", argv: []string{"sh", "-c", "make -s || exit 125; grep -q fine app"}},
		{name: "a committed script", argv: []string{"./ci/check.sh"}},
		{name: "git is asked", script: `v=$(git describe --tags) || exit 125
case $v in v1.0*|v2.0*) ;; *) exit 125;; esac
git diff --quiet HEAD && git diff-index --quiet HEAD -- && test -z "$(git status --porcelain --untracked-files=no)" || exit 125
cd "$(git rev-parse --show-toplevel)" && git ls-files --error-unmatch state >/dev/null || exit 125
git log -1 --format=%s | grep -q '^change' && git show HEAD:n >/dev/null || exit 125
git merge-base --is-ancestor v1.0 HEAD || exit 125
sha=$(git rev-parse --short HEAD) && mkdir -p out/$sha && cp state out/$sha/ || exit 125
test $(git rev-list --count v1.0..HEAD) -lt 5 && git grep -q fine HEAD -- state && grep -q fine out/$sha/state`},
		{name: "submodules", script: "git submodule update --init --recursive || exit 125\ngit submodule status | grep -q '^ ' || exit 125\n" +
			"git -C dep rev-parse HEAD >/dev/null || exit 125\ntest -f dep/lib || exit 125\ngrep -q fine state"},
		{name: "ignored and untracked files", options: []string{"--keep", "vendor", "--keep", "data"}, script: "vendor/bin/tool state && cmp -s data/want state"},
		{name: "a patch", options: []string{"--keep", "fix.patch"}, script: "git apply fix.patch || exit 125\ngrep -q right fixable || exit 125\ngrep -q fine state\nstatus=$?\ngit apply -R fix.patch\nexit $status"},
		{name: "a commit is picked", script: "git cherry-pick --no-commit topic || { git reset -q --hard; exit 125; }\ntest -f topic || exit 125\ngrep -q fine state\nstatus=$?\ngit reset -q --hard\nexit $status"},
		{name: "stash and reset", script: "echo more >>n\ngit stash -q || exit 125\ngit stash pop -q || exit 125\ngit checkout -q -- n || exit 125\ngrep -q fine state"},
		{name: "all is cleaned", script: "git clean -qfdx -e t.sh -e vendor -e data -e fix.patch || exit 125\nmake -s || exit 125\ngrep -q fine app"},
		{name: "a script outside", outside: true, script: "grep -q fine state"},
		{name: "a script outside with the absolute path", outside: true, script: "cd REPO && make -s || exit 125\ngrep -q fine app"},
		{name: "a line of shell with the absolute path", argv: []string{"sh", "-c", "cd REPO && make -s || exit 125; grep -q fine app"}},
		{name: "a linked work tree and a script outside with the absolute path", options: []string{"--in-worktree"}, outside: true, script: "cd REPO && make -s || exit 125\ngrep -q fine app && test \"$(pwd -P)\" = \"$(git rev-parse --show-toplevel)\""},
		{name: "a link to the repository", link: true, argv: []string{"REPO/ci/check.sh"}},
		{name: "a script that takes a link to the repository", link: true, script: "cd REPO && make -s || exit 125\ngrep -q fine app"},
		{name: "a script outside that takes a link to the repository", link: true, outside: true, script: "cd REPO && make -s || exit 125\ngrep -q fine app"},
		{name: "a linked work tree", options: []string{"--in-worktree"}, script: "git worktree list | grep -q \"$(pwd -P)\" || test -d .git || exit 125\ngit describe --tags >/dev/null || exit 125\ngrep -q fine state"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			if err := errors.Join(os.RemoveAll(r.dir), os.CopyFS(r.dir, os.DirFS(made.dir))); err != nil {
				t.Fatal(err)
			}
			if c.link {
				link := filepath.Join(t.TempDir(), "link")
				if err := os.Symlink(r.dir, link); err != nil {
					t.Fatal(err)
				}
				r.dir = link
			}
			argv := slices.Clone(c.argv)
			for i := range argv {
				argv[i] = strings.ReplaceAll(argv[i], "REPO", r.dir)
			}
			if c.script != "" {
				argv = []string{"./t.sh"}
				at := filepath.Join(r.dir, "t.sh")
				if c.outside {
					at = filepath.Join(t.TempDir(), "t.sh")
					argv[0] = at
				}
				text := "#!/bin/sh\n" + strings.ReplaceAll(c.script, "REPO", r.dir) + "\n"
				if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			before := r.git("for-each-ref") + r.git("status", "--porcelain") + r.git("worktree", "list")
			args := append([]string{"-C", r.dir, "run", "--quiet", "--no-hunks", "--no-explain", "--good", good}, c.options...)
			out, errs, code := r.kbisect(append(append(args, "--"), argv...)...)
			if code != exit.OK || !strings.Contains(out, " makes the run fail") || !strings.Contains(out, "  "+culprit[:10]+"\n") {
				t.Errorf("exit %d, culprit %s\n%s%s", code, culprit, out, errs)
			}
			if after := r.git("for-each-ref") + r.git("status", "--porcelain") + r.git("worktree", "list"); after != before {
				t.Errorf("the repository has changed:\n%s\n%s", before, after)
			}
			r.git("bisect", "start", "main", good)
			cmd := exec.Command("git", append([]string{"bisect", "run"}, argv...)...)
			cmd.Dir, cmd.Env = r.dir, r.env()
			said, err := cmd.CombinedOutput()
			m := regexp.MustCompile(`([0-9a-f]{40}) is the first bad commit`).FindSubmatch(said)
			if err != nil || m == nil || string(m[1]) != culprit {
				t.Errorf("git bisect run does not name %s: %v\n%s", culprit, err, said)
			}
		})
	}
}
