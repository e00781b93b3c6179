package gitdir_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/source/gitdir"
)

// small is a repository of three commits.
func small(t *testing.T, at string) (repo string, ids []string) {
	t.Helper()
	repo = filepath.Join(at, "repo")
	if err := os.MkdirAll(repo, 0o777); err != nil {
		t.Fatal(err)
	}
	git(t, repo, "init", "-qb", "main")
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(repo, "a"), []byte(strconv.Itoa(i)), 0o666); err != nil {
			t.Fatal(err)
		}
		git(t, repo, "add", "a")
		git(t, repo, "commit", "-qm", "c"+strconv.Itoa(i))
		ids = append(ids, git(t, repo, "rev-parse", "HEAD"))
	}
	return repo, ids
}

// private is a git directory of its own for HEAD of a repository, in a folder.
func private(t *testing.T, repo, tree string) *gitdir.Dir {
	t.Helper()
	r := gitdir.Read(filepath.Join(repo, ".git"), nil, git(t, repo, "for-each-ref", gitdir.RefFormat))
	if err := os.MkdirAll(tree, 0o777); err != nil {
		t.Fatal(err)
	}
	d := r.Dir(tree, "")
	if err := d.Write(t.Context(), git(t, repo, "rev-parse", "HEAD"), gitdir.Index(nil)); err != nil {
		t.Fatal(err)
	}
	return d
}

// However references are kept, loose, packed, both or as names of others, a candidate sees what git sees in the
// repository, but for those of a bisection that is going on there.
func TestReferencesEqualGit(t *testing.T) {
	home := t.TempDir()
	repo, ids := small(t, home)
	rng := rand.New(rand.NewPCG(8, 1))
	names := []string{"refs/heads/x", "refs/heads/deep/er/y", "refs/tags/v1", "refs/tags/v2", "refs/remotes/origin/z", "refs/notes/n", "refs/heads/ünïcode"}
	for round := range 12 {
		for range 4 {
			name, id := names[rng.IntN(len(names))], ids[rng.IntN(3)]
			switch rng.IntN(6) {
			case 0:
				git(t, repo, "update-ref", "-d", name)
			case 1:
				git(t, repo, "pack-refs", "--all")
			case 2:
				git(t, repo, "tag", "-fam", "annotated", "t"+strconv.Itoa(rng.IntN(3)), id)
			case 3:
				git(t, repo, "symbolic-ref", "refs/remotes/origin/HEAD", name)
			default:
				git(t, repo, "update-ref", name, id)
			}
		}
		git(t, repo, "update-ref", "refs/bisect/bad", ids[2])
		for _, odd := range []string{"refs/heads/busy.lock", "refs/heads/empty"} {
			if err := os.WriteFile(filepath.Join(repo, ".git", odd), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		tree := filepath.Join(home, "tree"+strconv.Itoa(round))
		private(t, repo, tree)
		if err := os.Remove(filepath.Join(repo, ".git/refs/heads/empty")); err != nil {
			t.Fatal(err)
		}
		const format = "--format=%(refname) %(objectname) %(*objectname) %(symref)"
		var want []string
		for line := range strings.Lines(git(t, repo, "for-each-ref", format)) {
			if !strings.HasPrefix(line, "refs/bisect/") {
				want = append(want, strings.TrimSuffix(line, "\n"))
			}
		}
		if got := git(t, tree, "for-each-ref", format); got != strings.Join(want, "\n") {
			t.Fatalf("round %d: git sees\n%s\nand in the repository\n%s", round, got, strings.Join(want, "\n"))
		}
		git(t, repo, "pack-refs", "--all")
	}
}

// Whatever is done in the directory is noticed, also where times and sizes stay, and undone by the next Write.
func TestTouched(t *testing.T) {
	home := t.TempDir()
	repo, ids := small(t, home)
	for name, touch := range map[string]func(at string) error{
		"another HEAD":        func(at string) error { return os.WriteFile(at+"/HEAD", []byte(ids[0]+"\n"), 0o666) },
		"another index":       func(at string) error { return os.WriteFile(at+"/index", nil, 0o666) },
		"no index":            func(at string) error { return os.Remove(at + "/index") },
		"another setting":     func(at string) error { return os.WriteFile(at+"/config", []byte("[core]\n"), 0o666) },
		"a stash":             func(at string) error { return os.WriteFile(at+"/refs/stash", []byte(ids[1]+"\n"), 0o666) },
		"a hook":              func(at string) error { return os.MkdirAll(at+"/hooks", 0o777) },
		"a mode":              func(at string) error { return os.Chmod(at+"/HEAD", 0o600) },
		"a file in its place": func(at string) error { return errors.Join(os.RemoveAll(at), os.WriteFile(at, nil, 0o666)) },
		"nothing there":       os.RemoveAll,
		"the same time and size": func(at string) error {
			old, err := os.Stat(at + "/HEAD")
			return errors.Join(err, os.WriteFile(at+"/HEAD", []byte(strings.Repeat("0", 40)+"\n"), 0o666), os.Chtimes(at+"/HEAD", time.Time{}, old.ModTime()))
		},
	} {
		tree := filepath.Join(home, name)
		d := private(t, repo, tree)
		if d.Touched() {
			t.Errorf("%s: touched at once", name)
		}
		if err := d.Write(t.Context(), ids[1], nil); err != nil || d.Touched() || git(t, tree, "rev-parse", "HEAD") != ids[1] {
			t.Errorf("%s: another commit with the same index: %v", name, err)
		}
		if err := touch(tree + "/.git"); err != nil {
			t.Fatal(err)
		}
		if !d.Touched() {
			t.Errorf("%s: not noticed", name)
		}
		if err := d.Write(t.Context(), ids[2], nil); err == nil {
			t.Errorf("%s: written without an index", name)
		}
		if err := d.Write(t.Context(), ids[2], gitdir.Index(nil)); err != nil || d.Touched() || git(t, tree, "rev-parse", "HEAD") != ids[2] || git(t, tree, "stash", "list") != "" {
			t.Errorf("%s: written again: %v", name, err)
		}
	}
}

// A private directory has the repository's settings but for what leads back into the user's files, wherever it lies.
func TestPrivateConfiguration(t *testing.T) {
	home := filepath.Join(t.TempDir(), "a \"b\" \\c\nd")
	repo, _ := small(t, home)
	for _, set := range [][2]string{{"alias.hi", "!echo hi"}, {"remote.origin.url", "https://example.com/r"}, {"core.hooksPath", repo + "/hooks"}, {"core.autocrlf", "true"}, {"core.fsmonitor", "true"}, {"core.bare", "false"}, {"gc.auto", "1"}} {
		git(t, repo, "config", set[0], set[1])
	}
	for name, text := range map[string]string{"info/exclude": "ignored\n", "info/attributes": "a diff=x\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(repo, ".git/info"), 0o777), os.WriteFile(filepath.Join(repo, ".git", name), []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	tree := filepath.Join(home, "tree of its own")
	private(t, repo, tree)
	if err := os.WriteFile(tree+"/ignored", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"hi": "hi", "config remote.origin.url": "https://example.com/r", "config core.hooksPath": "/dev/null", "config core.autocrlf": "false",
		"config core.fsmonitor": "false", "config gc.auto": "0", "rev-parse --show-toplevel": tree, "check-ignore ignored": "ignored", "check-attr diff a": "a: diff: x",
	} {
		if got := git(t, tree, strings.Fields(args)...); got != want {
			t.Errorf("git %s: %q, want %q", args, got, want)
		}
	}
}
