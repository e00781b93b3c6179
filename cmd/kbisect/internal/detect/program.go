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
	"github.com/kbisect/kbisect/kernels/lazy"
	"github.com/kbisect/kbisect/pipeline/source"
)

// topOf is the top of the repository that holds dir, where kbisect looks for a
// configuration; dir itself where there is none.
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

// programOf is the project of one file: a CUDA program that one nvcc command builds,
// or a script. It takes over compiler and run options from the file's comments, and
// a time that the program prints as the metric.
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
		return project{}, fmt.Errorf("init %s: the file is not inside %s", file, top)
	}
	rel = filepath.ToSlash(rel)
	d := &folder{dir: top}
	if st, err := os.Stat(abs); err == nil && st.IsDir() {
		return project{}, fmt.Errorf("init %s: this is a folder\nhint: name a .cu or .py file; without one kbisect init detects the whole project", file)
	}
	if !d.isPlain(rel) {
		return project{}, fmt.Errorf("init %s: no such file", file)
	}
	switch path.Ext(rel) {
	case ".cu":
		if p, isSubmission := submissionOf(d, rel); isSubmission {
			return p, nil
		}
		return cuProgram(d, rel), nil
	case ".py":
		p := pyProgram(d, rel)
		p.reports(d)
		return p, nil
	}
	return project{}, fmt.Errorf("init %s: expected a .cu or .py file\nhint: without a file kbisect init detects the whole project", file)
}

// pyProgram is a script, or a submission that a KernelBot problem or a reference
// beside it judges.
func pyProgram(d *folder, rel string) project {
	p, isSubmission := submissionOf(d, rel)
	if isSubmission && p.Task.Problem != "" {
		return p
	}
	reference := path.Join(path.Dir(rel), "reference.py")
	switch {
	case bytes.Contains(d.read(rel), []byte("custom_kernel")) && bytes.Contains(d.read(reference), []byte("generate_input")):
		return project{Kind: config.KindTorch, What: rel, Paths: []string{rel, reference}, Task: config.TaskConfig{Submission: rel, Reference: reference}}
	case isSubmission:
		return p
	case definesKernel(d, rel):
		if problems := findProblems(d); len(problems) > 0 {
			return unassigned(d, problems, rel)
		}
	}
	return project{Kind: config.KindCommand, What: rel, Run: []string{"python3", rel}}
}

// cuProgram is what one .cu file builds.
func cuProgram(d *folder, rel string) project {
	text := d.read(rel)
	p := project{Kind: config.KindNvcc, What: rel, Sources: []string{rel}}
	compiled := commentLine(text, regexp.MustCompile(`(?m)^[ \t/*#>$]*nvcc[ \t]+(.*\b`+regexp.QuoteMeta(path.Base(rel))+`\b.*)$`))
	name, folders := compiledBy(d, &p, compiled)
	followIncludes(d, &p, folders, len(compiled) == 0)
	p.Times = printedBy(d, p.Paths)
	p.Paths = folded(p.Paths)
	p.Outputs, p.Run = []string{name}, []string{"./" + name}
	args := commentLine(text, regexp.MustCompile(`(?m)^[ \t/*#>$]*\./`+regexp.QuoteMeta(name)+`[ \t]+([\w. \t=-]+)$`))
	if p.Run = append(p.Run, args...); len(args) == 0 && takesArguments().Match(text) {
		p.Notes = append(p.Notes, "The program reads arguments (argc): add those that it needs.")
	}
	if !cuMain().Match(text) {
		p.Notes = append(p.Notes, "FILL IN: there is no main function; name what runs this file, or the file that has one.")
	}
	return p
}

// printedBy lists the times that a program prints, or else those that the files it
// includes print.
func printedBy(d *folder, files []string) []timeLine {
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

// compiledBy takes over options and further sources from the words of a compiler's
// command line, without the architecture, which is the device's. It returns the name
// of the program and the folders of its headers.
func compiledBy(d *folder, p *project, words []string) (name string, folders []string) {
	rel := p.Sources[0]
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
			p.Options = append(p.Options, "-I"+path.Join(folder, w[2:]))
		case strings.HasPrefix(w, "-"):
			p.Options = append(p.Options, w)
		default:
			if other := path.Join(folder, w); other != rel && d.isPlain(other) {
				p.Sources = append(p.Sources, other)
			} else if slices.Contains([]string{"-Xcompiler", "-Xptxas", "-Xlinker", "-maxrregcount", "-D", "-l", "-L"}, words[max(i-1, 0)]) {
				p.Options = append(p.Options, w) // the argument of the option before
			}
		}
	}
	return name, folders
}

var takesArguments = lazy.Pattern(`\bargc\s*(<|>|==|!=)`)

// folded replaces files by their folders where there are many.
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

// commentLine is the first group of a match near the beginning, in words: of the
// shortest match, since longer ones add what few have installed.
func commentLine(text []byte, re *regexp.Regexp) (words []string) {
	for _, m := range re.FindAllSubmatch(text[:min(len(text), 16<<10)], -1) {
		if w := strings.Fields(string(m[1])); words == nil || len(w) < len(words) {
			words = w
		}
	}
	return words
}

// WriteTop writes the configuration of the project that holds dir, or of the
// KernelBot problem in dir itself.
func WriteTop(dir string, ask Ask) (path, kind string, err error) {
	top := topOf(dir)
	if source.SameFolder(top, dir) {
		return writeProject(top)
	}
	if d := (&folder{dir: dir}); d.isPlain("task.yml") && besideProblem(d, ".") != "" {
		return WriteProgram(dir, besideProblem(d, "."), ask)
	}
	return writeProject(top)
}

// WriteCommand writes the configuration of a command that the user gave, built by a line of the shell; "": not at all.
func WriteCommand(dir, build string, command []string) (path, kind string, err error) {
	top := topOf(dir)
	d, err := openFolder(top)
	if err != nil {
		return "", "", err
	}
	p := project{Kind: config.KindCommand, What: "the command that was given", Run: command}
	if build != "" {
		p.Build = []string{"sh", "-c", build}
	}
	if p.Paths = inputPaths(d, p); len(command) > 0 { // what the command makes is no input
		p.Paths = slices.DeleteFunc(p.Paths, func(name string) bool { return build != "" && "./"+name == command[0] })
	}
	p.reports(d)
	return p.write(top)
}

// AddMetric adds a metric to a configuration that has none: the likeliest time or rate in the output of its program.
// It returns the line that it is read from, and reports whether there is one.
func AddMetric(path, output string) (line string, ok bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false, err
	}
	cfg, err := config.Parse(path, text)
	if err != nil || len(cfg.Metrics) > 0 {
		return "", false, err
	}
	all := slices.DeleteFunc(timesIn(output), func(l timeLine) bool { return l.rank == 0 || l.unit != "" })
	if len(all) == 0 {
		return "", false, nil
	}
	more := fmt.Appendf(text, "\n[metric]   # a line that the program prints; groups other than value and unit name a case\nname    = %s\nfrom    = \"regex\"\npattern = %s\n", tomlString(all[0].Name), all[0].Quoted())
	if _, err := config.Parse(path, more); err != nil {
		return "", false, err
	}
	return all[0].format, true, os.WriteFile(path, more, 0o644)
}

// WriteProgram writes the configuration of one file.
func WriteProgram(dir, file string, ask Ask) (path, kind string, err error) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	top := topOf(dir)
	p, err := programOf(top, file)
	if err == nil {
		err = p.decide(ask)
	}
	if err != nil {
		return "", "", err
	}
	return p.write(top)
}
