package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("KBISECT_TEST_PUT"); dir != "" {
		putForever(dir, os.Getenv("KBISECT_TEST_FROM"))
	}
	os.Exit(m.Run())
}

func keyOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func open(t testing.TB, dir string) *Cache {
	t.Helper()
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tree makes files below a new directory. A name ending in / is a directory, a
// content beginning with -> a link, one beginning with ! an executable.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(path, 0o755))
		case strings.HasPrefix(content, "->"):
			must(t, os.Symlink(content[2:], path))
		case strings.HasPrefix(content, "!"):
			must(t, os.WriteFile(path, []byte(content), 0o755))
		default:
			must(t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// list returns everything below dir in one text: path, mode, content or target.
func list(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		fi, err := d.Info()
		if err != nil {
			return err
		}
		var body string
		switch {
		case d.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(path)
			fmt.Fprintf(&b, "%s -> %s\n", rel, target)
			return nil
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			body = string(data)
		}
		fmt.Fprintf(&b, "%s %v %q\n", rel, fi.Mode(), body)
		return nil
	}))
	return b.String()
}

func mustGet(t testing.TB, c *Cache, key, into string) map[string]string {
	t.Helper()
	e, ok, err := c.Get(t.Context(), key, into)
	if err != nil || !ok {
		t.Fatalf("Get = %v, %v, want a hit", ok, err)
	}
	return e
}

func mustMiss(t testing.TB, c *Cache, key, into string) {
	t.Helper()
	if _, ok, err := c.Get(t.Context(), key, into); err != nil || ok {
		t.Fatalf("Get = %v, %v, want a miss", ok, err)
	}
}

func TestRoundTrip(t *testing.T) {
	c := open(t, t.TempDir())
	from := tree(t, map[string]string{
		"bench": "!elf", "src/a.c": "source", "build/lib/a.so": "!so", "build/lib/b.so": "!so", "build/empty/": "",
		"build/latest": "->lib/a.so", "build/dangling": "->nothing", "x1.cubin": "one", "x2.cubin": "two", "run": "->tools/run", "tools/run": "!script",
		"a[1]": "literal",
	})
	key := keyOf("k")
	mustMiss(t, c, key, t.TempDir())
	err := c.Put(key, from, []string{"bench", "build", "*.cubin", "run", "a[1]"}, map[string]string{"seconds": "3.5"})
	must(t, err)
	into := t.TempDir()
	got := mustGet(t, c, key, into)
	if got["seconds"] != "3.5" {
		t.Errorf("got %+v", got)
	}
	must(t, os.RemoveAll(filepath.Join(from, "src")))
	if a, b := list(t, from), list(t, into); a != b {
		t.Errorf("restored\n%s\nwant\n%s", b, a)
	}
	if st, err := c.Stats(); err != nil || st.Entries != 1 || st.Bytes != int64(len("!elf!soonetwo!scriptliteral")) {
		t.Errorf("Stats = %+v, %v", st, err) // both libraries share one object
	}
}

func TestGetReplacesStaleOutputs(t *testing.T) {
	c := open(t, t.TempDir())
	from := tree(t, map[string]string{"build/a": "new", "bench": "new", "x.so": "new"})
	must(t, c.Put(keyOf("k"), from, []string{"build", "bench", "*.so"}, nil))
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, []byte("mine"), 0o644))
	into := tree(t, map[string]string{"build/stale/deep": "old", "bench/": "", "old.so": "old", "keep.c": "source"})
	must(t, os.Symlink(victim, filepath.Join(into, "build/a")))
	must(t, os.Link(victim, filepath.Join(into, "x.so")))
	must(t, os.Chmod(filepath.Join(into, "build/stale"), 0o555))
	mustGet(t, c, keyOf("k"), into)
	want := "bench -rw-r--r-- \"new\"\nbuild drwxr-xr-x \"\"\nbuild/a -rw-r--r-- \"new\"\nkeep.c -rw-r--r-- \"source\"\nx.so -rw-r--r-- \"new\"\n"
	if got := list(t, into); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if data, _ := os.ReadFile(victim); string(data) != "mine" {
		t.Errorf("the restore wrote through a link: %q", data)
	}
}

