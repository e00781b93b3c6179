package folder

import (
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// model is what a folder should hold: a path to the content of a file, ">target" of a link, or "/" for a folder.
type model map[string]string

// clear removes a path with all below it.
func (m model) clear(full string) {
	maps.DeleteFunc(m, func(p, _ string) bool { return p == full || strings.HasPrefix(p, full+"/") })
}

// reaches reports whether a path lies in folders that all exist.
func (m model) reaches(full string) bool {
	dir := path.Dir(full)
	return dir == "." || m[dir] == "/"
}

// make makes the folders above a path, in place of whatever is there.
func (m model) make(full string) {
	for i, c := range full {
		if dir := full[:i]; c == '/' && m[dir] != "/" {
			m.clear(dir)
			m[dir] = "/"
		}
	}
}

// put puts a file or a link in place of whatever is there.
func (m model) put(full, what string) {
	m.make(full)
	m.clear(full)
	m[full] = what
}

// seen is what the file system holds.
func seen(t *rapid.T, dir string) model {
	m := model{}
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		what := "/"
		switch d.Type() {
		case os.ModeSymlink:
			target, linkErr := os.Readlink(file)
			what, err = ">"+target, linkErr
		case 0:
			data, readErr := os.ReadFile(file)
			what, err = string(data), readErr
		}
		m[strings.TrimPrefix(file, dir+"/")] = what
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Any sequence of changes leaves what a model of the folder says, links that lead out of it among them, and nothing
// that lies outside is touched. What is locked by its permissions is changed all the same.
func TestFolderAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		home, err := os.MkdirTemp("", "folder")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(home)
		top, outside := home+"/top", home+"/outside"
		if err := errors.Join(os.Mkdir(top, 0o777), os.MkdirAll(outside+"/a/b", 0o777), os.WriteFile(outside+"/a/c", []byte("mine"), 0o666)); err != nil {
			t.Fatal(err)
		}
		before := seen(t, outside)
		f, err := Open(top)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, ctx := model{}, t.Context()
		name := rapid.Custom(func(t *rapid.T) string {
			return path.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3).Draw(t, "names")...)
		})
		check := func(what string, err error, want bool) {
			if (err == nil) != want {
				t.Fatalf("%s: %v, expected success: %v", what, err, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				full, text := name.Draw(t, "path"), rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "text")
				st, err := f.Write(ctx, full, File{Perm: 0o666, Time: time.Unix(2, 3), Content: strings.NewReader(text)})
				check("write", err, true)
				if st.Size != int64(len(text)) || time.Unix(st.Mtim.Unix()) != time.Unix(2, 3) {
					t.Fatalf("%s: %+v", full, st)
				}
				m.put(full, text)
			},
			"rewrite": func(t *rapid.T) { // one that is there is written into
				full, text := name.Draw(t, "path"), rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "text")
				before, err := f.Stat(full)
				own := err == nil && before.Mode&unix.S_IFMT == unix.S_IFREG
				st, err := f.Write(ctx, full, File{Perm: 0o666, Time: time.Unix(4, 5), Content: strings.NewReader(text), Own: own, Size: before.Size})
				check("rewrite", err, true)
				if own && st.Ino != before.Ino || st.Size != int64(len(text)) || time.Unix(st.Mtim.Unix()) != time.Unix(4, 5) {
					t.Fatalf("%s: %+v", full, st)
				}
				m.put(full, text)
			},
			"symlink": func(t *rapid.T) {
				full, target := name.Draw(t, "path"), rapid.SampledFrom([]string{outside, outside + "/a", "a", "../c", ".", "nowhere"}).Draw(t, "target")
				check("symlink", f.Symlink(ctx, target, full), true)
				m.put(full, ">"+target)
			},
			"mkdir": func(t *rapid.T) {
				full := name.Draw(t, "path")
				check("mkdir", f.Mkdir(full), true)
				m.make(full + "/x")
			},
			"remove": func(t *rapid.T) {
				full := name.Draw(t, "path")
				check("remove", f.Remove(full), true)
				if m.reaches(full) && m[full] != "/" {
					delete(m, full)
				}
			},
			"remove empty": func(t *rapid.T) {
				full := name.Draw(t, "path")
				check("remove empty", f.RemoveEmpty(full), true)
				inside := false
				for p := range m {
					inside = inside || path.Dir(p) == full
				}
				if m.reaches(full) && m[full] == "/" && !inside {
					delete(m, full)
				}
			},
			"remove all": func(t *rapid.T) {
				full := name.Draw(t, "path")
				check("remove all", f.RemoveAll(ctx, full), true)
				if m.reaches(full) {
					m.clear(full)
				}
			},
			"look": func(t *rapid.T) {
				full := name.Draw(t, "path")
				what, there := m[full]
				isDir, isLink := what == "/", strings.HasPrefix(what, ">")
				st, err := f.Stat(full)
				check("stat", err, there)
				if there && (IsDir(&st) != isDir || (st.Mode&unix.S_IFMT == unix.S_IFLNK) != isLink) {
					t.Fatalf("%s has mode %o and is %q", full, st.Mode, what)
				}
				target, err := f.Readlink(full)
				check("readlink", err, isLink)
				if isLink && ">"+target != what {
					t.Fatalf("link %s to %s, want %s", full, target, what)
				}
				check("set time", f.SetTime(full, time.Unix(1, 0)), there)
				if there && !isDir {
					file, err := f.Read(full)
					check("read", err, !isLink)
					if err == nil {
						data, err := io.ReadAll(file)
						check("read", errors.Join(err, file.Close()), true)
						if string(data) != what {
							t.Fatalf("%s holds %q, want %q", full, data, what)
						}
					}
				}
			},
			"list": func(t *rapid.T) {
				full := name.Draw(t, "path")
				got, want := map[string]bool{}, map[string]bool{}
				err := f.List(ctx, full, func(name string, st *unix.Stat_t) error { got[name] = IsDir(st); return nil })
				check("list", err, m[full] == "/")
				for p, what := range m {
					if path.Dir(p) == full {
						want[path.Base(p)] = what == "/"
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatal(d)
				}
			},
			"another program ran": func(*rapid.T) { f.Rewind() },
			"": func(t *rapid.T) {
				if d := cmp.Diff(m, seen(t, top)); d != "" {
					t.Fatal(d)
				}
				if d := cmp.Diff(before, seen(t, outside)); d != "" {
					t.Fatalf("outside: %s", d)
				}
			},
		})
		if !f.Intact() {
			t.Fatal("the folder is not what its name leads to")
		}
	})
}

