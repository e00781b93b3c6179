package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const other = "import os\nopen(os.environ['LOG'], 'a').write('imported\\n')\nVERSION = VALUE = LIMIT = 2\n"

// outside are packages that are not of the repository. What one finds at its import depends on variables and on other modules.
var outside = map[string]string{
	"outside/__init__.py": `import os
with open(os.environ["LOG"], "a") as f:
    f.write("imported\n")
LIMIT = os.environ.get("LIMIT")
os.environ["OUTSIDE"] = "set"
try:
    from local_settings import VALUE
except ImportError:
    VALUE = None
from outside import part
VERSION = 1
def later():
    os.environ["LATER"] = "1"
    from outside import extra
    return extra.EXTRA
`,
	"outside/part.py":           "import colorsys\n",
	"outside/extra.py":          "EXTRA = 1\n",
	"newer/outside/__init__.py": other,
	"empty/readme":              "",
}

// A program cannot tell whether its modules were imported before it began. Where their import would end otherwise by now,
// it begins again without them.
func TestEarlyImportsDoNotShow(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	for name, c := range map[string]struct {
		program string
		anew    bool
		beside  string // a file beside the program
		args    []string
	}{
		"import":              {program: `import outside; print(outside.VERSION, outside.LIMIT, outside.part)`},
		"nothing":             {program: `print(1)`},
		"nothing is there":    {program: `print([n for n in ("outside", "outside.part", "colorsys", "json") if n in sys.modules], os.environ.get("OUTSIDE"))`},
		"all of it comes":     {program: `import outside; print([n in sys.modules for n in ("outside.part", "colorsys")], os.environ["OUTSIDE"])`},
		"a part first":        {program: `from outside.part import colorsys; print(sys.modules["outside"].part)`},
		"of another import":   {program: `import outside; print(hasattr(outside, "extra"), "outside.extra" in sys.modules)`},
		"from":                {program: `from outside import extra; import outside; print(extra.EXTRA, outside.extra is extra)`},
		"specification":       {program: `import importlib.util, outside; print(outside.__spec__.origin, type(outside.__loader__), importlib.util.find_spec("outside").origin)`},
		"found, not imported": {program: `import importlib.util; print(importlib.util.find_spec("outside").origin, importlib.util.find_spec("nowhere")); import outside`},
		"again":               {program: `import importlib, outside; print(importlib.reload(outside).VERSION); del sys.modules["outside"]; import outside; print(outside.VERSION)`},
		"the variable it had": {program: `os.environ["LIMIT"] = "1"; del os.environ["LIMIT"]; import outside; print(outside.LIMIT)`},
		"a variable":          {program: `print("once"); os.environ["LIMIT"] = "1"; import outside; print(outside.LIMIT, sorted(os.environ))`, anew: true},
		"a variable less":     {program: `del os.environ["HOME"]; import outside.extra; print(sorted(os.environ))`, anew: true},
		"in another folder":   {program: `os.environ["LIMIT"] = os.getcwd(); os.chdir("/"); import outside; print(outside.LIMIT)`, anew: true},
		"a path in front":     {program: `sys.path.insert(0, os.environ["LIB"] + "/newer"); import outside; print(outside.VERSION)`, anew: true},
		"paths in exchange":   {program: `sys.path[:] = [os.environ["LIB"] + "/newer"] + [p for p in sys.path if p != os.environ["LIB"]]; import outside; print(outside.VERSION)`, anew: true},
		"a path of no matter": {program: `sys.path.insert(0, os.environ["LIB"] + "/empty"); sys.path.append("/nowhere"); import outside; print(outside.VERSION)`},
		"a module missed":     {program: `import outside; print(outside.VALUE)`, beside: "local_settings.py", anew: true},
		"a module in front":   {program: `import outside; print(outside.VALUE)`, beside: "outside.py", anew: true},
		"in a function": {program: `def main(): os.environ["LIMIT"] = "1"; import importlib; print(importlib.import_module("outside").LIMIT)
main()`, anew: true},
		"a library's function": {program: `import outside; print(outside.later(), os.environ["LATER"])`},
		"arguments":            {program: `os.environ["LIMIT"] = "1"; import outside; print(sys.argv, sys.flags.optimize, sys.flags.utf8_mode)`, args: []string{"-O", "-X", "utf8", "main.py", "a b", ""}, anew: true},
		"as a module":          {program: `import outside; print(sys.argv, __name__, outside.VERSION)`, args: []string{"-m", "main", "-x"}},
		"as text":              {program: ``, args: []string{"-c", "import os; os.environ['LIMIT'] = '2'; import outside; print(outside.LIMIT)"}, anew: true},
		"in a child": {program: `
pid = os.fork()
if pid == 0:
    os.environ["LIMIT"] = "1"
    import outside
    print(outside.VERSION, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
import outside
print(outside.LIMIT)`},
		"in threads": {program: `
import threading
def get(name):
    for n in name:
        __import__(n)
        assert sys.modules[n]
all = [threading.Thread(target=get, args=[n]) for n in (["outside", "colorsys"], ["colorsys"], ["outside.extra"], ["outside.part", "outside"])]
for x in all: x.start()
for x in all: x.join()
import outside
print(outside.extra.EXTRA, outside.part.colorsys is sys.modules["colorsys"])`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := earlyCase{t, t.TempDir(), c.args}
			files := maps.Clone(outside)
			files["work/main.py"] = "import os, sys\n" + c.program + "\n"
			if c.beside != "" {
				files["work/"+c.beside] = other
			}
			for name, text := range files {
				if err := errors.Join(os.MkdirAll(filepath.Dir(e.at(name)), 0o777), os.WriteFile(e.at(name), []byte(text), 0o666)); err != nil {
					t.Fatal(err)
				}
			}
			plain, times := e.run(false)
			early, all := e.run(true)
			if d := cmp.Diff(plain, early); d != "" || strings.Contains(plain, "Error") {
				t.Errorf("it shows: %s\n%s", d, plain)
			}
			if anew := all == times+1 && times > 0; anew != c.anew {
				t.Errorf("it has begun anew: %v; imported %d times, else %d", anew, all, times)
			}
		})
	}
}

