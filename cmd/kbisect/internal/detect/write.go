package detect

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"unicode"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
)

// config is the commented kbisect.toml of a project.
func (p project) config() ([]byte, error) {
	text := p.render()
	if p.Kind == config.KindKernelbot && p.Task.Problem == "" {
		p.Task.Problem = "." // as the user will fill it in
	}
	if _, err := config.Parse(config.FileName, p.render()); err != nil { // a file name that TOML cannot hold
		return nil, fmt.Errorf("write configuration for %s: %w", p.What, err)
	}
	return text, nil
}

// writeProject writes a commented kbisect.toml for the kind of project in dir. It
// never overwrites a file: the error then wraps fs.ErrExist.
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
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return "", "", fmt.Errorf("%s was not changed: %w\nhint: edit it, or move it away and run kbisect init again", path, fs.ErrExist)
	}
	if err != nil {
		return "", "", fmt.Errorf("write configuration: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // half a configuration is worse than none
		return "", "", fmt.Errorf("write configuration %s: %w", path, err)
	}
	return path, p.Kind, nil
}

// fileText is the short file; kbisect help config has every key.
//
//go:embed kbisect.toml.tmpl
var fileText string

var fileTemplate = template.Must(template.New(config.FileName).Funcs(template.FuncMap{
	"text": tomlString,
	"list": tomlStrings,
}).Parse(fileText))

// render fills in the text of the file.
func (p project) render() []byte {
	const most = 2 // times that are named beside the metric
	file := struct {
		project
		Metric *timeLine // nil: no time that is printed is that of the work itself
		Others []timeLine
	}{project: p, Others: p.Times}
	if len(p.Times) > 0 && p.Times[0].rank > 0 {
		file.Metric, file.Others = &p.Times[0], p.Times[1:]
	}
	file.Others = file.Others[:min(most, len(file.Others))]
	var b bytes.Buffer
	if err := fileTemplate.Execute(&b, file); err != nil {
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
