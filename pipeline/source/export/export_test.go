package export

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// randomTree writes a random state over a few names, so that files, folders,
// links and modes take each other's place. It works through an os.Root, so
// that no link can lead it out of the test's folder.
func randomTree(t gittest.Failer, rng *rand.Rand, r *gittest.Repo) {
	t.Helper()
	root := gittest.OpenRoot(t, r.Dir)
	defer root.Close()
	names := []string{"a", "b", "a/x", "a/y", "A", "a/X", "b/x", "b/d/z", "c", "c/d/e/f", "run.sh", "köln", "back\\slash", "sp ace"}
	for range 1 + rng.IntN(4) {
		name := names[rng.IntN(len(names))]
		for at := path.Dir(name); at != "."; at = path.Dir(at) {
			if fi, err := root.Lstat(at); err == nil && !fi.IsDir() {
				root.Remove(at)
			}
		}
		root.RemoveAll(name)
		root.MkdirAll(path.Dir(name), 0o777)
		switch rng.IntN(6) {
		case 0: // stays deleted
		case 1:
			if err := root.Symlink([]string{"b", "../outside", "/nonexistent/target", "a"}[rng.IntN(4)], name); err != nil {
				t.Fatalf("%v", err)
			}
		case 2:
			root.WriteFile(name, []byte(strings.Repeat("x", rng.IntN(3))), 0o777)
		default:
			root.WriteFile(name, []byte(strings.Repeat("x", rng.IntN(3))), 0o666)
		}
	}
}

// dirt does to a slot what a careless build may do. Links that lead outside
// are planted but, thanks to the os.Root, never followed by the test itself.
//
// Kinds are the changes that it chooses from; without them it is all.
func dirt(t gittest.Failer, rng *rand.Rand, dir, outside string, kinds ...int) {
	t.Helper()
	root := gittest.OpenRoot(t, dir)
	defer root.Close()
	names := []string{"a", "b", "a/x", "b/d", "out", "out/o.o", "c/d/e", "c", "a/new", "run.sh"}
	for range rng.IntN(6) {
		name := names[rng.IntN(len(names))]
		kind := rng.IntN(15)
		if len(kinds) > 0 {
			kind = kinds[rng.IntN(len(kinds))]
		}
		switch kind {
		case 11: // written by a name outside, with its old time
			forge(root, name, func(f *os.File, _ os.FileInfo) {
				other := outside + ".link"
				if unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", f.Fd()), unix.AT_FDCWD, other, unix.AT_SYMLINK_FOLLOW) == nil {
					g, err := os.OpenFile(other, os.O_WRONLY, 0)
					os.Remove(other)
					if err == nil {
						g.WriteString("!")
						g.Close()
					}
				}
			})
		case 12: // written in memory, with its old time
			forge(root, name, func(f *os.File, fi os.FileInfo) {
				if mem, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
					mem[0] = '!'
					unix.Munmap(mem)
				}
			})
		case 13: // a folder that is elsewhere, and looks the same
			if root.Rename(name, "moved") == nil {
				root.Symlink("moved", name)
			}
		case 14: // a name more, and the folder has its old time
			if fi, err := root.Stat(path.Dir(name)); err == nil {
				root.WriteFile(path.Join(path.Dir(name), "more"), nil, 0o666)
				root.Chtimes(path.Dir(name), fi.ModTime(), fi.ModTime())
			}
		case 0:
			root.RemoveAll(name)
		case 8:
			root.Link(name, "linked"+name[:1])
		case 9:
			root.Chmod(path.Dir(name), 0o710)
		case 10: // nothing but the inode's own time changes
			if fi, err := root.Lstat(name); err == nil {
				root.Chmod(name, fi.Mode())
			}
		case 1:
			root.RemoveAll(name)
			root.Symlink(outside, name)
		case 2:
			root.RemoveAll(name)
			root.MkdirAll(path.Join(name, "deep"), 0o777)
		case 3:
			root.Chmod(name, 0o400)
		case 4:
			if f, err := root.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0); err == nil {
				f.WriteString("dirt")
				f.Close()
			}
		case 5:
			root.RemoveAll(name)
			root.Symlink(".", name)
		case 6: // same size, same time, other content
			if fi, err := root.Lstat(name); err == nil && fi.Mode().IsRegular() && fi.Size() > 0 {
				root.WriteFile(name, []byte(strings.Repeat("?", int(fi.Size()))), 0o666)
				root.Chtimes(name, fi.ModTime(), fi.ModTime())
			}
		default:
			root.MkdirAll(path.Dir(name), 0o777)
			root.WriteFile(name, []byte("made"), 0o444)
		}
	}
}

