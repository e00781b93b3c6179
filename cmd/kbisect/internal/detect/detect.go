// Package detect looks at a folder or a file, finds out what kind of project it is, and
// writes a commented kbisect.toml for it ([WriteTop], [WriteProgram]) or a runnable
// example. It only reads and writes files; it starts nothing.
package detect

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
)

// project is what there is to write into a kbisect.toml.
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
	judged  []string   // comments on the task
	notes   []string   // comments on the run
	times   []timeLine // that the program prints, the likeliest metric first
}

// A finder recognises one kind of project; ok is false where it is another.
type finder func(*folder) (p project, ok bool)

// finders lists what recognises a kind, the most specific first; the last accepts
// everything. A new kind is one file with a finder, and its line here.
func finders() []finder {
	return []finder{findKernelbot, findTorch, findCMake, findMake, findNvcc, findScript}
}

// detectProject is the project in dir, as the first finder sees it that recognises it.
func detectProject(dir string) (project, error) {
	d, err := openFolder(dir)
	if err != nil {
		return project{}, fmt.Errorf("look at the project: %w", err)
	}
	var p project
	for _, find := range finders() {
		if found, ok := find(d); ok {
			p = found
			break
		}
	}
	if p.paths == nil {
		p.paths = inputPaths(d, p)
	}
	return p, nil
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

// inputPaths lists everything at the top that a build or a run may read: rather
// too much than too little, since a commit that changes none of it is never tested.
func inputPaths(d *folder, p project) []string {
	var out []string
	for _, name := range d.dirs {
		if !slices.Contains(skippedDirs(), strings.ToLower(name)) && !strings.HasPrefix(name, "build") && !strings.HasPrefix(name, "cmake-build") {
			out = append(out, name+"/")
		}
	}
	for _, name := range d.files {
		if !skippedFile.MatchString(name) && !slices.Contains(p.outputs, name) && !isBinary(d, name) {
			out = append(out, name)
		}
	}
	return out
}

// skippedDirs lists folders of documentation and of what tools make.
func skippedDirs() []string {
	return []string{"doc", "docs", "documentation", "images", "img", "figures", "out", "obj", "dist", "target", "node_modules", "__pycache__", "venv", "env"}
}

// skippedFile matches documentation, pictures and what compilers make.
var skippedFile = regexp.MustCompile(`(?i)^(kbisect\.toml|(readme|license|licence|copying|notice|authors|changelog|contributing|codeowners|security|code_of_conduct)(\..*)?|.*\.(md|rst|adoc|ipynb|pdf|png|jpe?g|gif|svg|o|a|so|pyc|log|exe))$`)

// isBinary reports whether the file is a linked program, which is not committed.
func isBinary(d *folder, name string) bool {
	f, err := os.Open(filepath.Join(d.dir, name))
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := f.Read(head)
	return string(head[:n]) == "\x7fELF"
}
