package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
)

// settings are the flags that a candidate sets.
func (p *Pipeline) settings(c bisect.Candidate) (kernels.Settings, error) {
	s, wrong := kernels.ParseSettings(c.Assign, p.Flags)
	if wrong != "" {
		return nil, fmt.Errorf("candidate %s: %q sets no flag of the configuration", c.Brief(), wrong)
	}
	return s, nil
}

// buildOf is the part of a candidate that its build depends on: settings that only the program reads
// are left out, so that one build serves all of them.
func (s *slot) buildOf(c bisect.Candidate) bisect.Candidate {
	all, err := s.settings(c)
	if err != nil {
		return c // it fails when it is run
	}
	var kept kernels.Settings
	for _, x := range all {
		if x.Flag.Define != "" || x.Flag.Option != "" || x.Flag.Env != "" && s.buildReads(x.Flag.Env) {
			kept = append(kept, x)
		}
	}
	c.Assign = kept.String()
	return c
}

// buildReads reports whether the build may look at an environment variable: its name stands in the
// build command, or in a file of the candidate that is not a source of the program.
func (p *Pipeline) buildReads(name string) bool {
	if len(p.Plan.Build) == 0 {
		return false
	}
	known, ok := p.reads[name]
	if ok || strings.Contains(strings.Join(p.Plan.Build, " "), name) {
		return known || !ok
	}
	for _, s := range p.slots {
		if s.held.Commit != "" {
			p.reads[name] = buildFileNames(s.dir, name)
			return p.reads[name]
		}
	}
	return true // until there is something to look at
}

// sources are files that compilers read rather than build tools.
var sources = []string{".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hh", ".hpp", ".cuh", ".md", ".txtar"}

// buildFileNames looks for a name in the texts of a tree by which it may be built.
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

// hostCompilers are found on PATH and told what a candidate's macros and options are.
var hostCompilers = []string{"cc", "gcc", "c++", "g++", "clang", "clang++"}

// shim calls a compiler with more options, unless nvcc calls it, which has been told already.
const shim = `#!/bin/sh
p=$PPID
for i in 1 2 3; do
	read -r _ name _ up _ 2>/dev/null </proc/$p/stat || break
	[ "$name" = "(nvcc)" ] && exec %[1]s "$@"
	p=$up
done
exec %[1]s "$@" %[2]s
`

// compileEnv tells every compiler that a build, or the program itself, calls: nvcc by its own variable,
// others by a small script in front of them on PATH.
func (p *Pipeline) compileEnv(env, options []string) ([]string, error) {
	if len(options) == 0 {
		return env, nil
	}
	dir, err := p.shims(env, options)
	if err != nil {
		return nil, &bisect.InfraError{What: "writing the compilers of a candidate", Err: err}
	}
	more := strings.Join(options, " ")
	if old := lookup(env, "NVCC_APPEND_FLAGS"); old != "" {
		more = old + " " + more
	}
	return append(env, "PATH="+dir+":"+lookup(env, "PATH"), "NVCC_APPEND_FLAGS="+more), nil
}

// buildArgv is the build command. A compiler that it names by its full path is told there what others
// are told on PATH.
func (s *slot) buildArgv(c bisect.Candidate) []string {
	argv := s.Plan.Build
	if !filepath.IsAbs(argv[0]) || !slices.Contains(hostCompilers, filepath.Base(argv[0])) {
		return argv
	}
	set, _ := s.settings(c)
	return slices.Concat(argv, set.Compile())
}

// shims writes the scripts for a list of options, once.
func (p *Pipeline) shims(env, options []string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(options, "\x00")))
	dir := filepath.Join(p.Dir, "compilers-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	made := dir + ".new"
	if err := os.MkdirAll(made, 0o777); err != nil {
		return "", err
	}
	for _, name := range hostCompilers {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(made, name), fmt.Appendf(nil, shim, quote(path), quote(options...)), 0o777); err != nil {
			return "", err
		}
	}
	return dir, os.Rename(made, dir)
}

// quote writes words for a shell.
func quote(words ...string) string {
	var out []string
	for _, w := range words {
		out = append(out, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(out, " ")
}

// lookup returns the last value of a variable.
func lookup(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
