package detect

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
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
		if p, isSubmission := d.submission(rel); isSubmission {
			return p, nil
		}
		return d.cuProgram(rel), nil
	case ".py":
		return d.pyProgram(rel), nil
	}
	return project{}, fmt.Errorf("init %s: neither a .cu nor a .py file\nhint: kbisect init without a file looks at the whole project", file)
}

// pyProgram is a script, or a submission that a problem of KernelBot's or a reference beside it judges.
func (d *detector) pyProgram(rel string) project {
	p, isSubmission := d.submission(rel)
	if isSubmission && p.task.Problem != "" {
		return p
	}
	reference := path.Join(path.Dir(rel), "reference.py")
	switch {
	case bytes.Contains(d.read(rel), []byte("custom_kernel")) && bytes.Contains(d.read(reference), []byte("generate_input")):
		return project{kind: config.KindTorch, what: rel, paths: []string{rel, reference}, task: config.TaskConfig{Submission: rel, Reference: reference}}
	case isSubmission:
		return p
	case d.definesKernel(rel):
		if problems := d.problems(); len(problems) > 0 {
			return d.unnamed(problems, rel)
		}
	}
	return project{kind: config.KindCommand, what: rel, run: []string{"python3", rel}}
}

// cuProgram is what one .cu file builds.
func (d *detector) cuProgram(rel string) project {
	text := d.read(rel)
	p := project{kind: config.KindNvcc, what: rel, sources: []string{rel}}
	compiled := commentLine(text, regexp.MustCompile(`(?m)^[ \t/*#>$]*nvcc[ \t]+(.*\b`+regexp.QuoteMeta(path.Base(rel))+`\b.*)$`))
	name, folders := d.compiledBy(&p, compiled)
	d.follow(&p, folders, len(compiled) == 0)
	p.times = d.printedBy(p.paths)
	p.paths = folded(p.paths)
	p.outputs, p.run = []string{name}, []string{"./" + name}
	args := commentLine(text, regexp.MustCompile(`(?m)^[ \t/*#>$]*\./`+regexp.QuoteMeta(name)+`[ \t]+([\w. \t=-]+)$`))
	if p.run = append(p.run, args...); len(args) == 0 && takesArguments().Match(text) {
		p.notes = append(p.notes, "It reads arguments (argc): add those that it needs.")
	}
	if !cuMain().Match(text) {
		p.notes = append(p.notes, "FILL IN: it has no main function; name what runs it, or the file that has one.")
	}
	return p
}

// printedBy are the times that a program prints by itself, or else those that what it includes prints.
func (d *detector) printedBy(files []string) []timeLine {
	own := printedTimes(d.read(files[0]))
	if len(own) > 0 && own[0].rank > 0 {
		return own
	}
	var all []byte
	for _, file := range files {
		all = append(append(all, d.read(file)...), '\n')
	}
	return printedTimes(all)
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

// WriteTop writes the configuration of the project that holds dir: of the problem of KernelBot's that lies in
// dir itself, where one does.
func WriteTop(dir string) (path, kind string, err error) {
	top := topOf(dir)
	if source.SameFolder(top, dir) {
		return Write(top)
	}
	if d := (&detector{dir: dir}); d.isPlain("task.yml") && d.beside(".") != "" {
		return WriteProgram(dir, d.beside("."))
	}
	return Write(top)
}

// WriteProgram writes the configuration of one file.
func WriteProgram(dir, file string) (path, kind string, err error) {
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
