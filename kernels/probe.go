package kernels

import (
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// probeSource is a module that Python imports by itself at its start. It sends `enter:` and
// `leave:` for the import of the submission, the build of extensions, compilations and the capture
// of graphs, for programs that know nothing of kbisect.
//
//go:embed probe/sitecustomize.py
var probeSource []byte

// ProbeModules is the environment variable that names the modules whose import is a stretch of its
// own, separated by commas; without it that is "submission".
const ProbeModules = "KBISECT_PROBE_MODULES"

// ProbePhases are the phases that only the probe names, where the program does not.
func ProbePhases() []string { return []string{"import", "extension", "compile"} }

// probeRecord is where the first process of a trial writes which file the descriptor is, for its
// children. What a kbisect around this one has written there would mislead them.
const probeRecord = "KBISECT_PROBE_FD"

// WriteProbe writes the probe for Python into a directory, which it makes if need be. Trials may
// share the directory, and it must outlive them.
func WriteProbe(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return writeOver(filepath.Join(dir, "sitecustomize.py"), probeSource, 0o644) // a trial of another kbisect may be reading it
}

// ProbeEnv returns the environment of a trial with the directory of the probe first on the path of
// Python. The directory has to be absolute and free of colons.
func ProbeEnv(env []string, dir string) []string {
	out := make([]string, 0, len(env)+1)
	path := dir
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case probeRecord:
		case "PYTHONPATH":
			path = dir // of equal names the last counts
			if value != "" {
				path += string(os.PathListSeparator) + value
			}
		default:
			out = append(out, e)
		}
	}
	return append(out, "PYTHONPATH="+path)
}

// profilerSource is a module that Python imports by itself at its start. It has torch.profiler watch the
// device from the import of torch to the end of the process.
//
//go:embed profile/sitecustomize.py
var profilerSource []byte

// profileDir names the folder that receives the traces, one file a process.
const profileDir = "KBISECT_PROFILE_DIR"

// WriteProfiler writes the profiler for Python into a directory, which it makes if need be.
func WriteProfiler(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return writeOver(filepath.Join(dir, "sitecustomize.py"), profilerSource, 0o644)
}

// ProfilerEnv returns the environment of a trial with the profiler in dir; traces go to the folder
// traces. Recompilations are written to standard error, see [Recompile].
func ProfilerEnv(env []string, dir, traces string) []string {
	env = ProbeEnv(env, dir)
	logs := "recompiles"
	for _, v := range slices.Backward(env) {
		if own, ok := strings.CutPrefix(v, "TORCH_LOGS="); ok && own != "" {
			logs = own + "," + logs
			break
		}
	}
	// Whether there is a device is asked without touching it, so that the program may still fork.
	return append(env, profileDir+"="+traces, "TORCH_LOGS="+logs, "PYTORCH_NVML_BASED_CUDA_CHECK=1")
}