// forge changes a file that is not empty, and gives it its time back.
func forge(root *os.Root, name string, change func(*os.File, os.FileInfo)) {
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Mode().IsRegular() && fi.Size() > 0 {
		change(f, fi)
		root.Chtimes(name, fi.ModTime(), fi.ModTime())
	}
}

// A slot equals a fresh checkout after any switch, whatever a build has done to it: 2,400 switches, 10,000 in make attack.
func TestSwitchEqualsCheckout(t *testing.T) {
	dir := t.TempDir()
	round, rounds, held := 0, 12, 0
	if os.Getenv("KBISECT_ATTACK") != "" {
		rounds = 50
		defer func() {
			t.Logf("attack: switches of a tree that builds have changed: tried %d, held %d", rounds*200, round*200)
		}()
	}
	rapid.Check(t, func(rt *rapid.T) {
		if round == rounds {
			return // each round runs dozens of git processes
		}
		round++
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		base := filepath.Join(dir, fmt.Sprint(round))
		r := &gittest.Repo{Dir: filepath.Join(base, "repo"), Date: 1700000000}
		os.MkdirAll(r.Dir, 0o777)
		r.Git(rt, "init", "-q", "-b", "main")
		var commits []string
		for i := range 6 {
			randomTree(rt, rng, r)
			commits = append(commits, r.Commit(rt, fmt.Sprint(i)))
		}
		if rng.IntN(2) == 0 {
			r.Git(rt, "repack", "-adq")
		}
		want := map[string]map[string]string{}
		for _, c := range commits {
			want[c] = r.Checkout(rt, filepath.Join(base, "want"), c)
		}
		repo, err := source.Open(r.Dir)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		defer repo.Close()
		e, err := New(t.Context(), repo, filepath.Join(base, "slot"))
		if err != nil {
			rt.Fatalf("%v", err)
		}
		defer e.Close()
		e.deaf = rng.IntN(4) == 0 // every file is looked at before each switch
		// What lies outside must stay as it is, whatever leads there.
		outside := filepath.Join(base, "outside")
		for _, name := range []string{"x", "new", "d", "o.o", "deep/er"} {
			os.MkdirAll(filepath.Dir(filepath.Join(outside, name)), 0o777)
			os.WriteFile(filepath.Join(outside, name), []byte("precious"), 0o666)
		}
		precious := gittest.Listing(rt, outside)
		modes, err := os.Stat(filepath.Dir(outside))
		if err != nil {
			rt.Fatalf("%v", err)
		}
		for i := range 200 {
			c := commits[rng.IntN(len(commits))]
			clean := rng.IntN(2) == 0
			before := linked(e.Dir())
			hop(rt, e, c, clean)
			got := gittest.Listing(rt, e.Dir())
			if clean {
				sameFolderModes(rt, e.Dir(), modes)
			} else {
				for name, was := range before {
					if now := linked(e.Dir())[name]; now != was {
						rt.Fatalf("hop %d: %s, another name of a file, held %q and holds %q", i, name, was, now)
					}
				}
				got = onlyWanted(got, want[c])
			}
			gittest.SameListing(rt, got, want[c], fmt.Sprintf("hop %d to %s clean %v", i, objects.Short(c), clean))
			gittest.SameListing(rt, gittest.Listing(rt, outside), precious, "outside the slot")
			switch rng.IntN(20) {
			case 0, 1, 2, 3, 4, 5:
			case 6: // the next scan trusts what folders look like
				time.Sleep(2 * (racy + 2*e.slot.grain))
			case 7: // and the one after it that nothing was heard of a file
				time.Sleep(2 * (racy + 2*e.slot.grain))
				for range 2 {
					hop(rt, e, c, clean)
				}
				dirt(rt, rng, e.Dir(), outside, 3, 4, 6, 10, 11, 12)
			default:
				dirt(rt, rng, e.Dir(), outside)
			}
			held++
		}
	})
}

