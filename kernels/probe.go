package kernels

import (
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
)

// probeSource is a sitecustomize module, which Python imports at start-up. It sends `enter:`
// and `leave:` around the import of the submission, the build of extensions, compilation
// and graph capture, so that programs that do not know kbisect have phases too.
//
//go:embed probe/sitecustomize.py
var probeSource []byte

// hiddenSource is appended to each of these modules: it runs the sitecustomize module that ours hides.
//
//go:embed probe/hidden.py
var hiddenSource []byte

// earlySource is a sitecustomize module for a program that is started before its turn. It imports what earlier
// processes imported, and then waits for its turn before the program begins.
//
//go:embed early/sitecustomize.py
var earlySource []byte

// The variables of an early start, each of which names a path. At its end, and before its first line if it can, a process
// writes the modules that it imported from outside the folder OutsideOf into the file LearnModules. A process that is
// started early imports those listed in EarlyModules, and then creates the file EarlyReady, with the processor time in
// seconds that it has used.
const (
	LearnModules = "KBISECT_LEARN_MODULES"
	EarlyModules = "KBISECT_EARLY_MODULES"
	EarlyReady   = "KBISECT_EARLY_READY"
	OutsideOf    = "KBISECT_OUTSIDE_OF"
)

// WriteEarly writes the module of an early start into a directory, which it creates if necessary. [ProbeEnv] puts it
// first.
func WriteEarly(dir string) error { return writeModule(dir, earlySource) }

// EarlyWord is what a process that was started early reads at its gate: the variables that differ from those that it
// was started with.
func EarlyWord(were, are []string) []byte {
	had := map[string]bool{}
	for _, v := range were {
		had[v] = true
	}
	var word []byte
	for _, v := range are {
		if !had[v] {
			word = append(append(word, v...), 0)
		}
	}
	return append(word, 0)
}

// ProbeModules is the environment variable that lists, separated by commas, the modules
// whose import is a phase of its own. The default is "submission".
const ProbeModules = "KBISECT_PROBE_MODULES"

// ProbePhases are the phases that the probe reports.
func ProbePhases() []string { return []string{"import", "extension", "compile"} }

// probeRecord is the variable in which the first process of a trial tells its children
// which file the descriptor is. It must not leak in from a kbisect that runs this one.
const probeRecord = "KBISECT_PROBE_FD"

// WriteProbe writes the Python probe into a directory, which it creates if necessary.
// Trials may share the directory, which must outlive them.
func WriteProbe(dir string) error { return writeModule(dir, probeSource) }

// writeModule writes what Python imports first, atomically: another trial may be reading it.
func writeModule(dir string, source []byte) error {
	source = slices.Concat(source, hiddenSource)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, "sitecustomize.py"), source, 0o644, renameio.WithTempDir(dir), renameio.WithStaticPermissions(0o644))
}

// ProbeEnv returns the environment of a trial with dir, where the probe is, first in
// PYTHONPATH. dir must be absolute and contain no colon.
func ProbeEnv(env []string, dir string) []string {
	out := make([]string, 0, len(env)+1)
	path := dir
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case probeRecord:
		case "PYTHONPATH":
			path = dir // the last of equal names counts
			if value != "" {
				path += string(os.PathListSeparator) + value
			}
		default:
			out = append(out, e)
		}
	}
	return append(out, "PYTHONPATH="+path)
}

// profilerSource is a sitecustomize module that runs torch.profiler from the import of
// torch to the end of the process.
//
//go:embed profile/sitecustomize.py
var profilerSource []byte

// profileDir is the variable that names the folder for the traces, one file per process.
const profileDir = "KBISECT_PROFILE_DIR"

// WriteProfiler writes the Python profiler into a directory, which it creates if necessary.
func WriteProfiler(dir string) error { return writeModule(dir, profilerSource) }

// ProfilerEnv returns the environment of a trial with the profiler in dir first in
// PYTHONPATH. Traces go to the folder traces; recompilations are logged to standard error,
// see cuda.Recompile.
func ProfilerEnv(env []string, dir, traces string) []string {
	env = ProbeEnv(env, dir)
	logs := "recompiles"
	for _, v := range slices.Backward(env) {
		if own, ok := strings.CutPrefix(v, "TORCH_LOGS="); ok && own != "" {
			logs = own + "," + logs
			break
		}
	}
	// With NVML, looking for a device does not initialise CUDA, so the program can still fork.
	return append(env, profileDir+"="+traces, "TORCH_LOGS="+logs, "PYTORCH_NVML_BASED_CUDA_CHECK=1")
}
