package workspace

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// Each cache of a compiler or framework is the workspace's own; what is addressed by its content or was downloaded
// stays the user's, unless the sandbox could not write it.
func TestCacheEnv(t *testing.T) {
	home := t.TempDir()
	gittest.WriteFiles(t, home, map[string]string{".cache/huggingface/m": "", ".cache/ccache/o": "", "other/torch/m": "", "other/uv": "a file"}, 0o666)
	for name, c := range map[string]struct {
		env     []string
		sandbox bool
		want    []string // variables of shared folders
	}{
		"in the home":           {[]string{"HOME=" + home}, false, []string{"CCACHE_DIR=" + home + "/.cache/ccache", "HF_HOME=" + home + "/.cache/huggingface"}},
		"in a sandbox":          {[]string{"HOME=" + home}, true, []string{"HF_HOME=" + home + "/.cache/huggingface"}},
		"another cache folder":  {[]string{"HOME=" + home, "XDG_CACHE_HOME=" + home + "/other"}, false, []string{"TORCH_HOME=" + home + "/other/torch"}},
		"set by the user":       {[]string{"HOME=" + home, "HF_HOME=/models"}, true, []string{"HF_HOME=/models"}},
		"no home":               {nil, false, nil},
		"the last value counts": {[]string{"HOME=/nowhere", "HOME=" + home}, true, []string{"HF_HOME=" + home + "/.cache/huggingface"}},
	} {
		env := cacheEnv(slices.Concat(c.env, []string{"TRITON_CACHE_DIR=/shared", "TORCHINDUCTOR_REDIS_HOST=far", "PYTHONDONTWRITEBYTECODE=1", "KEEP=1"}), "/caches", "/python", c.sandbox)
		var shared []string
		for _, v := range env {
			if key, value, _ := strings.Cut(v, "="); strings.HasSuffix(key, "_HOME") && key != "XDG_CACHE_HOME" || key == "CCACHE_DIR" || strings.HasPrefix(value, home+"/other/") && key != "XDG_CACHE_HOME" {
				shared = append(shared, v)
			}
		}
		slices.Sort(shared)
		if !slices.Equal(shared, c.want) {
			t.Errorf("%s: shared %q, want %q", name, shared, c.want)
		}
		for variable, want := range map[string]string{
			"TRITON_CACHE_DIR": "/caches/triton_cache_dir", "XDG_CACHE_HOME": "/caches/xdg_cache_home", "PYTHONPYCACHEPREFIX": "/python",
			"TORCHINDUCTOR_REDIS_HOST": "", "PYTHONDONTWRITEBYTECODE": "", "KEEP": "1",
		} {
			if got := proc.Getenv(env, variable); got != want {
				t.Errorf("%s: %s is %q, want %q", name, variable, got, want)
			}
		}
	}
}

// A limit that the user has set for a compiler's processes stays.
func TestCompilerJobs(t *testing.T) {
	env := compilerJobs([]string{"MAX_JOBS=3"})
	if proc.Getenv(env, "MAX_JOBS") != "3" || proc.Getenv(env, "TORCHINDUCTOR_COMPILE_THREADS") == "" {
		t.Errorf("%q", env)
	}
}

// Bytecode of the workspace's own files counts as a filled cache where imports are timed, and goes with the caches;
// bytecode of what the machine has installed counts for the first launch only, and stays.
func TestBytecode(t *testing.T) {
	_, w, _ := opened(t)
	c := &w.Caches
	if c.Filled(true, true) || c.HasBytecode() {
		t.Error("new caches are filled")
	}
	installed := filepath.Join(c.Python, "usr", "lib", "x.pyc")
	gittest.WriteFiles(t, "/", map[string]string{installed: ""}, 0o666)
	if c.Filled(true, false) || c.Filled(false, true) || !c.Filled(true, true) || !c.HasBytecode() {
		t.Error("bytecode of an installed module")
	}
	gittest.WriteFiles(t, "/", map[string]string{filepath.Join(c.Python, w.Dir, "own.pyc"): ""}, 0o666)
	if c.Filled(false, false) || !c.Filled(true, false) {
		t.Error("bytecode of the candidate")
	}
	c.Warmed.Commit = "x"
	if err := w.ClearCaches(); err != nil || c.Filled(true, false) || c.Warmed.Commit != "" {
		t.Errorf("after clearing: %v, %+v", err, c)
	}
	if _, err := os.Stat(installed); err != nil {
		t.Error("bytecode of an installed module is compiled again for every candidate")
	}
}

