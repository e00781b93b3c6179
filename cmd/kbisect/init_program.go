package main

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// topOf is the top of the repository that holds dir, where a configuration is looked for; dir where there
// is none.
func topOf(dir string) string {
	repo, err := source.Open(dir)
	if err != nil {
		return dir
	}
	defer repo.Close()
	if repo.WorkDir() == "" {
		return dir
	}
	return repo.WorkDir()
}

// programOf is the project of one file: a CUDA program that one nvcc command builds, or a script. What its
// comments say of compiling and running is taken over, and a time that it prints is its metric.
func programOf(top, file string) (project, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return project{}, err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	realTop, err := filepath.EvalSymlinks(top)
	if err != nil {
		return project{}, fmt.Errorf("init %s: %w", file, err)
	}
	rel, err := filepath.Rel(realTop, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return project{}, fmt.Errorf("init %s: it is not below %s", file, top)
	}
	rel = filepath.ToSlash(rel)
	d := &detector{dir: top}
	if !d.isPlain(rel) {
		return project{}, fmt.Errorf("init %s: there is no such file", file)
	}
	switch path.Ext(rel) {
	case ".cu":
		return d.cuProgram(rel), nil
	case ".py":
		return project{kind: kindCommand, what: rel, run: []string{"python3", rel}}, nil
	}
	return project{}, fmt.Errorf("init %s: neither a .cu nor a .py file\nhint: kbisect init without a file looks at the whole project", file)
}

// cuProgram is what one .cu file builds.
func (d *detector) cuProgram(rel string) project {
	text := d.read(rel)
	folder := path.Dir(rel)
	p := project{kind: kindNvcc, what: rel, sources: []string{rel}}
	name := strings.TrimSuffix(path.Base(rel), ".cu")
	p.paths = []string{rel}
	includes := []string{folder}
	words := commentLine(text, regexp.MustCompile(`(?m)^[ \t/*#>$]*nvcc[ \t]+(.*\b`+regexp.QuoteMeta(path.Base(rel))+`\b.*)$`))
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "-o" && i+1 < len(words):
			i++
			name = path.Base(words[i])
		case slices.Contains([]string{"-arch", "-gencode", "--gpu-architecture", "--generate-code"}, w):
			i++ // the device's
		case strings.HasPrefix(w, "-arch=") || strings.HasPrefix(w, "-gencode=") || strings.HasPrefix(w, "--g"):
		case strings.HasPrefix(w, "-I") && len(w) > 2 && !path.IsAbs(w[2:]):
			includes = append(includes, path.Join(folder, w[2:]))
			p.options = append(p.options, "-I"+path.Join(folder, w[2:]))
		case !strings.HasPrefix(w, "-"):
			if other := path.Join(folder, w); other != rel && d.isPlain(other) {
				p.sources, p.paths = append(p.sources, other), append(p.paths, other)
			}
		default:
			p.options = append(p.options, w)
		}
	}
	for i := 0; i < len(p.paths) && len(p.paths) < mostIncluded; i++ { // what is included may include
		for _, h := range d.included(p.paths[i], includes) {
			if !slices.Contains(p.paths, h) {
				p.paths = append(p.paths, h)
			}
		}
	}
	p.outputs, p.run = []string{name}, []string{"./" + name}
	if args := commentLine(text, regexp.MustCompile(`(?m)^[ \t/*#>$]*\./`+regexp.QuoteMeta(name)+`[ \t]+([\w. \t=-]+)$`)); len(args) > 0 {
		p.run = append(p.run, args...)
	}
	p.pattern, p.unit = printedTime(text)
	return p
}

// mostIncluded bounds how many headers are followed.
const mostIncluded = 100

// commentLine is the first group of a match near the beginning, in words: of the shortest match, since
// others add what few have installed.
func commentLine(text []byte, re *regexp.Regexp) (words []string) {
	for _, m := range re.FindAllSubmatch(text[:min(len(text), 16<<10)], -1) {
		if w := strings.Fields(string(m[1])); words == nil || len(w) < len(words) {
			words = w
		}
	}
	return words
}

// included lists the project's own headers that a file includes.
func (d *detector) included(file string, folders []string) (out []string) {
	for _, m := range cuInclude().FindAllSubmatch(d.read(file), -1) {
		for _, folder := range append([]string{path.Dir(file)}, folders...) {
			if h := path.Join(folder, string(m[1])); filepath.IsLocal(h) && d.isPlain(h) {
				out = append(out, h)
				break
			}
		}
	}
	return out
}

// writeProgram writes the configuration of one file.
func writeProgram(dir, file string) (path, kind string, err error) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	top := topOf(dir)
	p, err := programOf(top, file)
	if err != nil {
		return "", "", err
	}
	return p.write(top)
}
