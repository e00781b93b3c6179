package workspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// cacheVariables say where compilers and frameworks keep what they made before. Each workspace has
// folders of its own: another one's cache would hide the compile time of a candidate, a torch
// extension of the same name would be taken for another commit's, and the lock file of a killed
// build would block every later load. The user's own caches are never read, emptied or written.
var cacheVariables = []string{
	"XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH",
	"CUTE_DSL_CACHE_DIR", "HELION_CACHE_DIR", "TILELANG_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "DG_JIT_CACHE_DIR",
	"CUPY_CACHE_DIR", "NUMBA_CACHE_DIR", "TVM_FFI_CACHE_DIR",
}

// byContent are those whose entries go by all that they were made from, so that another candidate's serve as well.
var byContent = []string{"TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH"}

// remoteCaches would share a cache over the network.
var remoteCaches = []string{"TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE", "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE", "TORCHINDUCTOR_REMOTE_CACHE_BACKEND", "TORCHINDUCTOR_REDIS_HOST", "TORCHINDUCTOR_REDIS_PORT", "TRITON_CACHE_MANAGER"}

// Where Python keeps what it has compiled, and whether.
const (
	bytecodePrefix = "PYTHONPYCACHEPREFIX"
	noBytecode     = "PYTHONDONTWRITEBYTECODE"
)

// cacheEnv points every cache below root, and Python's bytecode below python. What is downloaded or
// addressed by its content in the user's cache folder stays where it is: models are inputs, and ccache is
// shared on purpose, except with a sandbox, which can only read it.
func cacheEnv(env []string, root, python string, sandbox bool) []string {
	shared := sharedData(env, sandbox)
	env = slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(cacheVariables, name) || slices.Contains(remoteCaches, name) || name == bytecodePrefix || name == noBytecode
	})
	env = append(env, bytecodePrefix+"="+python)
	for _, name := range cacheVariables {
		env = append(env, name+"="+filepath.Join(root, strings.ToLower(name)))
	}
	return append(env, shared...)
}

// sharedData names the folders in the user's cache folder that must not move with XDG_CACHE_HOME.
func sharedData(env []string, readOnly bool) (out []string) {
	cache := proc.Getenv(env, "XDG_CACHE_HOME")
	if home := proc.Getenv(env, "HOME"); cache == "" && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	shared := map[string]string{"HF_HOME": "huggingface", "TORCH_HOME": "torch"}
	if !readOnly {
		maps.Copy(shared, map[string]string{"CCACHE_DIR": "ccache", "SCCACHE_DIR": "sccache", "GOCACHE": "go-build", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv"})
	}
	for name, dir := range shared {
		path := filepath.Join(cache, dir)
		if st, err := os.Stat(path); cache != "" && proc.Getenv(env, name) == "" && err == nil && st.IsDir() {
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
		if proc.Getenv(env, name) == "" {
			env = append(env, name+"="+n)
		}
	}
	return env
}

// files counts what processes left in a cache root, up to a number.
func files(root string, most int) (n int) {
	_ = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if n++; n == most {
				return fs.SkipAll
			}
		}
		return nil
	})
	return n
}

// Caches is where the launches of a workspace keep their caches. Python's bytecode lies by the path of its
// source in a folder that all workspaces share: what the machine has installed is compiled once, as it would be
// on a machine that has run it before, and what a candidate holds is removed with the other caches.
type Caches struct {
	Dir    string
	Python string           // of all workspaces
	Warmed bisect.Candidate // whose last launch filled them and ended well

	own   []string // the part of Python for the files of this workspace
	given int      // files in Dir before the first launch of a candidate
}

// newCaches are the caches in a folder whose export lies at tree.
func newCaches(folder, tree, python string) Caches {
	c := Caches{Dir: filepath.Join(folder, "caches"), Python: python, own: []string{filepath.Join(python, tree)}}
	if real, err := filepath.EvalSymlinks(filepath.Dir(folder)); err == nil { // Python asks the kernel where it is
		if rel, err := filepath.Rel(filepath.Dir(folder), tree); err == nil {
			c.own = append(c.own, filepath.Join(python, real, rel))
		}
	}
	return c
}

