package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
)

// environ is the environment of a build or a trial: the user's own, without what would lead git
// back into the user's repository, with caches and a TMPDIR of the slot's. A Python that is killed
// says where it was.
func (s *slot) environ(r bisect.Request, caches string) []string {
	env := slices.DeleteFunc(slices.Clone(s.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		ours := strings.HasPrefix(name, "KBISECT_") && name != kernels.ProbeModules
		return strings.HasPrefix(name, "GIT_") || ours || name == "PWD" || name == "OLDPWD"
	})
	return append(compilerJobs(cacheEnv(s.visible(env), caches, s.caches.python)),
		"PYTHONFAULTHANDLER=1",
		"PWD="+s.workDir(),
		"TMPDIR="+s.tmp, "TMP="+s.tmp, "TEMP="+s.tmp,
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(s.dir),
		"KBISECT_COMMIT="+r.Candidate.Commit,
		"KBISECT_PURPOSE="+string(r.Purpose),
	)
}

// buildEnv is the environment of a build: with the compilers told of macros and options, and the
// variables that it may read.
func (s *slot) buildEnv(r bisect.Request) ([]string, error) {
	set, err := s.settings(s.buildOf(r.Candidate))
	if err != nil {
		return nil, err
	}
	env, err := s.compileEnv(kernels.Merge(append(s.environ(r, s.tmp), set.Env()...), s.Plan.Env), set.Compile())
	if s.static() && err == nil { // so that spills are told of
		env = append(env, "NVCC_APPEND_FLAGS="+strings.TrimSpace(lookup(env, "NVCC_APPEND_FLAGS")+" -Xptxas=-v"))
	}
	return env, err
}

// runEnv is the environment of a trial. What compiles while it runs is told of macros and options too.
func (s *slot) runEnv(r bisect.Request) ([]string, error) {
	set, err := s.settings(r.Candidate)
	if err != nil {
		return nil, err
	}
	env := append(s.environ(r, s.caches.dir), set.Env()...)
	if r.Candidate.Assign != "" {
		env = append(env, "KBISECT_ASSIGN="+r.Candidate.Assign)
	}
	return s.compileEnv(kernels.Merge(env, s.Plan.Env), set.Compile())
}

// toolVariables change what a build makes without showing in its inputs.
var toolVariables = []string{"PATH", "CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "NVCC", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CUDA_HOME", "CUDA_PATH", "CUDAARCHS", "MAKEFLAGS", "CMAKE_ARGS"}

// buildKey is the identity of a build's inputs: what the commit holds at the chosen paths, what the
// plan does with it, and the tools. It is "" when builds are not kept.
func (s *slot) buildKey(r bisect.Request) string {
	if s.Cache == nil || len(s.Plan.Outputs) == 0 {
		return ""
	}
	inputs, err := s.Repo.Key(r.Candidate.Commit, s.Paths)
	if err != nil {
		s.Log.Warn("build cache", "err", err)
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n%q\n%v %v\n", inputs, s.Plan.Digest(), s.static(), s.wantsSASS())
	if set := s.buildOf(r.Candidate).Assign; set != "" {
		fmt.Fprintf(h, "%q\n", set)
		for _, f := range s.Flags {
			fmt.Fprintf(h, "%q\n", f)
		}
	}
	env := s.environ(r, "")
	for _, name := range toolVariables {
		i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if i >= 0 {
			fmt.Fprintf(h, "%q\n", env[i])
		}
	}
	for _, tool := range append([]string{s.Plan.Build[0]}, "cc", "gcc", "g++", "c++", "clang", "nvcc", "ld", "ptxas", "python3") {
		path, err := exec.LookPath(tool)
		if err != nil {
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			continue
		}
		if st, err := os.Stat(path); err == nil {
			fmt.Fprintf(h, "%q %d %d\n", path, st.Size(), st.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// signalName is the name of a signal, such as SIGSEGV.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", s)
}
