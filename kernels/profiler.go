package kernels

import (
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
