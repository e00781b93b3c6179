package doctor

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// pythonProgram is a script with the modules beside it.
type pythonProgram struct {
	python string            // as the configuration names it
	dir    string            // where it looks for modules first
	texts  map[string]string // of its files, by module or by path
}

// launched is the Python program that a launch runs: the script of the run command
// below top, or the files of a KernelBot problem. It is nil where a launch is not Python.
func launched(cfg *config.Config, top string) *pythonProgram {
	p := &pythonProgram{python: "python3", dir: os.TempDir(), texts: map[string]string{}}
	if cfg.Kind == config.KindKernelbot {
		project, err := cfg.Project("")
		if err != nil || project.Task.Lang != "py" {
			return nil
		}
		for _, f := range project.Task.Files {
			p.texts[strings.TrimSuffix(f.Name, ".py")] = f.Text
		}
		text, _ := os.ReadFile(filepath.Join(top, cfg.Task.Submission))
		p.texts[strings.TrimSuffix(project.Task.Submission(), ".py")] += "\n" + string(text)
		return p
	}
	at, script := kernels.Script(cfg.Run.Command)
	if at != 1 || filepath.Ext(script) != ".py" || !proc.PythonName(filepath.Base(cfg.Run.Command[0])) {
		return nil
	}
	p.python, p.dir = cfg.Run.Command[0], filepath.Dir(filepath.Join(top, script))
	p.follow(filepath.Join(top, script))
	return p
}

// follow reads a script and the modules beside it that it imports.
func (p *pythonProgram) follow(file string) {
	const most = 50
	text, err := os.ReadFile(file)
	if _, known := p.texts[file]; known || err != nil || len(p.texts) >= most {
		return
	}
	p.texts[file] = string(text)
	for _, name := range importedModules(text) {
		p.follow(filepath.Join(p.dir, name+".py"))
		p.follow(filepath.Join(p.dir, name, "__init__.py"))
	}
}

// importLine matches an import at the start of a line: one within a function or a
// try may never be reached.
var importLine = regexp.MustCompile(`(?m)^(?:import[ \t]+([\w., \t]+)|from[ \t]+(\w+)[\w.]*[ \t]+import\b)`)

// importedModules lists the modules that a file always imports.
func importedModules(text []byte) (out []string) {
	for _, m := range importLine.FindAllSubmatch(text, -1) {
		for name := range bytes.SplitSeq(append(bytes.Clone(m[1]), m[2]...), []byte(",")) {
			if words := strings.Fields(string(name)); len(words) > 0 {
				module, _, _ := strings.Cut(words[0], ".")
				out = append(out, module)
			}
		}
	}
	return out
}

// findModules prints those of its arguments that Python cannot find.
const findModules = `import importlib.util, sys
for name in sys.argv[1:]:
    if importlib.util.find_spec(name) is None:
        print("missing", name)`

// modules looks for the modules that the program imports.
func (p *pythonProgram) modules(ctx context.Context) Finding {
	wanted := map[string]string{} // module: the file that imports it
	for _, file := range slices.Sorted(maps.Keys(p.texts)) {
		for _, name := range importedModules([]byte(p.texts[file])) {
			if _, own := p.texts[name]; !own && wanted[name] == "" {
				wanted[name] = filepath.Base(strings.TrimSuffix(file, ".py")) + ".py"
			}
		}
	}
	python, err := exec.LookPath(p.python)
	if err != nil {
		return missing(p.python+" not found", "install it, or fix PATH")
	}
	names := slices.Sorted(maps.Keys(wanted))
	s := machine.RunTool(ctx, 30*time.Second, p.dir, append([]string{python, "-c", findModules}, names...)...)
	if s.Err != nil {
		return broken(s.Err.Error(), "")
	}
	var gone []string
	for line := range strings.Lines(s.Text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "missing "); ok {
			gone = append(gone, fmt.Sprintf("no module %s, imported by %s", name, wanted[name]))
		}
	}
	if len(gone) > 0 {
		return broken(strings.Join(gone, "\n"), "install it for "+python+": every launch would end with ModuleNotFoundError")
	}
	return passed("%s finds %s", python, wording.Counted(len(names), "imported module"))
}
