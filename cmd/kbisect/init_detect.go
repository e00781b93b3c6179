package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kbisect/kbisect/kernels"
)

// project is what detectProject found out about a directory.
type project struct {
	kind    string
	what    string // in words
	paths   []string
	build   []string
	sources []string // kind nvcc: instead of build
	options []string // of nvcc
	outputs []string
	run     []string
	task    TaskConfig
	judged  []string // notes about the task
	notes   []string // about the run
	pattern string   // of the metric in what the program prints, "" where none was found
	unit    string   // of that, where the pattern does not read it
}

// detector looks at one directory. Reading is bounded: a slip in choosing the
// directory must not read a disk.
type detector struct {
	dir   string
	files []string // plain files at the top, sorted
	dirs  []string
}

// detectProject tries the kinds from the most to the least particular.
func detectProject(dir string) (project, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return project{}, fmt.Errorf("look at the project: %w", err)
	}
	d := &detector{dir: dir}
	for _, e := range entries {
		switch {
		case !utf8.ValidString(e.Name()) || strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			d.dirs = append(d.dirs, e.Name())
		case d.isPlain(e.Name()):
			d.files = append(d.files, e.Name())
		}
	}
	for _, try := range []func() (project, bool){d.kernelbot, d.torch, d.cmake, d.makefile, d.nvcc} {
		if p, ok := try(); ok {
			return d.finish(p), nil
		}
	}
	return d.finish(d.command()), nil
}

// isPlain follows links; opening a pipe would wait forever.
func (d *detector) isPlain(name string) bool {
	info, err := os.Stat(filepath.Join(d.dir, name))
	return err == nil && info.Mode().IsRegular()
}

func (d *detector) finish(p project) project {
	if p.paths == nil {
		p.paths = d.paths(p)
	}
	return p
}

func (d *detector) has(name string) bool { return slices.Contains(d.files, name) }

// first returns the first of names that is there.
func (d *detector) first(names ...string) string {
	for _, n := range names {
		if d.has(n) {
			return n
		}
	}
	return ""
}