// linked is what the files hold that dirt has made as further names of others.
func linked(dir string) map[string]string {
	out := map[string]string{}
	names, _ := filepath.Glob(filepath.Join(dir, "linked*"))
	for _, name := range names {
		if fi, err := os.Lstat(name); err == nil && fi.Mode().IsRegular() {
			text, _ := os.ReadFile(name)
			out[name] = string(text)
		}
	}
	return out
}

// sameFolderModes fails unless all folders are as one that was just made.
func sameFolderModes(t gittest.Failer, dir string, want os.FileInfo) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil && fi.Mode() != want.Mode() {
			return fmt.Errorf("folder %s has mode %v, want %v", file, fi.Mode(), want.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// onlyWanted leaves build output out of a listing.
func onlyWanted(got, want map[string]string) map[string]string {
	out := map[string]string{}
	for name, what := range got {
		if _, ok := want[name]; ok {
			out[name] = what
		}
	}
	return out
}

func TestSwitchKeepsBuildOutputAndUntouchedFiles(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "same", "1")
	r.Write(t, "src/k.cu", "a")
	a := r.Commit(t, "a")
	r.Write(t, "src/k.cu", "b")
	b := r.Commit(t, "b")
	e := export(t, open(t, r.Dir))
	if stats := hop(t, e, a, true); !stats.Full || stats.Written != 2 {
		t.Fatalf("first hop: %+v", stats)
	}
	before, _ := os.Stat(filepath.Join(e.Dir(), "same"))
	os.WriteFile(filepath.Join(e.Dir(), "src/k.o"), []byte("o"), 0o666)
	stats := hop(t, e, b, false)
	if want := (SwitchStats{Written: 1, Kept: 1}); stats != want {
		t.Fatalf("got %+v, want %+v", stats, want)
	}
	after, _ := os.Stat(filepath.Join(e.Dir(), "same"))
	if !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Fatal("an unchanged file was touched")
	}
	if _, err := os.Stat(filepath.Join(e.Dir(), "src/k.o")); err != nil {
		t.Fatal("build output is gone")
	}
	if stats := hop(t, e, b, true); stats.Written != 0 {
		t.Fatalf("clean hop: %+v", stats)
	}
	if _, err := os.Stat(filepath.Join(e.Dir(), "src/k.o")); err == nil {
		t.Fatal("build output is still there")
	}
}

// A folder that a commit lacks, and that stays for what a build has left in it, goes with the next clean switch.
func TestCleanSwitchRemovesFoldersThatStayed(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "top", "1")
	a := r.Commit(t, "a")
	r.Write(t, "b/f", "1")
	b := r.Commit(t, "b")
	e := export(t, open(t, r.Dir))
	hop(t, e, b, true)
	gittest.WriteFiles(t, e.Dir(), map[string]string{"b/built": ""}, 0o666)
	for { // until the folders are old enough to be taken for what they were
		hop(t, e, b, false)
		if e.held.places[""].seen != (fileStamp{}) {
			break
		}
	}
	hop(t, e, a, false)
	hop(t, e, a, true)
	if got := gittest.Listing(t, e.Dir()); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// A file that nothing has happened to is not looked at again; when events were lost, all are.
