package pipeline

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// Probe says when the probe for Python goes with a trial: it names the import of the submission,
// the build of extensions, compilations and graph capture as phases.
type Probe string

// The settings. Without one, the probe goes with Python programs whose times are not compared.
const (
	ProbeOn  Probe = "on"
	ProbeOff Probe = "off"
)

// probes reports whether the probe goes with a trial.
func (s *slot) probes(r bisect.Request, argv []string) bool {
	switch s.Probe {
	case ProbeOn:
		return true
	case ProbeOff:
		return false
	}
	return !r.Timing && isPython(s.dir, argv)
}

// unprobed reports that the probe stays away from a trial of Python because of its times.
func (s *slot) unprobed(r bisect.Request, argv []string) bool {
	return s.Probe == "" && r.Timing && isPython(s.dir, argv)
}

// isPython reports whether a command is Python, by its name or by its #! line.
func isPython(dir string, argv []string) bool {
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
