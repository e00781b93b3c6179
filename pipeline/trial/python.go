package trial

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// Probe is when the probe for Python goes with a trial: it names the import of the submission,
// the build of extensions, compilations and graph capture as phases.
type Probe string

// The settings. Without one, the probe goes with Python programs whose times are not compared.
const (
	ProbeOn  Probe = "on"
	ProbeOff Probe = "off"
)

// goesWith reports whether the probe goes with a launch of a command below dir. Unprobed is true of a Python
// program that the probe leaves alone because of its times.
func (x Probe) goesWith(r bisect.Request, dir string, argv []string) (probed, unprobed bool) {
	if x != "" {
		return x == ProbeOn, false
	}
	python := IsPython(dir, argv)
	return python && !r.Timing, python && r.Timing
}

// IsPython reports whether a command is Python, by its name or by its #! line.
func IsPython(dir string, argv []string) bool {
	if proc.PythonName(filepath.Base(argv[0])) {
		return true
	}
	path := argv[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	words, ok := strings.CutPrefix(line, "#!")
	return err == nil && ok && strings.Contains(words, "python")
}