func TestOnlyWhatWasHeardOfIsLookedAt(t *testing.T) {
	const files = 4000 // writing all of them makes more events than the kernel keeps
	r := gittest.New(t)
	var commits []string
	for i := range 2 {
		for f := range files {
			r.Write(t, fmt.Sprintf("d%d/f%d", f%20, f), fmt.Sprint(f, i))
		}
		commits = append(commits, r.Commit(t, fmt.Sprint(i)))
	}
	e := export(t, open(t, r.Dir))
	quiet := func() (n int) {
		for _, t := range e.held.order {
			if t.quiet {
				n++
			}
		}
		return n
	}
	hop(t, e, commits[0], true)
	for f := range 20 { // a folder that has only just been written is read again
		for e.held.places[fmt.Sprintf("d%d", f)].seen == (fileStamp{}) {
			hop(t, e, commits[0], true)
		}
	}
	hop(t, e, commits[0], true)
	if e.watch == nil || e.watched[1] == nil {
		t.Skip("files cannot be watched here")
	}
	if got := quiet(); got != files {
		t.Errorf("%d of %d files are known to be as they were", got, files)
	}
	wrong := func(name string) string {
		other := filepath.Join(t.TempDir(), "other")
		if err := errors.Join(os.Link(filepath.Join(e.Dir(), name), other), os.WriteFile(other, []byte("wrong"), 0o666), os.Remove(other)); err != nil {
			t.Skip(err)
		}
		return name
	}
	for range 3 {
		name := wrong("d3/f3")
		if stats := hop(t, e, commits[0], true); stats.Written != 1 {
			t.Errorf("%s: %d files were restored", name, stats.Written)
		}
	}
	for i := range 4 {
		if stats := hop(t, e, commits[(i+1)%2], true); stats.Written != files || e.deaf {
			t.Fatalf("%d files were written; events lost: %v", stats.Written, e.deaf)
		}
	}
	hop(t, e, commits[0], true)
	for range 5 {
		for _, known := range e.held.order {
			if err := os.Chmod(filepath.Join(e.Dir(), known.full), os.FileMode(known.seen.mode&0o777)); err != nil {
				t.Fatal(err)
			}
		}
	}
	wrong("d3/f3")
	if hop(t, e, commits[0], true); !e.deaf || quiet() > 0 {
		t.Errorf("events were lost, and %d files are taken for what they were", quiet())
	}
	gittest.SameListing(t, gittest.Listing(t, e.Dir()), r.Checkout(t, filepath.Join(t.TempDir(), "want"), commits[0]), "after lost events")
}

func TestStampsGrow(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "k.cu", "a")
	a := r.Commit(t, "a")
	r.Write(t, "k.cu", "b")
	b := r.Commit(t, "b")
	repo := open(t, r.Dir)
	dir := filepath.Join(t.TempDir(), "slot")
	e, err := New(t.Context(), repo, dir)
	if err != nil {
		t.Fatal(err)
	}
	mtime := func() time.Time {
		fi, err := os.Stat(filepath.Join(dir, "k.cu"))
		if err != nil {
			t.Fatal(err)
		}
		return fi.ModTime()
	}
	last := time.Time{}
	check := func(note string) {
		t.Helper()
		if now := mtime(); !now.After(last) {
			t.Fatalf("%s: %v is not after %v", note, now, last)
		} else {
			last = now
		}
	}
	for i := range 20 {
		hop(t, e, []string{a, b}[i%2], i%3 == 0)
		check("A to B to A")
	}
	future := time.Now().Add(48 * time.Hour)
	os.WriteFile(filepath.Join(dir, "out.o"), nil, 0o666)
	os.Chtimes(filepath.Join(dir, "out.o"), future, future)
	last = future
	hop(t, e, a, false)
	check("output from the future")
	e.Close()
	if e, err = New(t.Context(), repo, dir); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	hop(t, e, b, true)
	check("a new session")
}

func TestMakeNeverMissesARebuild(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make program")
	}
	r := gittest.New(t)
	r.Write(t, "Makefile", "out: in\n\t@cp in out\n")
	r.Write(t, "in", "A")
	a := r.Commit(t, "a")
	r.Write(t, "in", "B")
	b := r.Commit(t, "b")
	e := export(t, open(t, r.Dir))
	for i := range 50 {
		commit, want := a, "A"
		if i%2 == 1 {
			commit, want = b, "B"
		}
		hop(t, e, commit, false)
		if out, err := exec.Command("make", "-s", "-C", e.Dir()).CombinedOutput(); err != nil {
			t.Fatalf("make: %v: %s", err, out)
		}
		if got, _ := os.ReadFile(filepath.Join(e.Dir(), "out")); string(got) != want {
			t.Fatalf("switch %d: built from %q, want %q", i, got, want)
		}
	}
}

