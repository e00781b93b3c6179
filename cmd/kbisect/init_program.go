package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
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
	if st, err := os.Stat(abs); err == nil && st.IsDir() {
		return project{}, fmt.Errorf("init %s: it is a folder\nhint: name a .cu or .py file; kbisect init without one looks at the whole project", file)
	}
	if !d.isPlain(rel) {
		return project{}, fmt.Errorf("init %s: there is no such file", file)
	}
	switch path.Ext(rel) {
	case ".cu":
		return d.cuProgram(rel), nil
	case ".py":
		return d.pyProgram(rel), nil
	}
	return project{}, fmt.Errorf("init %s: neither a .cu nor a .py file\nhint: kbisect init without a file looks at the whole project", file)
}

// pyProgram is a script, or a submission that a problem of KernelBot's or a reference beside it judges.
func (d *detector) pyProgram(rel string) project {
	folder := path.Dir(rel)
	if bytes.Contains(d.read(rel), []byte("custom_kernel")) {
		if bytes.Contains(d.read(path.Join(folder, "task.yml")), []byte(kernels.SubmissionMark)) {
			p := d.problem(folder)
			p.task.Submission, p.paths = rel, []string{rel}
			p.judged = directiveNotes(kernels.ReadDirectives(d.read(rel)))
			return p
		}
		if reference := path.Join(folder, "reference.py"); bytes.Contains(d.read(reference), []byte("generate_input")) {
			return project{kind: kindTorch, what: rel, paths: []string{rel, reference}, task: TaskConfig{Submission: rel, Reference: reference}}
		}
	}
	return project{kind: kindCommand, what: rel, run: []string{"python3", rel}}
}

// cuProgram is what one .cu file builds.
func (d *detector) cuProgram(rel string) project {
	text := d.read(rel)
	p := project{kind: kindNvcc, what: rel, sources: []string{rel}}
	compiled := commentLine(text, regexp.MustCompile(`(?m)^[ \t/*#>$]*nvcc[ \t]+(.*\b`+regexp.QuoteMeta(path.Base(rel))+`\b.*)$`))
	name, folders := d.compiledBy(&p, compiled)
	d.follow(&p, folders, len(compiled) == 0)
	p.paths = folded(p.paths)
	p.outputs, p.run = []string{name}, []string{"./" + name}
	args := commentLine(text, regexp.MustCompile(`(?m)^[ \t/*#>$]*\./`+regexp.QuoteMeta(name)+`[ \t]+([\w. \t=-]+)$`))
	if p.run = append(p.run, args...); len(args) == 0 && takesArguments().Match(text) {
		p.notes = append(p.notes, "It reads arguments (argc): add those that it needs.")
	}
	if !cuMain().Match(text) {
		p.notes = append(p.notes, "FILL IN: it has no main function; name what runs it, or the file that has one.")
	}
	p.pattern, p.unit = printedTime(text)
	return p
}

// compiledBy takes over the words of a compiler's line but for the architecture, which is the device's:
// options and further sources. It returns the name of the program and where headers are looked for.
func (d *detector) compiledBy(p *project, words []string) (name string, folders []string) {
	rel := p.sources[0]
	folder := path.Dir(rel)
	name, folders = strings.TrimSuffix(path.Base(rel), ".cu"), []string{folder}
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case slices.Contains([]string{"&&", "||", "|", ";"}, w):
			return name, folders
		case w == "-o" && i+1 < len(words):
			i++
			name = path.Base(words[i])
		case slices.Contains([]string{"-arch", "-gencode", "--gpu-architecture", "--generate-code"}, w):
			i++
		case strings.HasPrefix(w, "-arch=") || strings.HasPrefix(w, "-gencode=") || strings.HasPrefix(w, "--g"):
		case strings.HasPrefix(w, "-I") && len(w) > 2 && !path.IsAbs(w[2:]):
			folders = append(folders, path.Join(folder, w[2:]))
			p.options = append(p.options, "-I"+path.Join(folder, w[2:]))
		case strings.HasPrefix(w, "-"):
			p.options = append(p.options, w)
		default:
			if other := path.Join(folder, w); other != rel && d.isPlain(other) {
				p.sources = append(p.sources, other)
			} else if slices.Contains([]string{"-Xcompiler", "-Xptxas", "-Xlinker", "-maxrregcount", "-D", "-l", "-L"}, words[max(i-1, 0)]) {
				p.options = append(p.options, w) // the option before it takes it
			}
		}
	}
	return name, folders
}

