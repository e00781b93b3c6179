package detect

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
)

func cuMain() *regexp.Regexp { return regexp.MustCompile(`(?m)^[ \t]*(?:int|auto)[ \t]+main[ \t]*\(`) }

func cuInclude() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"]+)"`)
}

// nvcc is one CUDA program, perhaps of several files: those with a main
// function of their own belong to other programs, and those that another file
// includes are compiled with that.
func (d *detector) nvcc() (project, bool) {
	var all, mains []string
	included := map[string]bool{}
	for _, f := range d.files {
		if filepath.Ext(f) != ".cu" {
			continue
		}
		text := d.read(f)
		all = append(all, f)
		if cuMain().Match(text) {
			mains = append(mains, f)
		}
		for _, m := range cuInclude().FindAllSubmatch(text, -1) {
			included[filepath.Base(string(m[1]))] = true
		}
	}
	if len(all) == 0 {
		return project{}, false
	}
	var notes []string
	if len(mains) == 0 {
		if bench := d.benchScript(); bench != "" { // an extension that Python loads
			return project{kind: config.KindCommand, what: "CUDA sources that " + bench + " times", run: []string{"python3", bench}}, true
		}
		mains = all[:1]
		notes = []string{"FILL IN: no .cu file here has a main function; name the sources of a program, or run what loads them."}
	}
	main := benchLike(mains)
	program := strings.TrimSuffix(main, ".cu")
	p := project{kind: config.KindNvcc, what: "CUDA sources without build rules", outputs: []string{program}, run: []string{"./" + program}, sources: []string{main}, notes: notes}
	for _, f := range all {
		if f != main && !slices.Contains(mains, f) && !included[f] {
			p.sources = append(p.sources, f)
		}
	}
	return p, true
}

// command is everything else: a script to run, if there is one.
func (d *detector) command() project {
	p := project{kind: config.KindCommand, what: "a project of a sort that was not recognised"}
	if files := d.submissions(); len(files) > 0 {
		return d.problem("", files[0])
	}
	switch script := d.first("bench.sh", "benchmark.sh", "run.sh", "bench.py", "benchmark.py", "main.py"); filepath.Ext(script) {
	case ".sh":
		p.run = []string{"sh", script}
	case ".py":
		p.run = []string{"python3", script}
	}
	return p
}

// paths lists everything at the top that may be read by a build or a run. It
// names too much rather than too little: a commit outside of the paths is never
// looked at.
func (d *detector) paths(p project) []string {
	var out []string
	for _, name := range d.dirs {
		if !slices.Contains(skippedDirs(), strings.ToLower(name)) && !strings.HasPrefix(name, "build") && !strings.HasPrefix(name, "cmake-build") {
			out = append(out, name+"/")
		}
	}
	for _, name := range d.files {
		if !skippedFile().MatchString(name) && !slices.Contains(p.outputs, name) && !d.isBinary(name) {
			out = append(out, name)
		}
	}
	return out
}

// skippedDirs holds prose and what tools make.
func skippedDirs() []string {
	return []string{"doc", "docs", "documentation", "images", "img", "figures", "out", "obj", "dist", "target", "node_modules", "__pycache__", "venv", "env"}
}

// skippedFile matches prose, pictures and what compilers make.
func skippedFile() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(kbisect\.toml|(readme|license|licence|copying|notice|authors|changelog|contributing|codeowners|security|code_of_conduct)(\..*)?|.*\.(md|rst|adoc|ipynb|pdf|png|jpe?g|gif|svg|o|a|so|pyc|log|exe))$`)
}

// isBinary reports whether the file is a linked program, which nobody commits.
func (d *detector) isBinary(name string) bool {
	f, err := os.Open(filepath.Join(d.dir, name))
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := f.Read(head)
	return string(head[:n]) == "\x7fELF"
}