// The next candidate finds bytecode of the sources that have not changed, and none that Python might take for that of another
// content: it goes by the size of a source, and by the second in which it was written.
func TestBytecodeOfTheLastCandidate(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT TESTED: python3 is missing")
	}
	_, w, _ := opened(t)
	c := &w.Caches
	write := func(name, text string, age time.Duration) {
		t.Helper()
		file, at := filepath.Join(w.Dir, name), time.Now().Add(-age)
		gittest.WriteFiles(t, "/", map[string]string{file: text}, 0o666)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (names []string) {
		_ = filepath.WalkDir(filepath.Join(c.Python, w.Dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				name, _, _ := strings.Cut(d.Name(), ".")
				names = append(names, name)
			}
			return nil
		})
		return names
	}
	said := func() string {
		t.Helper()
		cmd := exec.Command(python, "-c", "import old, new; print(old.x + new.x)")
		cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), "PYTHONPATH="+w.Dir, "PYTHONPYCACHEPREFIX="+c.Python, "PYTHONDONTWRITEBYTECODE=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write("old.py", "x = 1", time.Minute)
	write("new.py", "x = 10", -time.Minute) // written in the second of its bytecode, or later
	if got := said(); got != "11" || len(kept()) != 2 {
		t.Fatalf("%s, %v", got, kept())
	}
	gittest.WriteFiles(t, "/", map[string]string{filepath.Join(c.Python, w.Dir, "left.pyc"): "not bytecode"}, 0o666)
	for _, x := range []struct {
		inherits, built bool
		want            []string
	}{{true, false, []string{"old"}}, {true, true, nil}, {false, false, nil}} {
		said()
		w.Contents.Made, c.Warmed.Commit = x.built, "x"
		var from []*Workspace
		if x.inherits {
			from = []*Workspace{w}
		}
		if err := InheritCaches(w, from); err != nil || !slices.Equal(kept(), x.want) {
			t.Errorf("%+v: %v, %v", x, kept(), err)
		}
		write("new.py", "x = 20", -time.Minute)
		if got := said(); got != "21" {
			t.Errorf("%+v: %s", x, got)
		}
		write("new.py", "x = 10", -time.Minute)
	}
}

// Python asks the kernel where a file is: its bytecode lies by the path without links.
func TestBytecodeBehindALink(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(home+"/real", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", home+"/link"); err != nil {
		t.Fatal(err)
	}
	c := newCaches(home+"/link/search", home+"/link/search/tree", home+"/python")
	gittest.WriteFiles(t, home, map[string]string{"python/" + home + "/real/search/tree/own.pyc": ""}, 0o666)
	if !c.Filled(true, false) {
		t.Errorf("%+v", c)
	}
}

// The next candidate of a search finds what others have compiled, where it goes by content: of workspaces whose last
// candidate ended well, and nothing else. What it finds does not count as filled by it.
func TestInheritCaches(t *testing.T) {
	kept, end := filepath.Join("triton_cache_dir", "key", "kernel"), filepath.Join("triton_cache_dir", "other", "kernel")
	for name, c := range map[string]struct {
		warmed, endWarmed, inherits bool
		want                        []string
	}{
		"of both":                  {true, true, true, []string{kept, end}},
		"its own candidate failed": {false, true, true, []string{end}},
		"the end failed":           {true, false, true, []string{kept}},
		"a launch of a proof":      {true, true, false, nil},
	} {
		root, w, _ := opened(t)
		from := root.New("end")
		gittest.WriteFiles(t, w.Caches.Dir, map[string]string{kept: "a", filepath.Join("xdg_cache_home", "lock"): ""}, 0o666)
		gittest.WriteFiles(t, from.Caches.Dir, map[string]string{end: "b", kept: "another"}, 0o666)
		if c.warmed {
			w.Caches.Warmed.Commit = "x"
		}
		if c.endWarmed {
			from.Caches.Warmed.Commit = "y"
		}
		var others []*Workspace
		if c.inherits {
			others = []*Workspace{from}
		}
		if err := InheritCaches(w, others); err != nil || w.Caches.Warmed.Commit != "" || w.Caches.Filled(false, false) {
			t.Errorf("%s: %v, %+v", name, err, w.Caches)
		}
		var got []string
		_ = filepath.WalkDir(w.Caches.Dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, _ := filepath.Rel(w.Caches.Dir, path)
				got = append(got, rel)
			}
			return nil
		})
		if c.endWarmed && c.inherits && !c.warmed { // the end's own entry of the same key
			c.want = append([]string{kept}, c.want...)
		}
		if !slices.Equal(got, c.want) || w.Caches.Full() != (len(c.want) > 0) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if text, _ := os.ReadFile(filepath.Join(w.Caches.Dir, kept)); c.warmed && c.inherits && string(text) != "a" {
			t.Errorf("%s: an entry was overwritten", name)
		}
		gittest.WriteFiles(t, w.Caches.Dir, map[string]string{filepath.Join("triton_cache_dir", "new"): ""}, 0o666)
		if !w.Caches.Filled(false, false) {
			t.Errorf("%s: a new entry does not count", name)
		}
	}
}