func takesArguments() *regexp.Regexp { return regexp.MustCompile(`\bargc\s*(<|>|==|!=)`) }

// libraries are what programs need that include these headers of the CUDA toolkit.
func libraries() map[string]string {
	return map[string]string{"cublas_v2.h": "-lcublas", "cublasLt.h": "-lcublasLt", "curand.h": "-lcurand", "cufft.h": "-lcufft",
		"cusparse.h": "-lcusparse", "cusolverDn.h": "-lcusolver"}
}

// follow goes from the sources of a program to all files of the project that they include. Where nothing
// says how it is compiled, the folders of those, sources beside headers and libraries are added.
func (d *detector) follow(p *project, folders []string, guess bool) {
	option := func(o string) {
		if guess && !slices.Contains(p.options, o) {
			p.options = append(p.options, o)
		}
	}
	p.paths = followIncludes(p.sources, d.read, func(from, name string) []string {
		if lib, ok := libraries()[name]; ok {
			option(lib)
			return nil
		}
		header := d.header(name, append([]string{path.Dir(from)}, folders...))
		if header == "" && guess {
			if header = d.anywhere(name); header != "" {
				folder := strings.TrimSuffix(strings.TrimSuffix(header, name), "/")
				option("-I" + folder)
				folders = append(folders, folder)
			}
		}
		if header == "" {
			return nil
		}
		source := strings.TrimSuffix(header, path.Ext(header)) + ".cu"
		if !guess || source == header || !d.isPlain(source) || cuMain().Match(d.read(source)) {
			return []string{header}
		}
		if !slices.Contains(p.sources, source) {
			p.sources = append(p.sources, source)
		}
		return []string{header, source}
	})
}

// folded names the folders instead where there are many files.
func folded(paths []string) (out []string) {
	const many = 8
	for _, file := range paths {
		if folder := path.Dir(file); len(paths) > many && folder != "." {
			file = strings.SplitN(folder, "/", 2)[0] + "/"
		}
		if !slices.Contains(out, file) {
			out = append(out, file)
		}
	}
	return out
}

// header finds an included file in folders, "" if it is not the project's.
func (d *detector) header(name string, folders []string) string {
	for _, folder := range folders {
		if h := path.Join(folder, name); filepath.IsLocal(h) && d.isPlain(h) {
			return h
		}
	}
	return ""
}

// anywhere finds the one file of the project whose path ends so, "" where there is none or more than one.
func (d *detector) anywhere(name string) string {
	found, seen := "", 0
	_ = filepath.WalkDir(d.dir, func(file string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(d.dir, file)
		if seen++; err != nil || relErr != nil || seen > problemEntries {
			return fs.SkipAll
		}
		if e.IsDir() && rel != "." && strings.HasPrefix(e.Name(), ".") {
			return fs.SkipDir
		}
		if rel = filepath.ToSlash(rel); e.Type().IsRegular() && strings.HasSuffix("/"+rel, "/"+name) {
			if found != "" {
				found = ""
				return fs.SkipAll
			}
			found = rel
		}
		return nil
	})
	return found
}

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

// writeTop writes the configuration of the project that holds dir: of the problem of KernelBot's that lies in
// dir itself, where one does.
func writeTop(dir string) (path, kind string, err error) {
	top := topOf(dir)
	if sameFolder(top, dir) {
		return writeConfig(top)
	}
	if d := (&detector{dir: dir}); d.isPlain("task.yml") && d.isPlain("submission.py") {
		return writeProgram(dir, "submission.py")
	}
	return writeConfig(top)
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
