package trial

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/compilers"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// settings are the flags that a candidate sets. An unknown flag is an error: the configuration has changed.
func (p Recipe) settings(c bisect.Candidate) (kernels.Settings, error) {
	s, wrong := kernels.ParseSettings(c.Assign, p.Flags)
	if wrong != "" {
		return nil, fmt.Errorf("candidate %s: %q is not a flag of the configuration", c.Brief(), wrong)
	}
	return s, nil
}

// Environ is the environment of any process for a request. caches is the folder for what compilers and frameworks
// cache. Variables of kbisect's own do not reach candidates, except the probe's.
func (p Recipe) Environ(w *workspace.Workspace, r bisect.Request, caches string) []string {
	env := slices.DeleteFunc(slices.Clone(p.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "KBISECT_") && name != kernels.ProbeModules
	})
	return append(w.Environ(env, p.WorkDir(w), caches), "KBISECT_COMMIT="+r.Candidate.Commit, "KBISECT_PURPOSE="+string(r.Purpose))
}

// buildEnv is the environment of a build, with the flags that it depends on, and the objects that it may use.
func (p Recipe) buildEnv(ctx context.Context, w *workspace.Workspace, r bisect.Request, o *workspace.Objects) ([]string, error) {
	set, err := p.settings(p.buildOf(w, r.Candidate))
	if err != nil {
		return nil, err
	}
	var keeping []string
	if o != nil {
		tree, err := compilers.Tree(ctx, p.Repo, o.Base(r.Candidate.Commit), r.Candidate.Commit)
		if err != nil {
			return nil, &bisect.InfraError{What: "comparing trees for " + bisect.ShortID(r.Candidate.Commit), Err: err}
		}
		keeping = compilers.Environ(o.Dir(), w.Dir, tree)
	}
	env, err := compileEnv(w, set.Apply(kernels.Merge(p.Environ(w, r, w.Tmp), p.Plan.Env)), set.Compile(), keeping)
	if p.Static() && err == nil { // so that ptxas reports spills
		env = append(env, "NVCC_APPEND_FLAGS="+strings.TrimSpace(proc.Getenv(env, "NVCC_APPEND_FLAGS")+" -Xptxas=-v"))
	}
	return env, err
}

// RunEnv is the environment of a launch. Programs that compile while they run get macros and options, too.
func (p Recipe) RunEnv(w *workspace.Workspace, r bisect.Request) ([]string, error) {
	set, err := p.settings(r.Candidate)
	if err != nil {
		return nil, err
	}
	env := set.Apply(kernels.Merge(p.Environ(w, r, w.Caches.Dir), p.Plan.Env))
	if r.Candidate.Assign != "" {
		env = append(env, "KBISECT_ASSIGN="+r.Candidate.Assign)
	}
	return compileEnv(w, env, set.Compile(), nil)
}

// buildOf is the part of a candidate that its build depends on. Settings that only the program reads are left out,
// so that one build serves all of them.
func (p Recipe) buildOf(w *workspace.Workspace, c bisect.Candidate) bisect.Candidate {
	all, err := p.settings(c)
	if err != nil {
		return c // it fails when it is run
	}
	var kept kernels.Settings
	for _, x := range all {
		if x.Flag.Define != "" || x.Flag.Option != "" || x.Flag.Env != "" && p.buildReads(w, x.Flag.Env) {
			kept = append(kept, x)
		}
	}
	c.Assign = kept.String()
	return c
}

// buildReads reports whether the build may look at an environment variable: its name appears in the build command,
// or in a file of the candidate that is not a source of the program. When in doubt it does.
func (p Recipe) buildReads(w *workspace.Workspace, name string) bool {
	if len(p.Plan.Build) == 0 {
		return false
	}
	if strings.Contains(strings.Join(p.Plan.Build, " "), name) {
		return true
	}
	if known, ok := w.Contents.Reads[name]; ok {
		return known
	}
	if w.Contents.Candidate.Commit == "" {
		return true // until there is something to look at
	}
	w.Contents.Reads[name] = buildFileNames(w.Dir, name)
	return w.Contents.Reads[name]
}

// sources are the extensions of files that compilers read and build tools do not.
var sources = []string{".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hh", ".hpp", ".cuh", ".md", ".txtar"}

// buildFileNames reports whether a text in a tree that may steer its build contains a name.
func buildFileNames(dir, name string) (found bool) {
	const most = 256 << 10
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || slices.Contains(sources, filepath.Ext(path)) {
			return nil
		}
		if filepath.Ext(path) == ".py" && d.Name() != "setup.py" && d.Name() != "build.py" {
			return nil // a program
		}
		if st, err := d.Info(); err != nil || st.Size() > most {
			return nil
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(name)) && bytes.IndexByte(data, 0) < 0 {
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	return found
}

// compileEnv passes options to every compiler that a build, or the program itself, calls: to nvcc by its own
// variable, to others by wrappers in front of them on PATH. keeping is what these need to keep objects, if they do.
func compileEnv(w *workspace.Workspace, env, options, keeping []string) ([]string, error) {
	if len(options)+len(keeping) == 0 {
		return env, nil
	}
	dir, err := compilers.Write(w.Folder, options)
	if err != nil {
		return nil, &bisect.InfraError{What: "writing the compiler wrappers of a candidate", Err: err}
	}
	env = append(append(env, keeping...), "PATH="+dir+":"+proc.Getenv(env, "PATH"))
	if len(options) > 0 {
		more := strings.Join(options, " ")
		if old := proc.Getenv(env, "NVCC_APPEND_FLAGS"); old != "" {
			more = old + " " + more
		}
		env = append(env, "NVCC_APPEND_FLAGS="+more)
	}
	return env, nil
}

// objects are what builds have compiled, for one in a workspace; nil if it may not use that.
func objects(p Recipe, w *workspace.Workspace) *workspace.Objects {
	if !p.Objects || p.Plan.Whole {
		return nil
	}
	return workspace.ObjectsOf(w)
}
