package fileaccess

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// opens runs a script below a watched folder and returns what the watch has seen.
func opens(t *testing.T, quiet bool, script string) (opened []string, ok bool) {
	t.Helper()
	dir := t.TempDir()
	gittest.WriteFiles(t, dir, map[string]string{"a/f": "x", "a/g": "x", "a/b/h": "x", "c/i": "x", "c/.git/HEAD": "x", "tool": "#!/bin/sh\ncat a/f\n"}, 0o777)
	if err := os.Symlink("../a/g", filepath.Join(dir, "c", "link")); err != nil {
		t.Fatal(err)
	}
	w := Start(dir, quiet, nil)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return w.Stop()
}

func TestWatchSeesWhatIsOpened(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		script, want string
	}{
		{"true", ""},
		{"stat a/f; test -e a/none || true", ""},
		{"cat a/f", "a/f"},
		{"./tool", "a/f tool"}, // a program is opened to be run
		{"cat c/link", "a/g"},
		{"cd a/b && cat ../f h", "a/b/h a/f"},
		{"ls a", "a"},
		{"ls", "."},
		{"find . -name none", ". a a/b c"}, // the names that git keeps tell nothing of a commit
		{"for f in a/*; do :; done", "a"},
		{"(sleep 0.1; cat a/f) & wait", "a/f"},
		{"mkdir new && echo x > new/f && cat new/f a/g > out", "a/g out"}, // what lies in new folders is the process's own
	} {
		for _, quiet := range []bool{false, true} {
			if got, ok := opens(t, quiet, x.script); !ok || strings.Join(got, " ") != x.want {
				t.Errorf("%s, quiet %v: %q, %v, want %s", x.script, quiet, got, ok, x.want)
			}
		}
	}
}

// A recorder reports what was opened while the process runs, once it opens nothing new. The callback may take long: Stop waits
// for it.
func TestWatchTellsWhatIsOpenedSoFar(t *testing.T) {
	t.Parallel()
	dir, heard := t.TempDir(), t.TempDir()
	gittest.WriteFiles(t, dir, map[string]string{"f": "x", "g": "x"}, 0o666)
	var told []string
	w := Start(dir, false, func(opened []string) {
		gittest.WriteFiles(t, heard, map[string]string{strings.Join(opened, ""): ""}, 0o666)
		for len(opened) == 1 { // until it has opened the next one
			if _, err := os.Stat(filepath.Join(heard, "next")); err == nil {
				break
			}
			runtime.Gosched()
		}
		told = append(told, strings.Join(opened, " "))
	})
	cmd := exec.Command("sh", "-c", "await() { while [ ! -e $1 ]; do sleep 0.01; cat f; done; }; cat f; await $0/f; cat g; touch $0/next; await $0/fg", heard)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, ok := w.Stop(); !ok || !slices.Equal(got, []string{"f", "g"}) {
		t.Errorf("%q %v", got, ok)
	}
	if want := []string{"f", "f g"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A watch that may have missed something learns nothing, nor does one of a process that asks git.
func TestWatchThatLearnsNothing(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"cat c/.git/HEAD", "grep -r none . || true"} {
		if got, ok := opens(t, false, script); ok {
			t.Errorf("%s: %q", script, got)
		}
	}
	dir := t.TempDir()
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("%d/f", i)] = "x"
	}
	gittest.WriteFiles(t, dir, files, 0o666)
	w := Start(dir, true, nil)
	for range 60 { // events of one file are joined only if they follow one another
		for name := range files {
			if _, err := os.ReadFile(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, ok := w.Stop(); ok {
		t.Errorf("with more events than the queue holds it has seen %d files", len(got))
	}
	if got, ok := Start(filepath.Join(dir, "missing"), false, nil).Stop(); ok {
		t.Errorf("of a folder that is not there: %q", got)
	}
}

// More than the queue holds may be opened as long as the reader keeps up.
func TestWatchReadsAlong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gittest.WriteFiles(t, dir, map[string]string{"f": "x", "g": "x"}, 0o666)
	w := Start(dir, false, nil)
	for range 5 {
		for i := range 5000 {
			f, err := os.Open(filepath.Join(dir, []string{"f", "g"}[i%2]))
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		for {
			n, err := unix.IoctlGetInt(w.fd, unix.TIOCINQ)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			runtime.Gosched()
		}
	}
	if got, ok := w.Stop(); !ok || !slices.Equal(got, []string{"f", "g"}) {
		t.Errorf("%q %v", got, ok)
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	file := func(mode uint32) *source.Entry { return &source.Entry{Mode: mode, ID: "x"} }
	set := NewOpened([]string{"src/main.c", "inc/deep/a.h", "data"})
	for _, x := range []struct {
		path, folder string
		old, new     *source.Entry
		want         bisect.Difference
	}{
		{"src/main.c", "", file(source.ModeFile), file(source.ModeFile), bisect.Different},
		{"src/other.c", "", file(source.ModeFile), file(source.ModeFile), bisect.Same},
		{"other", "", file(source.ModeFile), file(source.ModeExec), bisect.Different},
		{"other", "", file(source.ModeLink), file(source.ModeLink), bisect.Different},
		{"other", "", file(source.ModeFile), file(source.ModeLink), bisect.Different},
		{"sub", "", file(source.ModeGitlink), file(source.ModeGitlink), bisect.Different},
		{"docs/.gitattributes", "", file(source.ModeFile), file(source.ModeFile), bisect.Different},
		{"docs/new", "docs", nil, file(source.ModeFile), bisect.Same},
		{"docs/a/b/new", "docs", nil, file(source.ModeFile), bisect.Same},
		{"docs/a/new", ".", nil, file(source.ModeFile), bisect.Nearby}, // the root has a new folder
		{"new", ".", nil, file(source.ModeFile), bisect.Nearby},
		{"src/new", "src", nil, file(source.ModeFile), bisect.Nearby},
		{"inc/new", "inc", nil, file(source.ModeFile), bisect.Nearby}, // something was opened below
		{"inc/deep/more/new", "inc/deep", nil, file(source.ModeFile), bisect.Nearby},
		{"docs/a.h", "docs", nil, file(source.ModeFile), bisect.Different}, // it may shadow inc/deep/a.h
		{"docs/old", "docs", file(source.ModeFile), nil, bisect.Same},
		{"data/old", "data", file(source.ModeFile), nil, bisect.Nearby}, // data was listed
	} {
		c := source.TreeChange{Path: x.path, Folder: x.folder, Old: x.old, New: x.new}
		if got := set.Difference(c); got != x.want {
			t.Errorf("%s: %d, want %d", x.path, got, x.want)
		}
	}
}