func TestExportsInParallel(t *testing.T) {
	r := gittest.New(t)
	var commits []string
	for i := range 8 {
		for j := range 30 {
			r.Write(t, fmt.Sprintf("d%d/f%d", j%5, j), strings.Repeat(fmt.Sprint(i*j%7), 500))
		}
		commits = append(commits, r.Commit(t, fmt.Sprint(i)))
	}
	r.Git(t, "repack", "-adq")
	want := map[string]map[string]string{}
	for _, c := range commits {
		want[c] = r.Checkout(t, filepath.Join(t.TempDir(), "want"), c)
	}
	repo := open(t, r.Dir)
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for g := range 4 {
		e := export(t, repo)
		wg.Go(func() {
			for i := range 16 {
				c := commits[(i*(g+1)+g)%len(commits)]
				if _, err := e.Switch(context.Background(), c, true); err != nil {
					errs <- err
					return
				}
				gittest.SameListing(t, gittest.Listing(t, e.Dir()), want[c], c)
				if _, err := repo.Commit(c); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

func TestLargeAndDeltaBlobs(t *testing.T) {
	r := gittest.New(t)
	rng := rand.New(rand.NewPCG(3, 4))
	big := make([]byte, 3<<20)
	for i := range big {
		big[i] = byte(rng.IntN(256))
	}
	r.Write(t, "big.bin", string(big))
	a := r.Commit(t, "a")
	big[1<<20]++
	r.Write(t, "big.bin", string(big)+"tail")
	b := r.Commit(t, "b")
	r.Git(t, "repack", "-adfq")
	want := map[string]map[string]string{}
	for _, c := range []string{a, b} {
		want[c] = r.Checkout(t, filepath.Join(t.TempDir(), "want"), c)
	}
	e := export(t, open(t, r.Dir))
	for _, c := range []string{a, b, a} {
		hop(t, e, c, true)
		gittest.SameListing(t, gittest.Listing(t, e.Dir()), want[c], c)
	}
}

func TestUserFilesUntouched(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "f", "1")
	a := r.Commit(t, "a")
	r.Write(t, "f", "2")
	b := r.Commit(t, "b")
	r.Write(t, "f", "local change")
	r.Write(t, "new", "untracked")
	snapshot := func() string {
		var out []string
		filepath.Walk(r.Dir, func(file string, fi os.FileInfo, err error) error {
			if err == nil && fi.Mode().IsRegular() {
				data, _ := os.ReadFile(file)
				out = append(out, fmt.Sprintf("%s %v %v %q", file, fi.Mode(), fi.ModTime(), data))
			}
			return nil
		})
		return strings.Join(out, "\n")
	}
	before := snapshot()
	repo := open(t, r.Dir)
	if _, err := repo.Range(t.Context(), a, "HEAD", source.RangeOptions{Paths: []string{"f"}}); err != nil {
		t.Fatal(err)
	}
	e := export(t, repo)
	hop(t, e, a, true)
	hop(t, e, b, false)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if snapshot() != before {
		t.Fatal("the repository has changed")
	}
	for _, dir := range []string{r.Dir, filepath.Dir(r.Dir), filepath.Join(r.Dir, ".git")} {
		if _, err := New(t.Context(), repo, dir); err == nil {
			t.Errorf("export into %s was not refused", dir)
		}
	}
	foreign := t.TempDir()
	os.WriteFile(filepath.Join(foreign, "precious"), nil, 0o666)
	if _, err := New(t.Context(), repo, foreign); err == nil || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("a foreign folder was taken: %v", err)
	}
}

func TestUnsafeTreesRefused(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "ok", "1")
	first := r.Commit(t, "first")
	blob := r.Pipe(t, "evil", "hash-object", "-w", "--stdin")
	raw := func(mode, name, id string) string {
		b := make([]byte, 0, 20)
		for i := 0; i < len(id); i += 2 {
			var c byte
			fmt.Sscanf(id[i:i+2], "%02x", &c)
			b = append(b, c)
		}
		return mode + " " + name + "\x00" + string(b)
	}
	tree := func(content string) string {
		return r.Pipe(t, content, "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	}
	e := export(t, open(t, r.Dir))
	hop(t, e, first, true)
	inner := tree(raw("100644", "config", blob))
	for note, id := range map[string]string{
		"dotdot":    tree(raw("40000", "..", inner)),
		"git":       tree(raw("40000", ".GiT", inner)),
		"git file":  tree(raw("100644", ".git", blob)),
		"slash":     tree(raw("100644", "../../escape", blob)),
		"absolute":  tree(raw("100644", "/nonexistent/escape", blob)),
		"dot":       tree(raw("100644", ".", blob)),
		"nested":    tree(raw("40000", "sub", tree(raw("40000", ".git", inner)))),
		"duplicate": tree(raw("120000", "d", blob) + raw("40000", "d", inner)),
	} {
		c := r.CommitTree(t, id, r.Date, first)
		_, err := e.Switch(t.Context(), c, true)
		var u *objects.UnsupportedError
		if !errors.As(err, &u) || u.Commit != c {
			t.Errorf("%s: got %v, want an UnsupportedError", note, err)
		}
	}
	if got := gittest.Listing(t, e.Dir()); len(got) != 1 {
		t.Fatalf("slot holds %v", got)
	}
}

// A few objects that stand for more, longer or deeper files than any disk holds are
// the commit's fault, found before anything is written.
func TestTreeBombsRefused(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "ok", "1")
	first := r.Commit(t, "first")
	blob := r.Git(t, "rev-parse", "HEAD:ok")
	tree := func(entries ...string) string {
		return r.Pipe(t, strings.Join(entries, "\n")+"\n", "mktree", "--missing")
	}
	ten := func(kind, id string) (entries []string) {
		for i := range 10 {
			entries = append(entries, fmt.Sprintf("%s %s\tn%d", kind, id, i))
		}
		return entries
	}
	wide, deep := tree(ten("100644 blob", blob)...), tree("100644 blob "+blob+"\tf")
	attributes := tree(append(ten("100644 blob", blob), "100644 blob "+blob+"\t.gitattributes")...)
	for range 8 {
		wide, attributes = tree(ten("040000 tree", wide)...), tree(ten("040000 tree", attributes)...)
	}
	for range 40 {
		deep = tree("040000 tree " + deep + "\t" + strings.Repeat("d", 200))
	}
	e := export(t, open(t, r.Dir))
	hop(t, e, first, true)
	for note, id := range map[string]string{
		"a thousand million files":       wide,
		"a hundred million attributes":   attributes,
		"a path of 8000 bytes":           deep,
		"a name of 300 bytes":            tree("100644 blob " + blob + "\t" + strings.Repeat("n", 300)),
		"a link to a name of 5000 bytes": tree("120000 blob " + r.Pipe(t, strings.Repeat("n", 5000), "hash-object", "-w", "--stdin") + "\tlink"),
	} {
		c := r.CommitTree(t, id, r.Date, first)
		_, err := e.Switch(t.Context(), c, true)
		if u := (*objects.UnsupportedError)(nil); !errors.As(err, &u) || u.Commit != c {
			t.Errorf("%s: got %v, want an UnsupportedError", note, err)
		}
		if note == "a thousand million files" {
			if _, err := open(t, r.Dir).ChangedFiles(t.Context(), c); err == nil {
				t.Errorf("%s: all were listed", note)
			}
		}
	}
	hop(t, e, first, true)
	if got := gittest.Listing(t, e.Dir()); len(got) != 1 {
		t.Fatalf("slot holds %v", got)
	}
}

func TestSymlinkEscape(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "d/f", "1")
	a := r.Commit(t, "a")
	r.Write(t, "d/f", "2")
	b := r.Commit(t, "b")
	r.Git(t, "rm", "-q", "d/f")
	r.Write(t, "other", "x")
	c := r.Commit(t, "c")
	e := export(t, open(t, r.Dir))
	outside := t.TempDir()
	precious := filepath.Join(outside, "f")
	os.WriteFile(precious, []byte("precious"), 0o666)
	for _, clean := range []bool{false, true} {
		for _, target := range []string{b, c} {
			hop(t, e, a, true)
			os.RemoveAll(filepath.Join(e.Dir(), "d"))
			if err := os.Symlink(outside, filepath.Join(e.Dir(), "d")); err != nil {
				t.Fatal(err)
			}
			hop(t, e, target, clean)
			if got, _ := os.ReadFile(precious); string(got) != "precious" {
				t.Fatalf("clean %v: a file outside the slot is now %q", clean, got)
			}
		}
	}
	// The slot itself replaced by a link.
	hop(t, e, a, true)
	os.RemoveAll(e.Dir())
	if err := os.Symlink(outside, e.Dir()); err != nil {
		t.Fatal(err)
	}
	if stats := hop(t, e, b, true); !stats.Full {
		t.Fatalf("got %+v, want a full write", stats)
	}
	if got, _ := os.ReadFile(precious); string(got) != "precious" {
		t.Fatalf("a file outside the slot is now %q", got)
	}
}

func TestReadOnlyFoldersAndInterruptedHop(t *testing.T) {
	r := gittest.New(t)
	for i := range 20 {
		r.Write(t, fmt.Sprintf("d/f%02d", i), "1")
	}
	a := r.Commit(t, "a")
	r.Git(t, "rm", "-rq", "d")
	r.Write(t, "g", "2")
	b := r.Commit(t, "b")
	e := export(t, open(t, r.Dir))
	hop(t, e, a, true)
	os.MkdirAll(filepath.Join(e.Dir(), "out/deep"), 0o777)
	os.WriteFile(filepath.Join(e.Dir(), "out/deep/o"), nil, 0o444)
	for _, dir := range []string{"out/deep", "out", "d"} {
		os.Chmod(filepath.Join(e.Dir(), dir), 0o111)
	}
	hop(t, e, b, true)
	if got := gittest.Listing(t, e.Dir()); len(got) != 1 {
		t.Fatalf("slot holds %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.dirty = true
	cancel()
	if _, err := e.Switch(ctx, a, true); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if stats := hop(t, e, a, false); !stats.Full || stats.Written != 20 {
		t.Fatalf("after an interrupted hop: %+v", stats)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestExportEndsWithItsContext: an export stops within three objects of the end of its context, which is what a budget or an
// interrupt comes as, and the next one writes all of it.
func TestExportEndsWithItsContext(t *testing.T) {
	const files = 500
	r := gittest.New(t)
	for i := range files {
		r.Write(t, fmt.Sprintf("d%d/f%d", i%20, i), fmt.Sprint(i))
	}
	a := r.Commit(t, "a")
	e := export(t, open(t, r.Dir))
	whole := e.main.Objects
	for _, after := range []int{1, 5, 30, 400} {
		ctx, cancel := context.WithCancel(t.Context())
		cut := &cutOff{Reader: whole, cancel: cancel, after: after}
		e.main.Objects = cut
		if _, err := e.Switch(ctx, a, true); !errors.Is(err, context.Canceled) || cut.opened > after+writers {
			t.Errorf("after %d objects: %v, %d more were opened", after, err, cut.opened-after)
		}
	}
	e.main.Objects = whole
	if stats := hop(t, e, a, false); stats.Written != files {
		t.Errorf("%+v", stats)
	}
}

// cutOff is a back end under which a context ends: with the object opened after so many others.
type cutOff struct {
	objects.Reader
	cancel context.CancelFunc
	after  int

	mu     sync.Mutex
	opened int
}

func (c *cutOff) Open(id string) (string, int64, io.ReadCloser, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened++; c.opened == c.after {
		c.cancel()
	}
	return c.Reader.Open(id)
}

func TestGrain(t *testing.T) {
	set := time.Unix(1700000001, 123456789)
	for _, g := range []time.Duration{1, 100, time.Microsecond, time.Millisecond, 10 * time.Millisecond, time.Second} {
		if got := grainOf(set, set.Truncate(g)); got != g {
			t.Errorf("got %v, want %v", got, g)
		}
	}
	s := &slot{grain: 2 * time.Second}
	last := time.Now().Add(time.Hour).Truncate(2 * time.Second)
	if got := s.nextStamp(last, time.Time{}); !got.After(last) || !got.Truncate(s.grain).Equal(got) {
		t.Errorf("got %v after %v", got, last)
	}
}

func TestWarningsAreCopies(t *testing.T) {
	e := &Export{warnings: []string{"a"}}
	e.Warnings()[0] = "b"
	if !slices.Equal(e.warnings, []string{"a"}) {
		t.Error("the caller can change the warnings")
	}
}

// Snapshots of repositories may lack their largest files. Those that nobody said the build reads are left
// out, whatever was there before.
func TestMissingContent(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "src/f", "1")
	r.Write(t, "data/big", "small yet")
	a := r.Commit(t, "a")
	r.Write(t, "data/big", "large")
	b := r.Commit(t, "b")
	r.Write(t, "src/f", "2")
	c := r.Commit(t, "c")
	id := r.Git(t, "rev-parse", b+":data/big")
	if err := os.Remove(filepath.Join(r.Dir, ".git", "objects", id[:2], id[2:])); err != nil {
		t.Fatal(err)
	}
	repo := open(t, r.Dir)
	for _, paths := range [][]string{nil, {"src"}} {
		e := export(t, repo)
		e.Paths = paths
		for _, commit := range []string{a, b, c, b, a} {
			if _, err := e.Switch(t.Context(), commit, false); err != nil {
				t.Fatal(err)
			}
			_, err := os.Stat(filepath.Join(e.Dir(), "data", "big"))
			if there := err == nil; there != (commit == a) {
				t.Errorf("paths %v, commit %s: data/big there %v", paths, commit, there)
			}
			words, _ := e.Missing()
			left := strings.Join(words, ", ")
			if want := "data/big: object " + id + " is missing; the file is left out"; left != map[bool]string{true: want}[commit != a] {
				t.Errorf("commit %s: left out %q", commit, left)
			}
		}
		if _, err := e.Switch(t.Context(), b, true); err != nil || len(e.Warnings()) != 1 {
			t.Errorf("paths %v: %v, %q", paths, err, e.Warnings())
		}
	}
	e := export(t, repo)
	e.Paths = []string{"data"}
	if _, err := e.Switch(t.Context(), b, true); !objects.IsMissing(err) {
		t.Errorf("of a path that the build reads: %v", err)
	}
}

// Trees that cost more memory than disk, in their names, their rules or the size of one tree, are refused before it is spent.
func TestBombsInMemory(t *testing.T) {
	const repository = "KBISECT_TEST_BOMBS"
	if dir := os.Getenv(repository); dir != "" {
		repo := open(t, dir)
		e := export(t, repo)
		for _, rev := range strings.Fields(os.Getenv(repository + "_COMMITS")) {
			_, err := e.Switch(t.Context(), rev, true)
			if u := (*objects.UnsupportedError)(nil); !errors.As(err, &u) || u.Commit != rev {
				t.Errorf("%s: got %v, want an UnsupportedError", rev, err)
			}
			repo.ChangedFiles(t.Context(), rev)
		}
		var m runtime.MemStats // Sys never falls
		runtime.ReadMemStats(&m)
		t.Logf("%d MiB of memory", m.Sys>>20)
		if m.Sys > 800<<20 {
			t.Error("that is more than 800")
		}
		return
	}
	r := gittest.New(t)
	r.Write(t, "ok", "1")
	first := r.Commit(t, "first")
	blob := r.Git(t, "rev-parse", "HEAD:ok")
	tree := func(entries ...string) string {
		return r.Pipe(t, strings.Join(entries, "\n")+"\n", "mktree", "--missing")
	}
	several := func(n int, kind, id, name string) (entries []string) {
		for i := range n {
			entries = append(entries, fmt.Sprintf("%s %s\t%s%d", kind, id, name, i))
		}
		return entries
	}
	names := tree(several(350, "100644 blob", blob, strings.Repeat("n", 240))...)
	for range 14 {
		names = tree("040000 tree " + names + "\t" + strings.Repeat("d", 240))
	}
	rules := r.Pipe(t, strings.Repeat("*.x text eol=crlf\n", 2_000_000), "hash-object", "-w", "--stdin")
	raw, _ := hex.DecodeString(blob)
	var flat strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&flat, "100644 %07d\x00%s", i, raw)
	}
	var commits []string
	for _, id := range []string{
		tree(several(1000, "040000 tree", names, "t")...), // 350,000 paths of 4,000 bytes
		tree("100644 blob " + rules + "\t.gitattributes"), // two million rules
		r.Pipe(t, flat.String(), "hash-object", "-w", "-t", "tree", "--stdin"),
	} {
		commits = append(commits, r.CommitTree(t, id, r.Date, first))
	}
	// Without the race detector, which makes a walk of 1,350,000 names a dozen times as long and sees one goroutine.
	cmd := exec.Command("go", "test", "-race=false", "-vet=off", "-count=1", "-v", "-run=^TestBombsInMemory$", ".")
	cmd.Env = append(os.Environ(), repository+"="+r.Dir, repository+"_COMMITS="+strings.Join(commits, " "))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	t.Logf("%s", out)
}
