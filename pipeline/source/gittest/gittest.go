// Package gittest drives real repositories with the git program, for tests
// that compare what package source does with what git does.
package gittest

import (
	"bytes"
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

// Failer is what testing.T and rapid.T share.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Repo is a repository driven by the real git program. The user's and the system's configuration do not count, and
// authors and dates are fixed, so that ids are the same on every machine.
type Repo struct {
	Dir  string
	Date int64 // of the last commit, seconds since 1970
}

// New makes an empty repository with a branch main in a temporary folder of the test. initArgs are more options of
// git init, such as --object-format=sha256.
func New(t testing.TB, initArgs ...string) *Repo {
	t.Helper()
	r := &Repo{Dir: filepath.Join(t.TempDir(), "repo"), Date: 1700000000}
	if err := os.Mkdir(r.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r.Git(t, append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	return r
}

// env fixes what git takes from its surroundings.
func (r *Repo) env() []string {
	stamp := fmt.Sprintf("%d +0100", r.Date)
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A U Thor", "GIT_AUTHOR_EMAIL=author@example.com", "GIT_AUTHOR_DATE="+stamp,
		"GIT_COMMITTER_NAME=C O Mitter", "GIT_COMMITTER_EMAIL=committer@example.com", "GIT_COMMITTER_DATE="+stamp)
}

// Try runs git and returns its output without the last line feed.
func (r *Repo) Try(stdin string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "gc.auto=0"}, args...)...)
	cmd.Dir, cmd.Env = r.Dir, r.env()
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %v: %w: %s", args, err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// Git is Try for a command that must succeed.
func (r *Repo) Git(t Failer, args ...string) string {
	t.Helper()
	out, err := r.Try("", args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// Pipe is Git with a standard input, such as the stream of a fast-import or the list of a cat-file.
// An empty one is at its end at once.
func (r *Repo) Pipe(t Failer, stdin string, args ...string) string {
	t.Helper()
	out, err := r.Try(stdin, args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// Write puts a file into the work tree.
func (r *Repo) Write(t Failer, name, content string) {
	t.Helper()
	WriteFiles(t, r.Dir, map[string]string{name: content}, 0o666)
}

// WriteFiles puts files with these permissions below a folder.
func WriteFiles(t Failer, dir string, files map[string]string, perm fs.FileMode) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatalf("%v", err)
		}
		if err := os.WriteFile(file, []byte(text), perm); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// Commit records the work tree as it is, a minute after the last commit, and returns the commit's id.
func (r *Repo) Commit(t Failer, subject string) string {
	t.Helper()
	r.Date += 60 // ids differ for equal trees, and the order by date is that of the calls
	r.Git(t, "add", "-A")
	r.Git(t, "commit", "-q", "--allow-empty", "-m", subject)
	return r.Git(t, "rev-parse", "HEAD")
}

// CommitTree makes a commit of a tree, with a date in seconds since 1970, without touching the work tree or a
// branch.
func (r *Repo) CommitTree(t Failer, tree string, date int64, parents ...string) string {
	t.Helper()
	args := []string{"commit-tree", tree, "-m", fmt.Sprintf("at %d", date)}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	old := r.Date
	r.Date = date
	defer func() { r.Date = old }()
	return r.Git(t, args...)
}

// ABC makes three commits and tags them a, b and c. Each adds a file of its own and changes dir/file, so that a switch
// between any two has something to write, to remove and to change.
func (r *Repo) ABC(t Failer) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		r.Write(t, "dir/file", name)
		r.Write(t, name, name)
		r.Commit(t, "commit "+name)
		r.Git(t, "tag", name)
	}
}

// LongHistory makes n commits, every fifth a merge, over 200 files in folders,
// and packs them as a clone has them. Each commit changes one file; a tenth of
// them that below k.
func LongHistory(b testing.TB, n int) *Repo {
	b.Helper()
	r := New(b)
	var s strings.Builder
	data := func(text string) { fmt.Fprintf(&s, "data %d\n%s\n", len(text), text) }
	for i := range n {
		fmt.Fprintf(&s, "commit refs/heads/main\nmark :%d\ncommitter C <c@example.com> %d +0000\n", i+1, 1600000000+i)
		data(fmt.Sprint("commit ", i))
		if i > 0 {
			fmt.Fprintf(&s, "from :%d\n", i)
		}
		if i%5 == 4 { // the second parent is an ancestor of the first
			fmt.Fprintf(&s, "merge :%d\n", i-2)
		}
		if i == 0 {
			for f := range 200 {
				fmt.Fprintf(&s, "M 100644 inline d%d/sub/f%d\n", f%10, f)
				data(strings.Repeat(fmt.Sprintf("line of %d\n", f), 50))
			}
		}
		name := fmt.Sprintf("d%d/sub/f%d", i%10, i%200)
		if i%10 == 0 {
			name = "k/kern.cu"
		}
		fmt.Fprintf(&s, "M 100644 inline %s\n", name)
		data(fmt.Sprintf("version %d\n%s", i, strings.Repeat("more\n", 50)))
	}
	r.Pipe(b, s.String(), "fast-import", "--quiet")
	r.Git(b, "reset", "-q", "--hard", "main")
	return r
}

// Listing describes everything below a folder byte for byte, by relative path. Times and the folder .git are left
// out. A file counts with its permissions, a link with its target, which is not followed.
func Listing(t Failer, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, file)
		if d.Name() == ".git" {
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

// SameListing fails unless two listings are equal.
func SameListing(t Failer, got, want map[string]string, note string) {
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

// Checkout lays a commit out as git does, in a folder of its own, and returns its Listing. It moves the HEAD of r.
func (r *Repo) Checkout(t Failer, dir, commit string) map[string]string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatalf("%v", err)
	}
	r.Git(t, "--work-tree="+dir, "-c", "core.autocrlf=false", "checkout", "-q", "-f", "--detach", commit)
	// A folder that was checked out before may hold what the commit lacks, ignored files included.
	r.Git(t, "--work-tree="+dir, "clean", "-fdxq")
	return Listing(t, dir)
}

// OpenRoot opens a folder so that no link can lead out of it.
func OpenRoot(t Failer, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return root
}

// Snapshot lists the files of a folder with their modes, sizes and times, by which a test sees whether they were
// touched. What cannot be read is left out, as a file may vanish meanwhile.
func Snapshot(dir string) map[string]string {
	out := map[string]string{}
	filepath.Walk(dir, func(file string, fi os.FileInfo, err error) error {
		if err == nil {
			out[file] = fmt.Sprint(fi.Mode(), fi.Size(), fi.ModTime())
		}
		return nil
	})
	return out
}