func TestGetThroughLinkedParent(t *testing.T) {
	c := open(t, t.TempDir())
	err := c.Put(keyOf("k"), tree(t, map[string]string{"build/a": "new"}), []string{"build/a"}, nil)
	must(t, err)
	outside := tree(t, map[string]string{"a": "mine"})
	for _, target := range []string{outside, "src"} {
		into := tree(t, map[string]string{"src/a": "source", "build": "->" + target})
		mustGet(t, c, keyOf("k"), into)
		if got := list(t, outside) + list(t, filepath.Join(into, "src")); got != "a -rw-r--r-- \"mine\"\na -rw-r--r-- \"source\"\n" {
			t.Errorf("build -> %s: written through the link:\n%s", target, got)
		}
		if data, _ := os.ReadFile(filepath.Join(into, "build/a")); string(data) != "new" {
			t.Errorf("build -> %s: build/a = %q", target, data)
		}
	}
}

func TestFreshStamps(t *testing.T) {
	c := open(t, t.TempDir())
	err := c.Put(keyOf("k"), tree(t, map[string]string{"o/a.o": "x", "bench": "y"}), []string{"o", "bench"}, nil)
	must(t, err)
	into := tree(t, map[string]string{"a.c": "source"})
	future := time.Now().Add(time.Hour)
	must(t, os.Chtimes(filepath.Join(into, "a.c"), future, future))
	mustGet(t, c, keyOf("k"), into)
	var stamps []time.Time
	for _, name := range []string{"a.c", "o/a.o", "bench"} {
		fi, err := os.Stat(filepath.Join(into, name))
		must(t, err)
		stamps = append(stamps, fi.ModTime())
	}
	if stamps[1].Before(stamps[0]) || !stamps[1].Equal(stamps[2]) {
		t.Errorf("stamps %v: outputs must be one age, and not older than the source", stamps)
	}
}

func TestCandidateCannotWriteIntoTheCache(t *testing.T) {
	c := open(t, t.TempDir())
	from := tree(t, map[string]string{"bench": "right"})
	err := c.Put(keyOf("k"), from, []string{"bench"}, nil)
	must(t, err)
	into := t.TempDir()
	mustGet(t, c, keyOf("k"), into)
	for _, dir := range []string{from, into} {
		must(t, os.WriteFile(filepath.Join(dir, "bench"), []byte("WRONG"), 0o644))
	}
	mustGet(t, c, keyOf("k"), into)
	if data, _ := os.ReadFile(filepath.Join(into, "bench")); string(data) != "right" {
		t.Errorf("restored %q", data)
	}
}

func TestPutRefuses(t *testing.T) {
	from := tree(t, map[string]string{
		"a": "x", "abs": "->/etc/passwd", "up": "->../secret", "d/abs": "->/etc", "here": "->.", "sly": "->here/../../etc/passwd",
		"loop1": "->loop2", "loop2": "->loop1",
	})
	must(t, syscall.Mkfifo(filepath.Join(from, "pipe"), 0o644))
	var disk unix.Statfs_t
	must(t, unix.Statfs(from, &disk))
	must(t, os.WriteFile(filepath.Join(from, "sparse"), nil, 0o644))
	must(t, os.Truncate(filepath.Join(from, "sparse"), int64(disk.Bavail)*disk.Bsize)) // takes nothing here, and all of the disk as a copy
	for _, test := range []struct {
		output string
		want   error // nil: any
	}{
		{"missing", fs.ErrNotExist}, {"*.so", fs.ErrNotExist}, {"a/b", nil}, {"/etc/passwd", errEscape}, {"../x", errEscape}, {"a/../../x", errEscape},
		{"", errEscape}, {"abs", errEscape}, {"up", errEscape}, {"d", errEscape}, {"d/abs/passwd", errEscape}, {"sly", errEscape}, {"loop1", nil}, {"pipe", nil},
		{"sparse", syscall.ENOSPC},
		{"[", nil},
	} {
		c := open(t, t.TempDir())
		err := c.Put(keyOf("k"), from, []string{"a", test.output}, nil)
		if err == nil || (test.want != nil && !errors.Is(err, test.want)) || !strings.Contains(err.Error(), fmt.Sprintf("%q", test.output)) {
			t.Errorf("Put of %q: %v, want an error that names it and is %v", test.output, err, test.want)
		}
		mustMiss(t, c, keyOf("k"), t.TempDir())
	}
	c := open(t, t.TempDir())
	for _, key := range []string{"", "../../../../etc/passwd", "ABCDEF0123456789", "abc"} {
		if err := c.Put(key, from, []string{"a"}, nil); err == nil {
			t.Errorf("Put took the key %q", key)
		}
		if _, _, err := c.Get(t.Context(), key, from); err == nil {
			t.Errorf("Get took the key %q", key)
		}
	}
}