// read returns the beginning of a file at the top.
func (d *detector) read(name string) []byte {
	f, err := os.Open(filepath.Join(d.dir, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return data
}

// addExecutable finds the first argument of add_executable.
func addExecutable() *regexp.Regexp {
	return regexp.MustCompile(`(?mi)^[ \t]*add_executable\s*\(\s*([^\s)]+)`)
}

func cmakeProject() *regexp.Regexp {
	return regexp.MustCompile(`(?mi)^[ \t]*project\s*\(\s*([^\s)]+)`)
}

func (d *detector) cmake() (project, bool) {
	if !d.has("CMakeLists.txt") {
		return project{}, false
	}
	text := d.read("CMakeLists.txt")
	var names []string
	for _, m := range addExecutable().FindAllSubmatch(text, -1) {
		name := string(m[1])
		if p := cmakeProject().FindSubmatch(text); p != nil {
			name = strings.ReplaceAll(name, "${PROJECT_NAME}", string(p[1]))
		}
		if !strings.ContainsAny(name, "${}") {
			names = append(names, name)
		}
	}
	p := project{kind: kindCMake, what: "a CMake project"}
	name := benchLike(names)
	if name != "" {
		p.outputs, p.run = []string{"build/" + name}, []string{"./build/" + name}
	}
	p.build = []string{"sh", "-c", kernels.CMakeScript(name)}
	return p, true
}

// benchLike picks the program that is most likely the one to time.
func benchLike(names []string) string {
	for _, word := range []string{"bench", "perf", "profile", "main", "run"} {
		for _, n := range names {
			if strings.Contains(strings.ToLower(n), word) {
				return n
			}
		}
	}
	if len(names) > 0 {
		return names[0]
	}
	return ""
}

func (d *detector) makefile() (project, bool) {
	name := d.first("GNUmakefile", "makefile", "Makefile")
	if name == "" {
		return project{}, false
	}
	programs, actions := makeTargets(d.read(name))
	p := project{kind: kindMake, what: "a project with a " + name, build: []string{"make", "-j2"}}
	if program := benchLike(programs); program != "" {
		p.build = append(p.build, program)
		p.outputs, p.run = []string{program}, []string{"./" + program}
		return p, true
	}
	if action := benchAction(actions); action != "" {
		p.run = []string{"make", action}
		p.notes = []string{"The time of make itself counts; name the program instead where you can."}
	}
	return p, true
}

// makeRecipe is the text of a recipe, at the beginning of what follows the line of its target.
func makeRecipe(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\n"))
	n := 0
	for line := range bytes.Lines(text) {
		if line[0] != '\t' {
			break
		}
		n += len(line)
	}
	return text[:n]
}

// benchAction picks what is most likely a benchmark among the things to do.
func benchAction(actions []string) string {
	for _, name := range []string{"bench", "benchmark", "perf", "*bench*", "run", "check", "test"} {
		for _, a := range actions {
			if ok, _ := path.Match(name, a); ok {
				return a
			}
		}
	}
	return ""
}

func makeRule() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^([A-Za-z0-9_$(){}./ -]+?)[ \t]*::?((?:[^=:\n][^\n]*)?)$`)
}

// fromSources matches what a program is made of.
func fromSources() *regexp.Regexp {
	return regexp.MustCompile(`\.(c|cc|cpp|cxx|cu|o|obj|f90|rs|go)\b|\$[<^({]`)
}

// namesSource matches a source file by its name: a phony target made from one is a program all the same.
func namesSource() *regexp.Regexp { return regexp.MustCompile(`\w\.(c|cc|cpp|cxx|cu|f90|rs)\b`) }

func makePhony() *regexp.Regexp { return regexp.MustCompile(`(?m)^\.PHONY[ \t]*:(.*)$`) }

func makeVariable() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*[:?]?=[ \t]*([A-Za-z0-9_./-]+)[ \t]*(?:#.*)?$`)
}

// makeTargets lists the targets that look like programs, and those that are
// only names of something to do.
func makeTargets(text []byte) (programs, actions []string) {
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r"), nil), []byte("\\\n"), []byte(" "))
	vars := map[string]string{}
	for _, m := range makeVariable().FindAllSubmatch(text, -1) {
		vars["$("+string(m[1])+")"], vars["${"+string(m[1])+"}"] = string(m[2]), string(m[2])
	}
	var phony []string
	for _, m := range makePhony().FindAllSubmatch(text, -1) {
		phony = append(phony, strings.Fields(string(m[1]))...)
	}
	for _, at := range makeRule().FindAllSubmatchIndex(text, -1) {
		needs, recipe := text[at[4]:at[5]], makeRecipe(text[at[1]:])
		for _, target := range strings.Fields(string(text[at[2]:at[3]])) {
			v, named := vars[target]
			if named {
				target = v
			}
			made := named || fromSources().Match(needs)
			idle := len(recipe) > 0 && !bytes.Contains(recipe, []byte("$@")) && !bytes.Contains(recipe, []byte("-o"))
			aggregate := len(recipe) == 0 && (neverProgram(target) || strings.HasPrefix(target, "all_")) && !namesSource().Match(needs)
			switch {
			case aggregate, slices.Contains(phony, target) && !namesSource().Match(needs), !made && (idle || neverProgram(target)):
				actions = append(actions, target)
			case programName(target):
				programs = append(programs, target)
			}
		}
	}
	return programs, actions
}

// neverProgram knows the customary names of things to do.
func neverProgram(target string) bool {
	verb, _, two := strings.Cut(strings.ReplaceAll(target, "_", "-"), "-")
	if two && slices.Contains([]string{"run", "test", "check", "clean", "install", "lint", "format", "serve", "build", "docs"}, verb) {
		return true
	}
	return slices.Contains([]string{"all", "clean", "install", "uninstall", "format", "lint", "help", "distclean", "check", "test",
		"bench", "benchmark", "perf", "run"}, target)
}

// programName rejects objects, libraries, variables and special targets.
func programName(s string) bool {
	return !strings.HasPrefix(s, ".") && !strings.HasPrefix(s, "/") && !strings.HasSuffix(s, "/") && !strings.ContainsAny(s, "$(){}%") &&
		!slices.Contains(strings.Split(s, "/"), "..") && (filepath.Ext(s) == "" || filepath.Ext(s) == ".out" || filepath.Ext(s) == ".exe")
}
