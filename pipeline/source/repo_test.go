package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// history3 makes three commits and tags them a, b and c.
func history3(t *testing.T, r *testRepo) {
	for _, name := range []string{"a", "b", "c"} {
		r.write(t, "dir/file", name)
		r.write(t, name, name)
		r.commit(t, "commit "+name)
		r.git(t, "tag", name)
	}
}

// checkReadable reads the range a..c and lays out both ends.
func checkReadable(t *testing.T, r *testRepo, repo *Repo) {
	t.Helper()
	rng, err := repo.Range(t.Context(), "a", "c", RangeOptions{Paths: []string{"dir"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(rng.Commits) != 2 || rng.Commits[1].Subject != "commit c" || rng.Commits[0].Neutral {
		t.Fatalf("got %+v", rng.Commits)
	}
	e := export(t, repo)
	for _, c := range []string{rng.Bad.ID, rng.Good.ID, rng.Bad.ID} {
		hop(t, e, c, true)
	}
	got := listing(t, e.Dir())
	if len(got) != 5 || !strings.Contains(got["dir/file"], `"c"`) {
		t.Fatalf("slot holds %v", got)
	}
}

func TestKindsOfRepository(t *testing.T) {
	src := newTestRepo(t)
	history3(t, src)
	clone := func(t *testing.T, args ...string) *testRepo {
		r := &testRepo{dir: filepath.Join(t.TempDir(), "clone"), date: src.date}
		src.git(t, append(append([]string{"clone", "-q"}, args...), "file://"+src.dir, r.dir)...)
		return r
	}
	for name, c := range map[string]struct {
		make    func(t *testing.T) *testRepo
		backend string
	}{
		"plain": {func(t *testing.T) *testRepo { return clone(t) }, "go-git"},
		"bare":  {func(t *testing.T) *testRepo { return clone(t, "--bare") }, "go-git"},
		"packed refs": {func(t *testing.T) *testRepo {
			r := clone(t)
			r.git(t, "pack-refs", "--all")
			r.git(t, "gc", "-q")
			return r
		}, "go-git"},
		"linked worktree": {func(t *testing.T) *testRepo {
			r := clone(t)
			dir := filepath.Join(t.TempDir(), "linked")
			r.git(t, "worktree", "add", "-q", "--detach", dir, "b")
			return &testRepo{dir: dir, date: r.date}
		}, "go-git"},
		"alternates": {func(t *testing.T) *testRepo {
			dir := filepath.Join(t.TempDir(), "shared")
			src.git(t, "clone", "-q", "--shared", src.dir, dir)
			return &testRepo{dir: dir, date: src.date}
		}, "go-git"},
		"worktreeConfig": {func(t *testing.T) *testRepo {
			r := clone(t)
			r.git(t, "config", "core.repositoryFormatVersion", "1")
			r.git(t, "config", "extensions.worktreeConfig", "true")
			return r
		}, "go-git"},
		"partial": {func(t *testing.T) *testRepo {
			src.git(t, "config", "uploadpack.allowFilter", "true")
			src.git(t, "config", "uploadpack.allowAnySHA1InWant", "true")
			return clone(t, "--filter=blob:none", "--no-checkout")
		}, "git"},
		"treeless": {func(t *testing.T) *testRepo { return clone(t, "--filter=tree:0", "--no-checkout") }, "git"},
		"partialClone extension": {func(t *testing.T) *testRepo {
			r := clone(t)
			r.git(t, "config", "core.repositoryFormatVersion", "1")
			r.git(t, "config", "extensions.partialClone", "origin")
			return r
		}, "git"},
		"sha256": {func(t *testing.T) *testRepo {
			r := newTestRepo(t, "--object-format=sha256")
			history3(t, r)
			return r
		}, "git"},
		"replaced": {func(t *testing.T) *testRepo {
			r := clone(t)
			r.git(t, "replace", r.git(t, "rev-parse", "c:b"), r.git(t, "rev-parse", "c:a"))
			return r
		}, "git"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.make(t)
			repo := open(t, r.dir)
			if repo.Backend() != c.backend {
				t.Errorf("backend %s, want %s", repo.Backend(), c.backend)
			}
			if c.backend == "git" && len(repo.Warnings()) == 0 {
				t.Error("the choice of git was not told")
			}
			checkReadable(t, r, repo)
			if len(repo.Warnings()) > 0 {
				t.Logf("warnings: %q", repo.Warnings())
			}
		})
	}
}

func TestNoGitProgram(t *testing.T) {
	r := newTestRepo(t, "--object-format=sha256")
	history3(t, r)
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(r.dir); err == nil || !strings.Contains(err.Error(), "hint: install git") {
		t.Errorf("got %v", err)
	}
}

func TestGitEnvironmentIsIgnored(t *testing.T) {
	r := newTestRepo(t, "--object-format=sha256")
	history3(t, r)
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"} {
		if name == "GIT_DIR" {
			continue // set below, after the last use of git by the test itself
		}
		t.Setenv(name, "/nowhere")
	}
	t.Setenv("GIT_DIR", "/nowhere")
	checkReadable(t, r, open(t, r.dir))
}

func TestShallow(t *testing.T) {
	src := newTestRepo(t)
	history3(t, src)
	first := src.git(t, "rev-parse", "a")
	r := &testRepo{dir: filepath.Join(t.TempDir(), "clone"), date: src.date}
	src.git(t, "clone", "-q", "--depth=2", "file://"+src.dir, r.dir)
	repo := open(t, r.dir)
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
	r := newTestRepo(t)
	history3(t, r)
	r.git(t, "checkout", "-q", "-b", "feature/x", "b")
	r.write(t, "side", "s")
	r.commit(t, "side")
	r.git(t, "checkout", "-q", "main")
	r.date += 60
	r.git(t, "merge", "-q", "--no-ff", "-m", "merge", "feature/x")
	r.git(t, "tag", "-m", "annotated", "v1", "HEAD^2")
	r.git(t, "tag", "-m", "nested", "v2", "v1")
	repo := open(t, r.dir)
	id := r.git(t, "rev-parse", "b")
	for _, rev := range []string{"HEAD", "@", "main", "refs/heads/main", "heads/main", "feature/x", "v1", "v2", "tags/v1", "v1^{}", "v2^{commit}",
		"HEAD^", "HEAD^2", "HEAD^^", "HEAD~2", "main^2~1", "HEAD^0", "HEAD@{0}", ":/commit b", id, id[:7], strings.ToUpper(id[:9]), "v1-0-g" + id[:8]} {
		want := r.git(t, "rev-parse", r.git(t, "rev-parse", rev)+"^{commit}")
		if got, err := repo.Resolve(rev); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", rev, got, err, want)
		}
	}
	for _, rev := range []string{"", "nothing", "HEAD^3", "HEAD~99", "--help", "HEAD:dir", "HEAD^{tree}", "main..v1", strings.Repeat("1", 40), "\x00", "../config", "config"} {
		if got, err := repo.Resolve(rev); err == nil {
			t.Errorf("%q: got %s", rev, got)
		}
	}
	if _, err := repo.Resolve("feature/y"); err == nil || !strings.Contains(err.Error(), "feature/x") {
		t.Errorf("got %v", err)
	}
}