func TestRandomTrees(t *testing.T) {
	c := open(t, t.TempDir())
	rapid.Check(t, func(rt *rapid.T) {
		from, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c](/[a-c]){0,2}`), 1, 8, rapid.ID).Draw(rt, "names")
		for _, name := range names {
			path := filepath.Join(from, name)
			if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
				continue // a file is in the way
			}
			mode := rapid.SampledFrom([]fs.FileMode{0o644, 0o755, 0o444, 0o600}).Draw(rt, "mode")
			if os.WriteFile(path, rapid.SliceOf(rapid.Byte()).Draw(rt, "data"), mode) == nil {
				must(t, os.Chmod(path, mode))
			}
		}
		outs, err := os.ReadDir(from)
		must(t, err)
		var outputs []string
		for _, o := range outs {
			outputs = append(outputs, o.Name())
		}
		key := keyOf(strings.Join(names, "\n"))
		err = c.Put(key, from, outputs, nil)
		must(t, err)
		into, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		for range 2 {
			mustGet(t, c, key, into)
			if a, b := list(t, from), list(t, into); a != b {
				rt.Fatalf("restored\n%s\nwant\n%s", b, a)
			}
		}
	})
}

func TestTrim(t *testing.T) {
	c := open(t, t.TempDir())
	for i := range 5 {
		from := tree(t, map[string]string{"own": strings.Repeat(fmt.Sprint(i), 1000), "shared": strings.Repeat("s", 500)})
		key := keyOf(fmt.Sprint(i))
		err := c.Put(key, from, []string{"own", "shared"}, nil)
		must(t, err)
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		used(at, c.entryPath(key))
		used(at, c.objectPath(keyOf(strings.Repeat(fmt.Sprint(i), 1000))))
	}
	left := filepath.Join(c.dir, "tmp", "o-left")
	must(t, os.WriteFile(left, []byte("x"), 0o600))
	used(time.Now().Add(-2*abandoned), left)
	must(t, os.WriteFile(filepath.Join(c.dir, "tmp", "o-written-now"), []byte("x"), 0o600))
	mustGet(t, c, keyOf("0"), t.TempDir()) // now the most recently used
	res, err := c.Trim(2500, 0)
	must(t, err)
	st, err := c.Stats()
	must(t, err)
	if res != (TrimResult{Entries: 3, Bytes: 3000}) || st.Entries != 2 || st.Bytes != 2500 {
		t.Errorf("trimmed %+v, left %+v", res, st)
	}
	if left, _ := os.ReadDir(filepath.Join(c.dir, "tmp")); len(left) != 1 || left[0].Name() != "o-written-now" {
		t.Errorf("tmp still holds %v", left)
	}
	mustGet(t, c, keyOf("0"), t.TempDir())
	mustMiss(t, c, keyOf("3"), t.TempDir())
	if res, err := c.Trim(0, time.Hour); err != nil || res.Entries != 1 {
		t.Errorf("Trim by age = %+v, %v, want 1 entry", res, err)
	}
	if res, err := c.Trim(1, 0); err != nil || res.Entries != 1 {
		t.Errorf("Trim to nothing = %+v, %v, want 1 entry", res, err)
	}
	if st, _ := c.Stats(); st.Entries != 0 || st.Bytes != 0 {
		t.Errorf("left %+v", st)
	}
}

// However much Trim leaves of what puts and gets have used in any order, every entry of it is whole.
func TestTrimLeavesWholeEntries(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		c := open(t, dir)
		from := tree(t, nil)
		for range rapid.IntRange(1, 12).Draw(rt, "uses") {
			key := keyOf(rapid.SampledFrom([]string{"k", "l", "m", "n"}).Draw(rt, "key"))
			if rapid.Bool().Draw(rt, "get") {
				_, _, err := c.Get(t.Context(), key, t.TempDir())
				must(t, err)
				continue
			}
			for _, name := range []string{"a", "b", "c"} {
				must(t, os.WriteFile(filepath.Join(from, name), bytes.Repeat([]byte{byte(rapid.IntRange(0, 4).Draw(rt, "content"))}, 100), 0o644))
			}
			must(t, c.Put(key, from, []string{"a", "b", "c"}, nil))
		}
		_, err := c.Trim(int64(100*rapid.IntRange(1, 6).Draw(rt, "most")), 0)
		must(t, err)
		must(t, files(filepath.Join(dir, "entries"), func(path string, _ fs.FileInfo) { mustGet(t, c, filepath.Base(path), t.TempDir()) }))
	})
}

// An entry of which something was trimmed is a miss like one that is not there.
func TestTrimmedObject(t *testing.T) {
	c := open(t, t.TempDir())
	from := tree(t, map[string]string{"bench": "program"})
	must(t, c.Put(keyOf("k"), from, []string{"bench"}, nil))
	must(t, os.Remove(c.objectPath(keyOf("program"))))
	into := tree(t, map[string]string{"bench": "mine"})
	before := list(t, into)
	mustMiss(t, c, keyOf("k"), into)
	if after := list(t, into); after != before || c.damaged.Load() != 0 {
		t.Errorf("%d damaged, and the folder holds\n%s", c.damaged.Load(), after)
	}
	must(t, c.Put(keyOf("k"), from, []string{"bench"}, nil))
	mustGet(t, c, keyOf("k"), into)
}

func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o644))
	if _, err := Open(filepath.Join(file, "cache")); !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), "set XDG_CACHE_HOME") {
		t.Errorf("Open below a file: %v", err)
	}
	if os.Geteuid() == 0 {
		t.Log("SKIPPED: permissions do not bind root; the read-only cache was not tested")
		t.SkipNow()
	}
	c := open(t, filepath.Join(dir, "c"))
	from := tree(t, map[string]string{"a": "x"})
	err := c.Put(keyOf("k"), from, []string{"a"}, nil)
	must(t, err)
	for _, sub := range []string{"", "tmp", "entries", "objects"} {
		must(t, os.Chmod(filepath.Join(c.dir, sub), 0o555))
		defer os.Chmod(filepath.Join(c.dir, sub), 0o755)
	}
	mustGet(t, c, keyOf("k"), t.TempDir())
	err = c.Put(keyOf("l"), from, []string{"a"}, nil)
	if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "hint: ") {
		t.Errorf("Put in a read-only cache: %v", err)
	}
	if _, err := Open(filepath.Join(c.dir, "tmp", "new")); !errors.Is(err, syscall.EACCES) {
		t.Errorf("Open in a read-only directory: %v", err)
	}
}

// TestRoot: without a home there is a private folder, which nobody else can have prepared.
func TestRoot(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	private := filepath.Join(tmp, fmt.Sprintf("kbisect-%d", os.Geteuid()))
	me := filepath.Join(tmp, "new", "me")
	for _, c := range []struct {
		home, xdg, want string
		warned          bool
	}{
		{me, "/var/x", "/var/x/kbisect", false}, {me, "", me + "/.cache/kbisect", false}, {me, "relative", me + "/.cache/kbisect", false},
		{"/dev/null", "", private, true}, {"relative", "", private, true},
		{"", "/var/x", "/var/x/kbisect", false}, {"", "", private, true}, {"", "", private, true},
	} {
		t.Setenv("HOME", c.home)
		t.Setenv("XDG_CACHE_HOME", c.xdg)
		if got, warning, err := Root(); err != nil || got != c.want || strings.Contains(warning, private) != c.warned {
			t.Errorf("%+v: %q, %q, %v", c, got, warning, err)
		}
	}
	for name, prepare := range map[string]func() error{
		"open to others": func() error { return os.Chmod(private, 0o777) },
		"a link":         func() error { return errors.Join(os.Remove(private), os.Symlink(t.TempDir(), private)) },
		"a file":         func() error { return errors.Join(os.Remove(private), os.WriteFile(private, nil, 0o700)) },
	} {
		must(t, prepare())
		if got, _, err := Root(); err == nil || !strings.Contains(err.Error(), "hint: set XDG_CACHE_HOME or HOME") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		must(t, os.RemoveAll(private))
		must(t, os.Mkdir(private, 0o700))
	}
}

func FuzzDecode(f *testing.F) {
	m := manifest{Key: keyOf("k"), Outputs: []string{"a"}, Items: []item{{Path: "a", Type: typeLink, Target: "b"}}}
	data, err := m.encode()
	must(f, err)
	f.Add(data)
	f.Add([]byte(manifestMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		body := append([]byte(nil), data...)
		_, _ = decode(body, keyOf("k"))
		// The same bytes under a right digest, as a malicious writer would store them.
		sum := sha256.Sum256(data)
		m, err := decode(append([]byte(manifestMagic+hex.EncodeToString(sum[:])+"\n"), data...), keyOf("k"))
		if err != nil {
			return
		}
		for _, it := range m.Items {
			if !filepath.IsLocal(it.Path) {
				t.Errorf("path %q", it.Path)
			}
		}
	})
}
