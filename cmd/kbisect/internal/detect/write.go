package detect

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"unicode"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// config is the commented kbisect.toml of a project. It is parsed before it is returned: a name that TOML cannot
// hold must not end up in a file that kbisect then refuses.
func (p project) config() ([]byte, error) {
	text := p.render()
	if p.Kind == kernels.KindKernelbot && p.Task.Problem == "" {
		p.Task.Problem = "." // as the user will fill it in
	}
	if _, err := config.Parse(config.FileName, p.render()); err != nil {
		return nil, fmt.Errorf("write configuration for %s: %w", p.What, err)
	}
	return text, nil
}

// writeProject writes a commented kbisect.toml for the kind of project in dir. It never overwrites a file: the
// error then wraps fs.ErrExist.
func writeProject(dir string) (path, kind string, err error) {
	p, err := detectProject(dir)
	if err != nil {
		return "", "", err
	}
	return p.write(dir)
}

// write writes the configuration of a project into dir.
func (p project) write(dir string) (path, kind string, err error) {
	path = filepath.Join(dir, config.FileName)
	text, err := p.config()
	if err != nil {
		return "", "", err
	}
	err = writeNew(path, text)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s was not changed: %w\nhint: edit it, or move it away and run kbisect init again", path, fs.ErrExist)
	}
	return path, p.Kind, err
}

// removeStub removes a configuration that init wrote when it found nothing to run, unless somebody has changed it
// since.
func removeStub(dir string) error {
	path := filepath.Join(dir, config.FileName)
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte("FILL IN: nothing to run was found")) {
		return nil
	}
	found, err := detectProject(dir)
	if err != nil {
		return err
	}
	if stub, err := found.config(); err != nil || !bytes.Equal(text, stub) {
		return err
	}
	return os.Remove(path)
}

// topOf is the top of the work tree that holds dir, where kbisect looks for its configuration; dir itself if there
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

// WriteTop writes the configuration of the project that holds dir, or of the KernelBot problem in dir itself, and
// returns the file's path and the kind of project. It never overwrites a file: the error then wraps fs.ErrExist.
func WriteTop(dir string) (path, kind string, err error) {
	top := topOf(dir)
	if d := (&folder{dir: top}); !source.SameFolder(top, dir) {
		if below, ok := within(top, dir); ok && d.isPlain(below+"/task.yml") && besideProblem(d, below) != "" {
			return problemProject(d, below, besideProblem(d, below)).write(top)
		}
	}
	return writeProject(top)
}

// within is the path of a folder from the top of its repository, with slashes; ok is false if it lies outside.
func within(top, dir string) (below string, ok bool) {
	real, err := filepath.EvalSymlinks(top)
	if err != nil {
		return "", false
	}
	if dir, err = filepath.Abs(dir); err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		below, err = filepath.Rel(real, dir)
	}
	return filepath.ToSlash(below), err == nil && filepath.IsLocal(below)
}

// WriteCommand writes the configuration of a command that the user gave. build is a line for the shell; "" builds
// nothing. It replaces a configuration only if that is an unchanged stub of init's; otherwise the error wraps
// fs.ErrExist.
func WriteCommand(dir, build string, command []string) (path, kind string, err error) {
	top := topOf(dir)
	d, err := openFolder(top)
	if err != nil {
		return "", "", err
	}
	p := project{Kind: kernels.KindCommand, What: "the command that was given", Run: command}
	if build != "" {
		p.Build = []string{"sh", "-c", build}
	}
	p.Paths = inputPaths(d, p)
	if build != "" && len(command) > 0 { // a program at the top that the build makes is not an input
		p.Paths = slices.DeleteFunc(p.Paths, func(name string) bool { return "./"+name == command[0] })
	}
	p.reports(d)
	if err := removeStub(top); err != nil {
		return "", "", err
	}
	return p.write(top)
}

// AddMetric adds a metric to a configuration that has none: the likeliest time or rate in the output of its
// program. It returns the line that it is read from; ok is false if there is none or the file has metrics already. It
// fails if the file cannot be read, parsed or written.
func AddMetric(path, output string) (line string, ok bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false, err
	}
	cfg, err := config.Parse(path, text)
	if err != nil || len(cfg.Metrics) > 0 {
		return "", false, err
	}
	all := slices.DeleteFunc(timesIn(output), func(l timeLine) bool { return l.rank == 0 })
	if len(all) == 0 {
		return "", false, nil
	}
	more := fmt.Appendf(text, "\n[metric]   # a line that the program prints; groups other than value and unit name a case\nname    = %s\nfrom    = \"regex\"\npattern = %s\n", tomlString(all[0].Name), all[0].Quoted())
	if _, err := config.Parse(path, more); err != nil {
		return "", false, err
	}
	return all[0].line, true, os.WriteFile(path, more, 0o644)
}

// fileText is the short file; kbisect help config has every key.
//
//go:embed kbisect.toml.tmpl
var fileText string

var fileTemplate = template.Must(template.New(config.FileName).Funcs(template.FuncMap{
	"text": tomlString,
	"list": tomlStrings,
}).Parse(fileText))

// render fills in the template.
func (p project) render() []byte {
	var b bytes.Buffer
	if err := fileTemplate.Execute(&b, p); err != nil {
		panic(err) // the template is part of the program
	}
	return b.Bytes()
}

// tomlString quotes s as a basic string.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case unicode.IsControl(c):
			fmt.Fprintf(&b, `\u%04X`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tomlStrings writes an array of strings as TOML.
func tomlStrings(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = tomlString(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
