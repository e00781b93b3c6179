package gitdir_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gitdir"
)

// git runs git in a folder and returns what it printed.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// checkout is a folder with the files of HEAD, and the entries of an index for them.
func checkout(t *testing.T, repo string) (tree string, entries []gitdir.Entry) {
	t.Helper()
	tree = t.TempDir()
	for line := range strings.Lines(git(t, repo, "ls-tree", "-r", "HEAD")) {
		meta, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		f := strings.Fields(meta)
		e := gitdir.Entry{Path: name, ID: f[2]}
		fmt.Sscanf(f[0], "%o", &e.Mode)
		file := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(repo, name))
		if err == nil {
			err = os.WriteFile(file, text, os.FileMode(e.Mode&0o777))
		}
		if err != nil {
			t.Fatal(err)
		}
		fi, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		st := fi.Sys().(*syscall.Stat_t)
		e.Size, e.Mtime, e.Changed, e.Inode = fi.Size(), fi.ModTime().UnixNano(), st.Ctim.Nano(), st.Ino
		entries = append(entries, e)
	}
	return tree, entries
}

// Both sorts of git directory are what git expects, forget what was done in them, and leave the repository alone.
func TestDir(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, linked := range []string{"", "kbisect-test"} {
			t.Run(format+linked, func(t *testing.T) {
				repo := t.TempDir()
				git(t, repo, "init", "-qb", "main", "--object-format="+format)
				for _, name := range []string{"a", "b/" + strings.Repeat("long", 50), "b.c", "b/x"} {
					file := filepath.Join(repo, name)
					if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(name), 0o666); err != nil {
						t.Fatal(err)
					}
				}
				git(t, repo, "add", ".")
				git(t, repo, "commit", "-qm", "one")
				git(t, repo, "tag", "-am", "v1", "v1")
				git(t, repo, "pack-refs", "--all")
				git(t, repo, "branch", "side/loose")
				head := git(t, repo, "rev-parse", "HEAD")
				var extensions [][2]string
				if format == "sha256" {
					extensions = [][2]string{{"objectformat", "sha256"}}
				}
				r := gitdir.Read(filepath.Join(repo, ".git"), extensions, git(t, repo, "for-each-ref", gitdir.RefFormat))
				tree, entries := checkout(t, repo)
				d := r.Dir(tree, linked)
				index := gitdir.Index(entries)
				refs := git(t, repo, "for-each-ref")
				for round := range 3 {
					if d.Touched() != (round != 1) {
						t.Errorf("round %d: touched %v", round, d.Touched())
					}
					if err := d.Write(t.Context(), head, index); err != nil {
						t.Fatal(err)
					}
					git(t, tree, "diff-index", "--quiet", "HEAD", "--") // by the stat data alone
					for args, want := range map[string]string{
						"rev-parse HEAD": head, "describe": "v1", "status --porcelain": "", "rev-parse side/loose": head, "fsck": "", "rev-parse --show-toplevel": tree,
					} {
						if got := git(t, tree, strings.Fields(args)...); got != want && args != "fsck" {
							t.Errorf("round %d: git %s: %q, want %q", round, args, got, want)
						}
					}
					if round == 0 { // git may refresh the index
						if err := d.Write(t.Context(), head, index); err != nil {
							t.Fatal(err)
						}
					}
					if round == 1 {
						if err := os.WriteFile(filepath.Join(tree, "a"), []byte("z"), 0o666); err != nil {
							t.Fatal(err)
						}
						git(t, tree, "stash", "-q")
						git(t, tree, "rm", "-q", "--cached", "b.c")
						if linked == "" {
							git(t, tree, "tag", "mine")
							git(t, tree, "branch", "-D", "side/loose")
							git(t, tree, "config", "user.name", "Eve")
						} else {
							git(t, tree, "stash", "drop", "-q")
						}
						tree, entries = checkoutInto(t, repo, tree)
						index = gitdir.Index(entries)
					}
				}
				if err := d.Unlink(); err != nil {
					t.Fatal(err)
				}
				if got := git(t, repo, "for-each-ref"); got != refs {
					t.Errorf("refs were\n%s\nand are\n%s", refs, got)
				}
				if got := git(t, repo, "worktree", "list"); strings.Count(got, "\n") > 0 {
					t.Errorf("left in the repository: %s", got)
				}
			})
		}
	}
}

// checkoutInto writes the files of HEAD again.
func checkoutInto(t *testing.T, repo, tree string) (string, []gitdir.Entry) {
	t.Helper()
	fresh, entries := checkout(t, repo)
	for i := range entries {
		e := &entries[i]
		file := filepath.Join(tree, e.Path)
		if err := os.Rename(filepath.Join(fresh, e.Path), file); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		st := fi.Sys().(*syscall.Stat_t)
		e.Mtime, e.Changed, e.Inode = fi.ModTime().UnixNano(), st.Ctim.Nano(), st.Ino
	}
	return tree, entries
}
