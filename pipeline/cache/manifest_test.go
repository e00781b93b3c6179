package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A manifest with a right digest may still come from another program: what it names outside of the build directory, or
// what no build leaves, makes it a miss, and nothing is written.
func TestForgedManifests(t *testing.T) {
	sum := keyOf("content")
	good := func() *manifest {
		return &manifest{Key: keyOf("k"), Outputs: []string{"out"}, Items: []item{{Path: "out", Type: typeDir, Mode: 0o755}, {Path: "out/a", Type: typeFile, Mode: 0o644, Size: 7, SHA256: sum}, {Path: "out/link", Type: typeLink, Target: "a"}}}
	}
	for name, c := range map[string]struct {
		change func(*manifest)
		want   string // a part of the error; "" for none
	}{
		"as it was":                       {func(*manifest) {}, ""},
		"of another build":                {func(m *manifest) { m.Key = keyOf("other") }, "it is for"},
		"an output above":                 {func(m *manifest) { m.Outputs = []string{"../x"} }, `output "../x"`},
		"an output from the root":         {func(m *manifest) { m.Outputs = []string{"/etc"} }, `output "/etc"`},
		"a file above":                    {func(m *manifest) { m.Items[1].Path = "../a" }, `item "../a"`},
		"a file from the root":            {func(m *manifest) { m.Items[1].Path = "/a" }, `item "/a"`},
		"a file above a folder":           {func(m *manifest) { m.Items[1].Path = "out/../../a" }, "item"},
		"an unknown type":                 {func(m *manifest) { m.Items[1].Type = "device" }, `item "out/a"`},
		"a file that runs as its owner":   {func(m *manifest) { m.Items[1].Mode = 0o755 | fs.ModeSetuid }, `item "out/a"`},
		"a folder that keeps its group":   {func(m *manifest) { m.Items[0].Mode = 0o755 | fs.ModeSetgid }, `item "out"`},
		"no digest":                       {func(m *manifest) { m.Items[1].SHA256 = "" }, `item "out/a"`},
		"a digest that leads elsewhere":   {func(m *manifest) { m.Items[1].SHA256 = strings.Repeat("../", 21) + "a" }, `item "out/a"`},
		"a size below 0":                  {func(m *manifest) { m.Items[1].Size = -1 }, `item "out/a"`},
		"a link to nothing":               {func(m *manifest) { m.Items[2].Target = "" }, `item "out/link"`},
		"a link from the root":            {func(m *manifest) { m.Items[2].Target = "/etc/passwd" }, `item "out/link"`},
		"a link above":                    {func(m *manifest) { m.Items[2].Target = "../../x" }, `item "out/link"`},
		"a link beside its folder":        {func(m *manifest) { m.Items[2].Target = "../beside" }, ""},
		"a link up again after a name":    {func(m *manifest) { m.Items[2].Target = "a/../b" }, `item "out/link"`},
		"a link in place of its own file": {func(m *manifest) { m.Items[1].Size = 8 }, "another size"},
	} {
		c0 := open(t, t.TempDir())
		m := good()
		c.change(m)
		data, err := m.encode()
		must(t, err)
		if _, err := decode(data, keyOf("k")); c.want != "another size" && ((err == nil) != (c.want == "") || err != nil && (!errors.Is(err, errManifest) || !strings.Contains(err.Error(), c.want))) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		for file, content := range map[string]string{c0.entryPath(keyOf("k")): string(data), c0.objectPath(sum): "content"} {
			must(t, os.MkdirAll(filepath.Dir(file), 0o777))
			must(t, os.WriteFile(file, []byte(content), 0o644))
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
		if _, err := os.Stat(c0.entryPath(keyOf("k"))); (err == nil) != hit {
			t.Errorf("%s: hit %v, and the entry is there: %v", name, hit, err == nil)
		}
	}
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
