package cache

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An archive with a right digest may still come from another program: what it names outside of the build directory, or
// what no build leaves, makes it a miss, and nothing is written.
func TestForgedBuilds(t *testing.T) {
	type forged struct {
		head
		format string
		items  []tar.Header
		more   string // after the archive
	}
	for name, c := range map[string]struct {
		change func(*forged)
		want   string // a part of the error; "" for none
	}{
		"as it was":                     {func(*forged) {}, ""},
		"of another build":              {func(m *forged) { m.Key = keyOf("other") }, "no kbisect"},
		"of another format":             {func(m *forged) { m.format = "kbisect-build/3" }, "another format"},
		"an output above":               {func(m *forged) { m.Outputs = []string{"../x"} }, `output "../x"`},
		"an output from the root":       {func(m *forged) { m.Outputs = []string{"/etc"} }, `output "/etc"`},
		"a file above":                  {func(m *forged) { m.items[1].Name = "../a" }, "../a: no kbisect"},
		"a file from the root":          {func(m *forged) { m.items[1].Name = "/a" }, "/a: no kbisect"},
		"a file above a folder":         {func(m *forged) { m.items[1].Name = "out/../../a" }, "no kbisect"},
		"a device":                      {func(m *forged) { m.items[1].Typeflag, m.items[1].Size = tar.TypeChar, 0 }, "out/a: no kbisect"},
		"a hard link":                   {func(m *forged) { m.items[2].Typeflag = tar.TypeLink }, "out/link: no kbisect"},
		"a file that runs as its owner": {func(m *forged) { m.items[1].Mode = 0o4755 }, "out/a: no kbisect"},
		"a folder that keeps its group": {func(m *forged) { m.items[0].Mode = 0o2755 }, "out: no kbisect"},
		"a link to nothing":             {func(m *forged) { m.items[2].Linkname = "" }, "out/link: no kbisect"},
		"a link from the root":          {func(m *forged) { m.items[2].Linkname = "/etc/passwd" }, "out/link: no kbisect"},
		"a link above":                  {func(m *forged) { m.items[2].Linkname = "../../x" }, "out/link: no kbisect"},
		"a link beside its folder":      {func(m *forged) { m.items[2].Linkname = "../beside" }, ""},
		"a link up again after a name":  {func(m *forged) { m.items[2].Linkname = "a/../b" }, "out/link: no kbisect"},
		"no archive":                    {func(m *forged) { m.format = "" }, "EOF"},
		"another digest":                {func(m *forged) { m.more = "x" }, "its digest"},
	} {
		c0 := open(t, t.TempDir())
		m := &forged{head{Key: keyOf("k"), Outputs: []string{"out"}}, headName, []tar.Header{
			{Typeflag: tar.TypeDir, Name: "out", Mode: 0o755}, {Typeflag: tar.TypeReg, Name: "out/a", Mode: 0o644, Size: 7}, {Typeflag: tar.TypeSymlink, Name: "out/link", Linkname: "a"}}, ""}
		c.change(m)
		path := c0.path(keyOf("k"))
		must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		must(t, os.WriteFile(path, forge(t, m.format, m.head, m.items, m.more), 0o644))
		b, err := openBuild(path, keyOf("k"))
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, errDamaged) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil {
			must(t, b.file.Close())
		}
		into := tree(t, map[string]string{"out/old": "1", "beside": "2"})
		before := list(t, into)
		_, hit, err := c0.Get(t.Context(), keyOf("k"), into)
		if err != nil || hit != (c.want == "") {
			t.Errorf("%s: hit %v, %v", name, hit, err)
		}
		if after := list(t, into); (after == before) == hit {
			t.Errorf("%s: hit %v, and the folder holds\n%s", name, hit, after)
		}
		if _, err := os.Stat(path); (err == nil) != hit {
			t.Errorf("%s: hit %v, and the build is there: %v", name, hit, err == nil)
		}
	}
}

// forge returns an archive with its digest, whatever is in it.
func forge(t *testing.T, format string, h head, items []tar.Header, more string) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if format != "" {
		data, err := json.Marshal(h)
		must(t, err)
		must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: format, Size: int64(len(data))}))
		_, err = w.Write(data)
		must(t, err)
		for _, it := range items {
			must(t, w.WriteHeader(&it))
			_, err = w.Write([]byte("content")[:it.Size])
			must(t, err)
		}
		must(t, w.Close())
	}
	sum := sha256.Sum256(archive.Bytes())
	return append(append(archive.Bytes(), more...), sum[:]...)
}

// Keys name files: what is no digest is refused before any of them is touched.
func TestKeys(t *testing.T) {
	c := open(t, t.TempDir())
	for _, key := range []string{"", "abc", strings.Repeat("a", 129), strings.Repeat("A", 64), "../" + keyOf("k"), keyOf("k") + "/x", strings.Repeat("g", 64)} {
		if err := c.Put(key, t.TempDir(), []string{"a"}, nil); err == nil || !strings.Contains(err.Error(), "build cache: invalid key") {
			t.Errorf("put %q: %v", key, err)
		}
		if _, hit, err := c.Get(t.Context(), key, t.TempDir()); err == nil || hit {
			t.Errorf("get %q: %v %v", key, hit, err)
		}
	}
	if err := c.Put(keyOf("k"), filepath.Join(t.TempDir(), "nowhere"), []string{"a"}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("from a folder that is not there: %v", err)
	}
}

// Restoring replaces whatever is in the way: files by folders, folders by files and links, and what forbids writing.
func TestGetReplacesOtherKinds(t *testing.T) {
	c := open(t, t.TempDir())
	built := tree(t, map[string]string{"d/f": "1", "d/sub/g": "2", "d/link": "->f", "top": "!3"})
	must(t, os.Chmod(built+"/d/sub", 0o555))
	err := c.Put(keyOf("k"), built, []string{"d", "top"}, nil)
	must(t, err)
	want := list(t, built)
	for name, files := range map[string]map[string]string{
		"nothing":                {},
		"a file for a folder":    {"d": "x"},
		"a link for a folder":    {"d": "->elsewhere", "elsewhere/f": "keep"},
		"a folder for a file":    {"d/f/deep/x": "1", "top/x": ""},
		"a folder for a link":    {"d/link/x": "1"},
		"a file for a subfolder": {"d/sub": "1"},
		"a link that leads out":  {"d": "->/nowhere", "top": "->/etc/passwd"},
		"more than there was":    {"d/sub/more/x": "1", "d/zz": "2"},
	} {
		into := tree(t, files)
		if err := os.Chmod(filepath.Join(into, "d"), 0o500); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if _, hit, err := c.Get(t.Context(), keyOf("k"), into); err != nil || !hit {
			t.Errorf("%s: %v %v", name, hit, err)
		}
		if kept, err := os.ReadFile(into + "/elsewhere/f"); files["elsewhere/f"] != "" && (err != nil || string(kept) != "keep") {
			t.Errorf("%s: what the link led to: %q %v", name, kept, err)
		}
		os.RemoveAll(into + "/elsewhere")
		if got := list(t, into); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// What is advised about the disk.
func TestCacheHints(t *testing.T) {
	for err, want := range map[error]string{syscall.ENOSPC: "kbisect cache trim", syscall.EDQUOT: "free some disk space", syscall.EROFS: "a directory that you can write to", os.ErrPermission: "set XDG_CACHE_HOME", syscall.EIO: ""} {
		if got := hintFor(&os.PathError{Op: "open", Path: "x", Err: err}); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q", err, got)
		}
	}
}
