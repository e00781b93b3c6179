package pipeline

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// Caches says on what a trial that is launched for its times finds the caches of compilers and
// frameworks. All other trials find them empty.
type Caches string

// The settings.
const (
	Warm Caches = "warm" // as a first process of the same candidate left them
	Cold Caches = "cold" // empty
)

// cacheVariables say where compilers and frameworks keep what they made before. Each trial gets
// roots of its own: a neighbour's cache would hide the compile time of a candidate, a torch
// extension of the same name would be taken for another commit's, and the lock file of a killed
// build would stop every later load. The user's own caches are never read, wiped or written.
func cacheVariables() []string {
	return []string{
		"XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH",
		"CUTE_DSL_CACHE_DIR", "HELION_CACHE_DIR", "TILELANG_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "DG_JIT_CACHE_DIR",
		"CUPY_CACHE_DIR", "NUMBA_CACHE_DIR", "TVM_FFI_CACHE_DIR",
	}
}

// remoteCaches would bring a cache in by the back door.
func remoteCaches() []string {
	return []string{"TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE", "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE", "TORCHINDUCTOR_REMOTE_CACHE_BACKEND", "TORCHINDUCTOR_REDIS_HOST", "TORCHINDUCTOR_REDIS_PORT", "TRITON_CACHE_MANAGER"}
}

// Where Python keeps what it has compiled, and whether.
const (
	bytecodePrefix = "PYTHONPYCACHEPREFIX"
	noBytecode     = "PYTHONDONTWRITEBYTECODE"
)

// cacheEnv points every cache below root, and Python's bytecode below python. What is downloaded or
// addressed by its content in the user's cache folder stays where it is: models are inputs, and ccache is
// shared on purpose.
func cacheEnv(env []string, root, python string) []string {
	shared := sharedData(env)
	env = slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(cacheVariables(), name) || slices.Contains(remoteCaches(), name) || name == bytecodePrefix || name == noBytecode
	})
	env = append(env, bytecodePrefix+"="+python)
	for _, name := range cacheVariables() {
		env = append(env, name+"="+filepath.Join(root, strings.ToLower(name)))
	}
	return append(env, shared...)
}

// sharedData names the folders in the user's cache folder that must not move with XDG_CACHE_HOME.
func sharedData(env []string) (out []string) {
	cache := getenv(env, "XDG_CACHE_HOME")
	if home := getenv(env, "HOME"); cache == "" && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	shared := map[string]string{
		"HF_HOME": "huggingface", "TORCH_HOME": "torch", "CCACHE_DIR": "ccache", "SCCACHE_DIR": "sccache",
		"GOCACHE": "go-build", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv",
	}
	for name, dir := range shared {
		path := filepath.Join(cache, dir)
		if st, err := os.Stat(path); cache != "" && getenv(env, name) == "" && err == nil && st.IsDir() {
			out = append(out, name+"="+path)
		}
	}
	slices.Sort(out)
	return out
}

// compilerJobs fixes how many processes a just-in-time compiler starts. Left to itself it asks the
// machine, and a busy machine would read as a slow candidate.
func compilerJobs(env []string) []string {
	n := strconv.Itoa(min(runtime.NumCPU(), 16))
	for _, name := range []string{"MAX_JOBS", "TORCHINDUCTOR_COMPILE_THREADS"} {
		if getenv(env, name) == "" {
			env = append(env, name+"="+n)
		}
	}
	return env
}

func getenv(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// holdsFiles reports whether a process left anything in a cache root.
func holdsFiles(root string) bool {
	found := false
	_ = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// roots is where the processes of a slot keep their caches. Python's bytecode lies by the path of its source
// in a folder that all slots share: what the machine has installed is compiled once, as it would be on a
// machine that has run it before, and what a candidate holds is thrown away with the other caches.
type roots struct {
	dir    string
	python string           // of all slots
	own    []string         // the part of it for the files of this slot
	warmed bisect.Candidate // of which a process has filled them and ended well
}

// newRoots are the caches in the folder of a slot, whose tree lies at tree.
func newRoots(slot, tree, python string) roots {
	c := roots{dir: filepath.Join(slot, "caches"), python: python, own: []string{filepath.Join(python, tree)}}
	if real, err := filepath.EvalSymlinks(filepath.Dir(slot)); err == nil { // Python asks the kernel where it is
		if rel, err := filepath.Rel(filepath.Dir(slot), tree); err == nil {
			c.own = append(c.own, filepath.Join(python, real, rel))
		}
	}
	return c
}

// clear throws the caches away, with any lock file that a killed process left in them.
func (c *roots) clear() error {
	c.warmed = bisect.Candidate{}
	err := removeAll(c.dir)
	for _, dir := range c.own {
		err = errors.Join(err, removeAll(dir))
	}
	return err
}

// compiled reports that Python has compiled files of the slot, or the first ones of all.
func (c *roots) compiled(first bool) bool {
	return first && holdsFiles(c.python) || slices.ContainsFunc(c.own, holdsFiles)
}