// earlyCase is a program below a folder.
type earlyCase struct {
	*testing.T
	dir  string
	args []string
}

func (e earlyCase) at(name string) string { return filepath.Join(e.dir, name) }

// run runs the program, and returns what it printed and how often the package was imported. Early, its process has imported
// the package before it may begin.
func (e earlyCase) run(early bool) (output string, imports int) {
	were := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.dir, "LOG=" + e.at("log"), "LIB=" + e.dir, "PYTHONPATH=" + e.dir, "PYTHONDONTWRITEBYTECODE=1"}
	are := append(slices.Clone(were), "TURN=1")
	cmd := exec.CommandContext(e.Context(), "python3", e.args...)
	if e.args == nil {
		cmd.Args = append(cmd.Args, "main.py")
	}
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = e.at("work"), are, &out, &out
	gate, word, err := os.Pipe()
	if err != nil {
		e.Fatal(err)
	}
	defer gate.Close()
	if early {
		const names = "outside\noutside.part\ncolorsys\noutside.extra\nno.such.module\n"
		if err := errors.Join(WriteEarly(e.at("early")), os.WriteFile(e.at("modules"), []byte(names), 0o666)); err != nil {
			e.Fatal(err)
		}
		cmd.Env = append(ProbeEnv(were, e.at("early")), EarlyModules+"="+e.at("modules"), EarlyReady+"="+e.at("ready"), "KBISECT_GATE=3")
		cmd.ExtraFiles = []*os.File{gate}
	}
	if err := cmd.Start(); err != nil {
		e.Fatal(err)
	}
	for early && e.Context().Err() == nil {
		if _, err := os.Stat(e.at("ready")); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := word.Write(EarlyWord(were, are)); err != nil {
		e.Fatal(err)
	}
	word.Close()
	if err := cmd.Wait(); err != nil {
		fmt.Fprintln(&out, "Error:", err)
	}
	log, err := os.ReadFile(e.at("log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.Fatal(err)
	}
	_ = os.Remove(e.at("log"))
	return out.String(), strings.Count(string(log), "\n")
}
