// Package detect looks at a folder or a file, finds out what kind of project it is, and
// writes a commented kbisect.toml for it ([Write], [WriteProgram]) or a runnable
// example. It only reads and writes files; it starts nothing.
package detect

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
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
	task    config.TaskConfig
	judged  []string   // notes about the task
	notes   []string   // about the run
	times   []timeLine // that the program prints, the likeliest metric first
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
	p := project{kind: config.KindCMake, what: "a CMake project"}
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
	rules := makeTargets(d.read(name))
	p := project{kind: config.KindMake, what: "a project with a " + name, build: []string{"make", "-j2"}}
	if program := benchLike(rules.programs); program != "" {
		p.build = append(p.build, program)
		p.outputs, p.run = []string{program}, []string{"./" + program}
		if file, ok := rules.files[program]; ok {
			p.outputs, p.run = []string{file}, []string{"./" + file}
		}
		return p, true
	}
	if rules.idle { // what make does by itself, as kind make would ask it to, builds nothing
		p.kind, p.build = config.KindCommand, nil
	}
	if action := benchAction(rules.actions); action != "" {
		p.run = []string{"make", action}
		p.notes = []string{"The time of make itself counts; name the program instead where you can."}
	}
	return p, true
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