// clear removes the caches, with any lock file that a killed process left in them. What goes by content is kept for the
// next candidate on request, if the last one ended well, and so is bytecode of sources that both have, unless own ones were built.
func (c *Caches) clear(r *Root, keep, built bool) (err error) {
	keep = keep && c.Warmed != (bisect.Candidate{})
	if keep {
		entries, _ := os.ReadDir(c.Dir)
		for _, e := range entries {
			if !slices.Contains(byContent, strings.ToUpper(e.Name())) {
				err = errors.Join(err, r.remove(filepath.Join(c.Dir, e.Name())))
			}
		}
	} else {
		err = r.remove(c.Dir)
	}
	for _, dir := range c.own {
		if keep && !built {
			err = errors.Join(err, filepath.WalkDir(dir, dropDoubtful))
		} else {
			err = errors.Join(err, r.remove(dir))
		}
	}
	c.Warmed, c.given = bisect.Candidate{}, 0
	return err
}

// dropDoubtful removes a file that may be bytecode of a source with another content: Python goes by the size of a source and
// the second of its last change. A candidate's files change when they are written, so that bytecode made in a later second
// holds until then.
func dropDoubtful(path string, d fs.DirEntry, err error) error {
	if err != nil || d.IsDir() {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	head := make([]byte, 16) // the magic number, how it is checked (0: by time and size), and the second and the size of its source
	if f, err := os.Open(path); err == nil {
		_, err = io.ReadFull(f, head)
		f.Close()
		how, second := binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
		if err == nil && d.Type().IsRegular() && how == 0 && info.ModTime().Unix() > int64(second) {
			return nil
		}
	}
	return os.Remove(path)
}

// mostSeed bounds what is copied from one workspace, in bytes: compiling anew is faster than copying more.
const mostSeed = 256 << 20

// seed adds what launches in another workspace have compiled, where its caches go by content. Entries are copied, so
// that no launch writes in those of another.
func (c *Caches) seed(from Caches) error {
	for _, name := range byContent {
		name = strings.ToLower(name)
		source, size := filepath.Join(from.Dir, name), int64(0)
		err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if size += info.Size(); size > mostSeed {
				return fs.SkipAll
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.HasPrefix(d.Name(), "__grp__") { // Triton's lists of files that belong together name them by full paths
				data = bytes.ReplaceAll(data, []byte(from.Dir), []byte(c.Dir))
			}
			to := c.Dir + strings.TrimPrefix(path, from.Dir)
			if _, err := os.Lstat(to); err == nil {
				return nil
			}
			if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
				return err
			}
			return os.WriteFile(to, data, info.Mode().Perm())
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// OfOne reports that launches have left what serves their own candidate alone, such as a torch extension, which goes by name.
func (c *Caches) OfOne() bool {
	entries, _ := os.ReadDir(c.Dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		name := strings.ToUpper(e.Name())
		return name != "XDG_CACHE_HOME" && !slices.Contains(byContent, name) && files(filepath.Join(c.Dir, e.Name()), 1) > 0
	})
}

// Full reports that there is something in the caches.
func (c *Caches) Full() bool { return files(c.Dir, 1) > 0 }

// Filled reports that launches of the candidate have left something that later ones are faster for. Bytecode counts
// where imports do: that of the workspace's own files, and the first of all, if there was none before.
func (c *Caches) Filled(imports, none bool) bool {
	own := func(dir string) bool { return files(dir, 1) > 0 }
	return files(c.Dir, c.given+1) > c.given || imports && (none && c.HasBytecode() || slices.ContainsFunc(c.own, own))
}

// HasBytecode reports that Python has compiled anything in this job.
func (c *Caches) HasBytecode() bool { return files(c.Python, 1) > 0 }
