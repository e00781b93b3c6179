package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func TestNoGitProgram(t *testing.T) {
	r := gittest.New(t, "--object-format=sha256")
	r.ABC(t)
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(r.Dir); err == nil || !strings.Contains(err.Error(), "hint: install git") {
		t.Errorf("got %v", err)
	}
}

func TestShallow(t *testing.T) {
	src := gittest.New(t)
	src.ABC(t)
	first := src.Git(t, "rev-parse", "a")
	r := &gittest.Repo{Dir: filepath.Join(t.TempDir(), "clone"), Date: src.Date}
	src.Git(t, "clone", "-q", "--depth=2", "file://"+src.Dir, r.Dir)
	repo := open(t, r.Dir)
	if len(repo.Warnings()) != 1 {
		t.Errorf("warnings %q", repo.Warnings())
	}
	rng, err := repo.Range(t.Context(), "HEAD^", "HEAD", RangeOptions{})
	if err != nil || len(rng.Commits) != 1 || len(rng.Good.Parents) != 0 {
		t.Errorf("got %+v, %v", rng, err)
	}
	for _, good := range []string{first, "HEAD~2"} {
		if _, err := repo.Range(t.Context(), good, "HEAD", RangeOptions{}); err == nil || !strings.Contains(err.Error(), "--unshallow") {
			t.Errorf("%s: got %v", good, err)
		}
	}
}

func TestResolve(t *testing.T) {
	r := gittest.New(t)
	r.ABC(t)
	r.Git(t, "checkout", "-q", "-b", "feature/x", "b")
	r.Write(t, "side", "s")
	r.Commit(t, "side")
	r.Git(t, "checkout", "-q", "main")
	r.Date += 60
	r.Git(t, "merge", "-q", "--no-ff", "-m", "merge", "feature/x")
	r.Git(t, "tag", "-m", "annotated", "v1", "HEAD^2")
	r.Git(t, "tag", "-m", "nested", "v2", "v1")
	repo := open(t, r.Dir)
	id := r.Git(t, "rev-parse", "b")
	for _, rev := range []string{"HEAD", "@", "main", "refs/heads/main", "heads/main", "feature/x", "v1", "v2", "tags/v1", "v1^{}", "v2^{commit}",
		"HEAD^", "HEAD^2", "HEAD^^", "HEAD~2", "main^2~1", "HEAD^0", "HEAD@{0}", ":/commit b", id, id[:7], strings.ToUpper(id[:9]), "v1-0-g" + id[:8]} {
		want := r.Git(t, "rev-parse", r.Git(t, "rev-parse", rev)+"^{commit}")
		if got, err := repo.Resolve(t.Context(), rev); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", rev, got, err, want)
		}
	}
	for _, rev := range []string{"", "nothing", "HEAD^3", "HEAD~99", "--help", "HEAD:dir", "HEAD^{tree}", "main..v1", strings.Repeat("1", 40), "\x00", "../config", "config"} {
		if got, err := repo.Resolve(t.Context(), rev); err == nil {
			t.Errorf("%q: got %s", rev, got)
		}
	}
	r.Git(t, "tag", "a-tree", "HEAD^{tree}")
	if _, err := repo.Resolve(t.Context(), "a-tree"); err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("got %v", err)
	}
	if _, err := repo.Resolve(t.Context(), "feature/y"); err == nil || !strings.Contains(err.Error(), "feature/x") {
		t.Errorf("got %v", err)
	}
}

func TestCommitFields(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "f", "1")
	id := r.Commit(t, "one\ntwo\n\nbody")
	repo := open(t, r.Dir)
	c, err := repo.Commit(id)
	if err != nil {
		t.Fatal(err)
	}
	_, offset := c.When.Zone()
	if c.Subject != "one two" || c.Author != "A U Thor" || c.Email != "author@example.com" || c.When.Unix() != r.Date || offset != 3600 {
		t.Errorf("got %+v", c)
	}
	if _, err := repo.Commit(strings.Repeat("1", 40)); err == nil {
		t.Error("a missing commit was found")
	}
}

func TestOpenFromBelowAndNowhere(t *testing.T) {
	r := gittest.New(t)
	r.ABC(t)
	repo := open(t, filepath.Join(r.Dir, "dir"))
	if repo.WorkDir() != r.Dir || repo.CommonDir() != filepath.Join(r.Dir, ".git") {
		t.Errorf("got %s and %s", repo.WorkDir(), repo.CommonDir())
	}
	for _, dir := range []string{t.TempDir(), "/does/not/exist"} {
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "\nhint:") {
			t.Errorf("%s: got %v", dir, err)
		}
	}
	empty := gittest.New(t)
	if _, err := Head(open(t, empty.Dir)); err == nil {
		t.Error("an unborn branch has a commit")
	}
	if err := os.WriteFile(filepath.Join(r.Dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o666); err != nil {
		t.Fatal(err)
	}
}
