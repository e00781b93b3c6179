package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
)

func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	os.Exit(m.Run())
}

// opened is a workspace over a history of two commits, whose file n holds 0 and 1.
func opened(t *testing.T) (root *Root, w *Workspace, ids []string) {
	t.Helper()
	root, w, _, ids = overRepo(t)
	return root, w, ids
}

// overRepo is opened, with the repository.
func overRepo(t *testing.T) (root *Root, w *Workspace, repo *source.Repo, ids []string) {
	t.Helper()
	home := t.TempDir()
	made, err := fixtures.Replay(fixtures.Line(2, func(i int) []fixtures.Change {
		return []fixtures.Change{fixtures.Write("n", string(rune('0'+i)))}
	}), filepath.Join(home, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	repo, err = source.Open(made.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	if root, err = Open(t.Context(), filepath.Join(home, "work", "job"), "test-"+rand.Text()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	w = root.New("search")
	if err := w.Open(Opening{Repo: repo}); err != nil {
		t.Fatal(err)
	}
	for _, label := range made.Order {
		ids = append(ids, made.Commits[label])
	}
	return root, w, repo, ids
}

// A clean switch keeps nothing; another one keeps what the build has made, but not what is known of it.
func TestSwitch(t *testing.T) {
	_, w, ids := opened(t)
	for i, c := range []struct {
		commit int
		clean  bool
		left   bool
	}{{0, true, false}, {1, false, true}, {0, true, false}} {
		w.Contents.Built, w.Contents.Candidate.Commit = true, "before"
		if _, err := w.Switch(t.Context(), ids[c.commit], c.clean); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(w.Dir, "n"))
		if err != nil || string(data) != string(rune('0'+c.commit)) || w.Contents.Built || w.Contents.Candidate.Commit != "" {
			t.Errorf("step %d: %q, %v, %+v", i, data, err, w.Contents)
		}
		object := filepath.Join(w.Dir, "n.o")
		if _, err := os.Stat(object); (err == nil) != c.left {
			t.Errorf("step %d: the object file is there: %v", i, err == nil)
		}
		if err := os.WriteFile(object, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// A process finds an empty TMPDIR and caches of its own, git does not find the user's repository, and what it
// leaves in TMPDIR is removed.
func TestRun(t *testing.T) {
	_, w, ids := opened(t)
	if _, err := w.Switch(t.Context(), ids[0], true); err != nil {
		t.Fatal(err)
	}
	base := append(os.Environ(), "GIT_DIR=/nowhere", "TRITON_CACHE_DIR=/mine", "TMPDIR=/mine")
	env := w.Environ(base, w.Dir, w.Caches.Dir)
	if slices.Contains(env, "GIT_DIR=/nowhere") {
		t.Error("GIT_DIR was passed on")
	}
	const script = `test -z "$(ls -A $TMPDIR)" && touch $TMPDIR/x && mkdir -p $TRITON_CACHE_DIR && touch $TRITON_CACHE_DIR/y && echo $PWD $TMPDIR $TRITON_CACHE_DIR`
	for range 2 {
		res, err := w.Run(t.Context(), proc.Spec{Argv: []string{"sh", "-c", script}, Dir: w.Dir, Env: env})
		if err != nil || res.Exit != 0 || strings.Count(string(res.Tail), w.Folder) != 3 {
			t.Errorf("%v %+v %s", err, res, res.Tail)
		}
	}
	if _, err := os.Stat(w.Tmp); err == nil {
		t.Error("TMPDIR was left behind")
	}
	if !w.Caches.Filled(false, false) {
		t.Error("the cache was not noticed")
	}
	if err := w.ClearCaches(); err != nil || w.Caches.Filled(true, true) {
		t.Errorf("after clearing: %v", err)
	}
}

// Who removes the lock of the job is no candidate; a candidate may remove its tree, and its folder, which is made again.
func TestCheck(t *testing.T) {
	var infra *bisect.InfraError
	root, w, _ := opened(t)
	if err := errors.Join(root.Check(), w.Check()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.RemoveAll(w.Dir), w.Check()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.RemoveAll(w.Folder), w.Check()); err != nil || !w.Gone() {
		t.Errorf("without its folder: %v", err)
	}
	if err := os.Remove(root.Dir + lockSuffix); err != nil {
		t.Fatal(err)
	}
	if err := root.Check(); !errors.As(err, &infra) {
		t.Errorf("without the lock: %v", err)
	}
}

// A root removes what killed processes left beside it, and nothing that another one still holds.
func TestOpenRemovesStaleFolders(t *testing.T) {
	root, _, _ := opened(t)
	parent := filepath.Dir(root.Dir)
	stale := filepath.Join(parent, "stale")
	if err := errors.Join(os.MkdirAll(filepath.Join(stale, "tree"), 0o500), os.WriteFile(stale+lockSuffix, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), filepath.Join(parent, "other"), "test-"+rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("the stale folder was left")
	}
	if err := root.Check(); err != nil {
		t.Error(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if _, err := exec.Command("ls", root.Dir).Output(); err != nil {
		t.Errorf("the other folder went with it: %v", err)
	}
}

// What an interrupted job has no time to remove is not an error of it: the next one removes the rest.
func TestCloseWhenTimeIsUp(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "work")
	ctx, interrupt := context.WithCancel(t.Context())
	r, err := Open(ctx, filepath.Join(parent, "first"), "")
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(r.Dir, "tree")
	if err := os.Mkdir(tree, 0o777); err != nil {
		t.Fatal(err)
	}
	interrupt()
	<-r.ctx.Done()
	if err := r.Close(); err != nil {
		t.Errorf("closed: %v", err)
	}
	if _, err := os.Stat(tree); err != nil {
		t.Errorf("removed although time was up: %v", err)
	}
	next, err := Open(t.Context(), filepath.Join(parent, "next"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tree); err == nil {
		t.Error("the next job left it")
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// Jobs that begin and end at once share the folder above theirs, which the last one removes.
func TestRootsComeAndGo(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "work")
	var jobs sync.WaitGroup
	for i := range 4 {
		jobs.Go(func() {
			for range 300 {
				r, err := Open(t.Context(), filepath.Join(parent, strconv.Itoa(i)), "")
				if err == nil {
					err = r.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	jobs.Wait()
}

// With a sandbox, processes write the workspace's own folders and what tools were given, and only read what other
// workspaces of the job hold; their bytecode is their own.
func TestSandboxFolders(t *testing.T) {
	root, plain, _ := opened(t)
	root.Sandbox = &proc.Sandbox{Read: []string{"/usr"}, Write: []string{t.TempDir()}}
	w, other := root.New("boxed"), root.New("other")
	if w.Caches.Python == other.Caches.Python || plain.Caches.Python == w.Caches.Python {
		t.Errorf("bytecode is shared: %s", w.Caches.Python)
	}
	scratch, err := w.Scratch("profile")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has nothing that the first has added
		box, err := w.sandbox()
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{root.Sandbox.Write[0], w.Dir, w.Tmp, w.Caches.Dir, w.Caches.Python, scratch}; !slices.Equal(box.Write, want) || box.Tmp != w.Tmp || !slices.Equal(box.Read, []string{"/usr", root.Dir}) {
			t.Errorf("%+v", box)
		}
		for _, dir := range box.Write {
			if st, err := os.Stat(dir); err != nil || !st.IsDir() {
				t.Errorf("%s: %v", dir, err)
			}
		}
	}
	var infra *bisect.InfraError
	root.Sandbox.Write = []string{filepath.Join(os.DevNull, "x")}
	if _, err := w.sandbox(); !errors.As(err, &infra) {
		t.Errorf("a folder that cannot be made: %v", err)
	}
}

// A scratch folder is empty each time, whatever was left in it.
func TestScratchIsEmpty(t *testing.T) {
	_, w, _ := opened(t)
	for range 2 {
		dir, err := w.Scratch("profile")
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v %v", left, err)
		}
		if err := errors.Join(os.WriteFile(dir+"/x", nil, 0), os.Chmod(dir, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// A commit that the repository lacks is refused, which accuses nobody; a switch that was interrupted or whose folder
// cannot be made is no refusal, and one without the job's lock says that the folder was removed.
func TestSwitchFaults(t *testing.T) {
	root, w, ids := opened(t)
	var infra *bisect.InfraError
	if _, err := w.Switch(t.Context(), strings.Repeat("1", 40), true); !Refused(err) {
		t.Errorf("an unknown commit: %v", err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Switch(stopped, ids[0], true); !errors.Is(err, context.Canceled) || errors.As(err, &infra) || Refused(err) {
		t.Errorf("interrupted: %v", err)
	}
	if err := errors.Join(os.RemoveAll(w.Folder), os.WriteFile(w.Folder, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Switch(t.Context(), ids[0], true); !errors.As(err, &infra) || Refused(err) {
		t.Errorf("a file in place of the folder: %v", err)
	}
	if err := os.Remove(root.Dir + lockSuffix); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Switch(t.Context(), ids[0], true); !errors.As(err, &infra) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("without the job's folder: %v", err)
	}
}

// A cancelled run is an error with its cause, not an outcome.
func TestRunCancelled(t *testing.T) {
	_, w, _ := opened(t)
	why := errors.New("enough")
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := w.Run(stopped, proc.Spec{Argv: []string{"sleep", "1000"}, Dir: w.Dir, Env: os.Environ()}); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

// A workspace that was never opened has nothing to remove, and cannot be gone.
func TestUnopened(t *testing.T) {
	root, _, _ := opened(t)
	w := root.New("never")
	words, paths := w.Missing()
	if err := w.Remove(); err != nil || w.Gone() || words != nil || paths != nil {
		t.Errorf("%v, gone %v, %q", err, w.Gone(), words)
	}
}

// A folder that cannot be made or locked is told at once.
func TestOpenFaults(t *testing.T) {
	home := t.TempDir()
	if err := errors.Join(os.WriteFile(home+"/file", nil, 0o666), os.MkdirAll(filepath.Join(home, "work", "job.lock"), 0o777), os.Symlink("nowhere", home+"/dangling")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"file/job", "work/job", "dangling/job"} {
		if _, err := Open(t.Context(), filepath.Join(home, dir), "test-"+rand.Text()); err == nil {
			t.Errorf("%s was opened", dir)
		}
	}
}
