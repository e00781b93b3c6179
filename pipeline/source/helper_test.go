package source

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// failer is what testing.T and rapid.T share.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// testRepo is a repository driven by the real git program.
type testRepo struct {
	dir  string
	date int64
}

func newTestRepo(t *testing.T, initArgs ...string) *testRepo {
	t.Helper()
	r := &testRepo{dir: filepath.Join(t.TempDir(), "repo"), date: 1700000000}
	if err := os.Mkdir(r.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r.git(t, append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	return r
}

func (r *testRepo) env() []string {
	stamp := fmt.Sprintf("%d +0100", r.date)
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A U Thor", "GIT_AUTHOR_EMAIL=author@example.com", "GIT_AUTHOR_DATE="+stamp,
		"GIT_COMMITTER_NAME=C O Mitter", "GIT_COMMITTER_EMAIL=committer@example.com", "GIT_COMMITTER_DATE="+stamp)
}

func (r *testRepo) try(stdin string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "gc.auto=0"}, args...)...)
	cmd.Dir, cmd.Env = r.dir, r.env()
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %v: %w: %s", args, err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

func (r *testRepo) git(t failer, args ...string) string {
	t.Helper()
	out, err := r.try("", args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

func (r *testRepo) pipe(t failer, stdin string, args ...string) string {
	t.Helper()
	out, err := r.try(stdin, args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

func (r *testRepo) write(t failer, name, content string) {
	t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
		t.Fatalf("%v", err)
	}
}

// commit records the work tree as it is.
func (r *testRepo) commit(t failer, subject string) string {
	t.Helper()
	r.date += 60
	r.git(t, "add", "-A")
	r.git(t, "commit", "-q", "--allow-empty", "-m", subject)
	return r.git(t, "rev-parse", "HEAD")
}

// commitTree makes a commit without touching the work tree.
func (r *testRepo) commitTree(t failer, tree string, date int64, parents ...string) string {
	t.Helper()
	args := []string{"commit-tree", tree, "-m", fmt.Sprintf("at %d", date)}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	old := r.date
	r.date = date
	defer func() { r.date = old }()
	return r.git(t, args...)
}

func open(t *testing.T, dir string) *Repo {
	t.Helper()
	repo, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo
}

func export(t *testing.T, repo *Repo) *Export {
	t.Helper()
	e, err := repo.Export(filepath.Join(t.TempDir(), "slot"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func hop(t failer, e *Export, commit string, clean bool) SwitchStats {
	t.Helper()
	stats, err := e.Switch(context.Background(), commit, clean)
	if err != nil {
		t.Fatalf("switch to %s: %v", commit, err)
	}
	return stats
}

// listing describes a folder byte for byte; times are left out.
func listing(t failer, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, file)
		if rel == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case fi.IsDir():
			out[rel] = "folder"
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			out[rel] = "link " + target
		default:
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			out[rel] = fmt.Sprintf("%v %q", fi.Mode(), data)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list %s: %v", dir, err)
	}
	return out
}

func sameListing(t failer, got, want map[string]string, note string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	var diff []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			diff = append(diff, fmt.Sprintf("%s: got %.200s, want %.200s", name, got[name], want[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			diff = append(diff, fmt.Sprintf("%s: got %.200s, want nothing", name, got[name]))
		}
	}
	t.Fatalf("%s: slot differs:\n%s", note, strings.Join(diff, "\n"))
}

// checkout lays a commit out as git does, in a folder of its own.
func (r *testRepo) checkout(t failer, dir, commit string) map[string]string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatalf("%v", err)
	}
	r.git(t, "--work-tree="+dir, "-c", "core.autocrlf=false", "checkout", "-q", "-f", "--detach", commit)
	r.git(t, "--work-tree="+dir, "clean", "-fdxq")
	return listing(t, dir)
}