// A folder that was moved away or replaced is not the one that its name leads to.
func TestIntact(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	if _, err := Open(top); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	if err := os.Mkdir(top, 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.Intact() {
		t.Error("an untouched folder")
	}
	if err := os.Rename(top, top+".old"); err != nil {
		t.Fatal(err)
	}
	if f.Intact() {
		t.Error("a folder that was moved away")
	}
	if err := os.Mkdir(top, 0o777); err != nil {
		t.Fatal(err)
	}
	if f.Intact() {
		t.Error("another folder of the name")
	}
	if err := errors.Join(os.Remove(top), os.Symlink(top+".old", top)); err != nil {
		t.Fatal(err)
	}
	if link, err := Open(top); err == nil {
		link.Close()
		t.Error("a link was opened as a folder")
	}
}

// Folders that a candidate has locked, or turned into files and links, are written in all the same.
func TestLockedFolders(t *testing.T) {
	top := t.TempDir()
	f, err := Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(os.MkdirAll(top+"/a/b", 0o777), os.WriteFile(top+"/a/b/f", []byte("old"), 0), os.WriteFile(top+"/file", nil, 0o444), os.Chmod(top+"/a/b", 0), os.Chmod(top+"/a", 0)); err != nil {
		t.Fatal(err)
	}
	for _, full := range []string{"a/b/f", "a/new/f", "file/below"} {
		if _, err := f.Write(t.Context(), full, File{Perm: 0o600, Time: time.Now(), Content: strings.NewReader("new")}); err != nil {
			t.Errorf("%s: %v", full, err)
		}
	}
	names := 0
	if err := f.List(t.Context(), "a", func(string, *unix.Stat_t) error { names++; return nil }); err != nil || names != 2 {
		t.Errorf("%d names, %v", names, err)
	}
	stop := errors.New("enough")
	if err := f.List(t.Context(), "", func(string, *unix.Stat_t) error { return stop }); err != stop {
		t.Errorf("an error of the visitor became %v", err)
	}
	if _, err := f.Newest(t.Context(), "nowhere/x", time.Time{}); err != unix.ENOENT {
		t.Errorf("the newest file of a folder that is not there: %v", err)
	}
}

// The newest time is that of anything below, folders and links too, and never earlier than the one given.
func TestNewest(t *testing.T) {
	top := t.TempDir()
	f, err := Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(os.MkdirAll(top+"/d/sub/deep", 0o777), os.WriteFile(top+"/d/sub/f", nil, 0o666), os.Symlink("nowhere", top+"/d/link")); err != nil {
		t.Fatal(err)
	}
	for _, full := range []string{"d/link", "d/sub/f", "d/sub/deep", "d/sub", "d"} {
		if err := f.SetTime(full, time.Unix(1000, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for i, full := range []string{"d/link", "d/sub/f", "d/sub/deep", "d"} {
		at := time.Unix(int64(2000+i), 0)
		if err := f.SetTime(full, at); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Newest(t.Context(), "d", time.Unix(1, 0)); err != nil || !got.Equal(at) {
			t.Errorf("%s was changed at %v: got %v, %v", full, at, got, err)
		}
	}
	if got, err := f.Newest(t.Context(), "d", time.Unix(9000, 0)); err != nil || !got.Equal(time.Unix(9000, 0)) {
		t.Errorf("nothing is later: %v, %v", got, err)
	}
}