func TestCommitFields(t *testing.T) {
	r := newTestRepo(t)
	r.write(t, "f", "1")
	id := r.commit(t, "one\ntwo\n\nbody")
	repo := open(t, r.dir)
	c, err := repo.Commit(id)
	if err != nil {
		t.Fatal(err)
	}
	_, offset := c.When.Zone()
	if c.Subject != "one two" || c.Author != "A U Thor" || c.Email != "author@example.com" || c.When.Unix() != r.date || offset != 3600 {
		t.Errorf("got %+v", c)
	}
	if _, err := repo.Commit(strings.Repeat("1", 40)); err == nil {
		t.Error("a missing commit was found")
	}
}

func TestPacksReplacedMeanwhile(t *testing.T) {
	r := newTestRepo(t)
	history3(t, r)
	r.git(t, "repack", "-adq")
	repo := open(t, r.dir)
	e := export(t, repo)
	hop(t, e, r.git(t, "rev-parse", "a"), true)
	time.Sleep(20 * time.Millisecond) // the folder's time is coarse
	r.write(t, "later", "l")
	id := r.commit(t, "later")
	r.git(t, "repack", "-adfq")
	r.git(t, "prune-packed")
	hop(t, e, id, true)
	if _, err := repo.Commit(id); err != nil {
		t.Error(err)
	}
}

func TestOpenFromBelowAndNowhere(t *testing.T) {
	r := newTestRepo(t)
	history3(t, r)
	repo := open(t, filepath.Join(r.dir, "dir"))
	if repo.WorkDir() != r.dir || repo.CommonDir() != filepath.Join(r.dir, ".git") {
		t.Errorf("got %s and %s", repo.WorkDir(), repo.CommonDir())
	}
	for _, dir := range []string{t.TempDir(), "/does/not/exist"} {
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "\nhint:") {
			t.Errorf("%s: got %v", dir, err)
		}
	}
	empty := newTestRepo(t)
	if _, err := open(t, empty.dir).Resolve("HEAD"); err == nil {
		t.Error("an unborn branch has a commit")
	}
	if err := os.WriteFile(filepath.Join(r.dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o666); err != nil {
		t.Fatal(err)
	}
}
