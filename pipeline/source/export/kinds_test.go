package export

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// checkReadable reads the range a..c and lays out both ends.
func checkReadable(t *testing.T, r *gittest.Repo, repo *source.Repo) {
	t.Helper()
	rng, err := repo.Range(t.Context(), "a", "c", source.RangeOptions{Paths: []string{"dir"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(rng.Commits) != 2 || rng.Bad.Subject != "commit c" || rng.Commits[0].Neutral {
		t.Fatalf("got %+v", rng.Commits)
	}
	e := export(t, repo)
	for _, c := range []string{rng.Bad.ID, rng.Good.ID, rng.Bad.ID} {
		hop(t, e, c, true)
	}
	got := gittest.Listing(t, e.Dir())
	if len(got) != 5 || !strings.Contains(got["dir/file"], `"c"`) {
		t.Fatalf("slot holds %v", got)
	}
}

func TestKindsOfRepository(t *testing.T) {
	src := gittest.New(t)
	src.ABC(t)
	clone := func(t *testing.T, args ...string) *gittest.Repo {
		r := &gittest.Repo{Dir: filepath.Join(t.TempDir(), "clone"), Date: src.Date}
		src.Git(t, append(append([]string{"clone", "-q"}, args...), "file://"+src.Dir, r.Dir)...)
		return r
	}
	for name, c := range map[string]struct {
		make    func(t *testing.T) *gittest.Repo
		backend string
	}{
		"plain": {func(t *testing.T) *gittest.Repo { return clone(t) }, "go-git"},
		"bare":  {func(t *testing.T) *gittest.Repo { return clone(t, "--bare") }, "go-git"},
		"packed refs": {func(t *testing.T) *gittest.Repo {
			r := clone(t)
			r.Git(t, "pack-refs", "--all")
			r.Git(t, "gc", "-q")
			return r
		}, "go-git"},
		"linked worktree": {func(t *testing.T) *gittest.Repo {
			r := clone(t)
			dir := filepath.Join(t.TempDir(), "linked")
			r.Git(t, "worktree", "add", "-q", "--detach", dir, "b")
			return &gittest.Repo{Dir: dir, Date: r.Date}
		}, "go-git"},
		"alternates": {func(t *testing.T) *gittest.Repo {
			dir := filepath.Join(t.TempDir(), "shared")
			src.Git(t, "clone", "-q", "--shared", src.Dir, dir)
			return &gittest.Repo{Dir: dir, Date: src.Date}
		}, "go-git"},
		"worktreeConfig": {func(t *testing.T) *gittest.Repo {
			r := clone(t)
			r.Git(t, "config", "core.repositoryFormatVersion", "1")
			r.Git(t, "config", "extensions.worktreeConfig", "true")
			return r
		}, "go-git"},
		"partial": {func(t *testing.T) *gittest.Repo {
			src.Git(t, "config", "uploadpack.allowFilter", "true")
			src.Git(t, "config", "uploadpack.allowAnySHA1InWant", "true")
			return clone(t, "--filter=blob:none", "--no-checkout")
		}, "git"},
		"treeless": {func(t *testing.T) *gittest.Repo { return clone(t, "--filter=tree:0", "--no-checkout") }, "git"},
		"partialClone extension": {func(t *testing.T) *gittest.Repo {
			r := clone(t)
			r.Git(t, "config", "core.repositoryFormatVersion", "1")
			r.Git(t, "config", "extensions.partialClone", "origin")
			return r
		}, "git"},
		"sha256": {func(t *testing.T) *gittest.Repo {
			r := gittest.New(t, "--object-format=sha256")
			r.ABC(t)
			return r
		}, "git"},
		"replaced": {func(t *testing.T) *gittest.Repo {
			r := clone(t)
			r.Git(t, "replace", r.Git(t, "rev-parse", "c:b"), r.Git(t, "rev-parse", "c:a"))
			return r
		}, "git"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.make(t)
			repo := open(t, r.Dir)
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

func TestGitEnvironmentIsIgnored(t *testing.T) {
	r := gittest.New(t, "--object-format=sha256")
	r.ABC(t)
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"} {
		if name == "GIT_DIR" {
			continue // set below, after the last use of git by the test itself
		}
		t.Setenv(name, "/nowhere")
	}
	t.Setenv("GIT_DIR", "/nowhere")
	checkReadable(t, r, open(t, r.Dir))
}

func TestPacksReplacedMeanwhile(t *testing.T) {
	r := gittest.New(t)
	r.ABC(t)
	r.Git(t, "repack", "-adq")
	repo := open(t, r.Dir)
	e := export(t, repo)
	hop(t, e, r.Git(t, "rev-parse", "a"), true)
	r.Write(t, "later", "l")
	id := r.Commit(t, "later")
	r.Git(t, "repack", "-adfq")
	r.Git(t, "prune-packed")
	hop(t, e, id, true)
	if _, err := repo.Commit(id); err != nil {
		t.Error(err)
	}
}

// Objects that are not what their ids say, or not what git writes, make their commit unreadable, and no other.
func TestDamagedObjects(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "d/f", "good")
	first := r.Commit(t, "first")
	for name, object := range map[string]string{"blob": "HEAD:d/f", "tree": "HEAD:d"} {
		for how, data := range map[string]string{"other content": "loose", "no content": ""} {
			r.Write(t, "d/f", name+how)
			c := r.Commit(t, name+how)
			id := r.Git(t, "rev-parse", object)
			file := filepath.Join(r.Dir, ".git/objects", id[:2], id[2:])
			if data != "" {
				other := r.Git(t, "rev-parse", strings.Replace(object, "HEAD", first, 1))
				loose, err := os.ReadFile(filepath.Join(r.Dir, ".git/objects", other[:2], other[2:]))
				if err != nil {
					t.Fatal(err)
				}
				data = string(loose)
			}
			if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte(data), 0o444)); err != nil {
				t.Fatal(err)
			}
			refused(t, r, first, c, name+" with "+how)
			r.Git(t, "reset", "-q", "--soft", first)
		}
	}
	blob := r.Pipe(t, "x", "hash-object", "-w", "--stdin")
	raw, _ := hex.DecodeString(blob)
	for _, mode := range []string{"", "9", "100644x", "777777777777777"} {
		tree := r.Pipe(t, mode+" f\x00"+string(raw), "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
		refused(t, r, first, r.CommitTree(t, tree, r.Date, first), "mode "+mode)
	}
}

// refused fails unless a commit can be searched around, but not exported.
func refused(t *testing.T, r *gittest.Repo, good, c, note string) {
	t.Helper()
	repo := open(t, r.Dir)
	e := export(t, repo)
	hop(t, e, good, true)
	if _, err := repo.Range(t.Context(), good, c, source.RangeOptions{Paths: []string{"d/f"}}); err != nil {
		t.Errorf("%s: %v", note, err)
	}
	_, err := e.Switch(t.Context(), c, true)
	if u := (*objects.UnsupportedError)(nil); !errors.As(err, &u) || u.Commit != c {
		t.Errorf("%s: %v", note, err)
	}
	hop(t, e, good, true)
}
