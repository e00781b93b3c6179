// Package detect looks at a folder, finds out what kind of project it is, and writes a commented kbisect.toml for
// it ([WriteTop], [WriteCommand]) or a runnable example ([WriteHarness]). Each kind has a finder. What is
// not found is marked FILL IN for the user.
//
//	detectProject   asks the finders in turn; what they may read of a folder            detect.go
//	find...         one kind of project each, most specific first                       kernelbot.go, make.go, ...
//	reports         benchmark tools that can write their times to a file                benchmarks.go
//	timesIn         a time that the program prints, as the pattern that reads it        printed.go
//	config, write   the file, from the template kbisect.toml.tmpl                       write.go
//
// It only reads and writes files. It must not run anything of the project's, neither its build nor its program.
package detect

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// project is what there is to write into a kbisect.toml. The template kbisect.toml.tmpl uses the names of the
// fields.
type project struct {
	Kind    string
	What    string   // the kind in words, for a comment
	Paths   []string // what build and run read; folders end with a slash
	Build   []string
	Sources []string // for kind nvcc, instead of Build
	Outputs []string
	Run     []string
	Task    config.TaskConfig
	Judged  []string  // comments on the task
	Notes   []string  // comments on the run
	Metric  *timeLine // that the program prints; nil if that is not known before it has run
	From    string    // the metric's source if it is a file, else ""
	File    string    // that file, relative to the top
}

// A finder recognises one kind of project; ok is false if it is another. It only reads.
type finder func(*folder) (p project, ok bool)

// finders lists what recognises a kind, the most specific first; the last accepts everything. A new kind needs a file
// with a finder, and its place here.
func finders() []finder {
	return []finder{findKernelbot, findTorch, findCargo, findGo, findCMake, findMake, findNvcc, findPytest, findScript}
}

// detectProject is the project in dir, as seen by the first finder that recognises it; the last one recognises
// everything. Only a folder that cannot be read is an error.
func detectProject(dir string) (p project, err error) {
	d, err := openFolder(dir)
	if err != nil {
		return project{}, fmt.Errorf("look at the project: %w", err)
	}
	for _, find := range finders() {
		var ok bool
		if p, ok = find(d); ok {
			break
		}
	}
	if p.Paths == nil {
		p.Paths = inputPaths(d, p)
	}
	p.reports(d)
	return p, nil
}

// benchLike picks the program that is most likely the one to time, by words in its name; "" if there are none.
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

// inputPaths lists everything at the top that a build or a run may read. It lists too much rather than too little,
// since a commit that changes none of it is never tested.
func inputPaths(d *folder, p project) []string {
	var out []string
	for _, name := range d.dirs {
		if !slices.Contains(skippedDirs(), strings.ToLower(name)) && !strings.HasPrefix(name, "build") && !strings.HasPrefix(name, "cmake-build") {
			out = append(out, name+"/")
		}
	}
	for _, name := range d.files {
		if !skippedFile().MatchString(name) && !slices.Contains(p.Outputs, name) && !isBinary(d, name) {
			out = append(out, name)
		}
	}
	return out
}

// skippedDirs are folders of documentation and of files that tools make, in lower case.
func skippedDirs() []string {
	return []string{"doc", "docs", "documentation", "images", "img", "figures", "out", "obj", "dist", "target", "node_modules", "__pycache__", "venv", "env"}
}

// skippedFile matches documentation, pictures and what compilers make.
var skippedFile = lazy.Pattern(`(?i)^(kbisect\.toml|(readme|license|licence|copying|notice|authors|changelog|contributing|codeowners|security|code_of_conduct)(\..*)?|.*\.(md|rst|adoc|ipynb|pdf|png|jpe?g|gif|svg|o|a|so|pyc|log|exe))$`)

// isBinary reports whether a file is a linked program: made by the user's build and not committed.
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

// A folder reads the files of a project within bounds: run in the wrong directory, it must not read a whole disk.
// Names are relative to it, with slashes.
type folder struct {
	dir   string
	files []string // plain files at the top, sorted; none with a leading dot
	dirs  []string // folders at the top, likewise
}

// Bounds on what below visits: levels of folders, and files and folders altogether.
const (
	searchDepth = 3
	maxEntries  = 4000
)

// openFolder lists the top of dir.
func openFolder(dir string) (*folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	d := &folder{dir: dir}
	for _, e := range entries {
		switch {
		case !utf8.ValidString(e.Name()) || strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			d.dirs = append(d.dirs, e.Name())
		case d.isPlain(e.Name()):
			d.files = append(d.files, e.Name())
		}
	}
	return d, nil
}

// isPlain reports whether name is a plain file, or a link to one. Opening a pipe would wait forever.
func (d *folder) isPlain(name string) bool {
	info, err := os.Stat(filepath.Join(d.dir, name))
	return err == nil && info.Mode().IsRegular()
}

// has reports whether a file at the top has this name.
func (d *folder) has(name string) bool { return slices.Contains(d.files, name) }

// first returns the first of the names that exists at the top, or "".
func (d *folder) first(names ...string) string {
	for _, n := range names {
		if d.has(n) {
			return n
		}
	}
	return ""
}

// read returns at most the first MiB of a file; nil if it cannot be read.
func (d *folder) read(name string) []byte {
	f, err := os.Open(filepath.Join(d.dir, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return data
}

// below visits the files of the project down to a depth, as paths from its top. Hidden folders are left out, and so is
// whatever comes after maxEntries of them.
func (d *folder) below(depth int, visit func(file string)) {
	seen := 0
	_ = filepath.WalkDir(d.dir, func(name string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(d.dir, name)
		if seen++; err != nil || relErr != nil || seen > maxEntries {
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel = filepath.ToSlash(rel)
		switch {
		case !e.IsDir():
			visit(rel)
		case rel != "." && (strings.HasPrefix(e.Name(), ".") || strings.Count(rel, "/") >= depth):
			return fs.SkipDir
		}
		return nil
	})
}
