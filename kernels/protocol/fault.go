package protocol

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/kbisect/kbisect/kernels/lazy"
)

// Fault is a message of a driver or a runtime that blames the machine. It proves nothing,
// because the candidate may have printed or caused it. It calls for a check of the machine
// with a known-good program.
type Fault struct {
	Kind FaultKind
	Text string // the line
}

// FaultKind is what is wrong with the machine, as far as it matters for what is done about it.
type FaultKind string

// The kinds of fault.
const (
	NoDevice      FaultKind = "no-device"     // none, or none visible
	DeviceTrouble FaultKind = "device"        // it is lost, busy or failing, or its driver is not in order
	DeviceMemory  FaultKind = "device-memory" // none left for a context; blames the machine only if another process uses the device
	Passing       FaultKind = "passing"       // a full disk, or no memory, process or file left: it may be over before anybody can look
)

// faultTexts recognises faults. A line must contain all texts of an entry, in any case;
// near, if set, must match that line or one of the nearLines before it. Sources:
// cudaGetErrorString and cudaGetErrorName of the CUDA runtime (driver_types.h, error codes
// in the comments); PyTorch's torch/csrc/cuda/Module.cpp, torch/cuda/__init__.py,
// c10/cuda/CUDAFunctions.cpp and c10/cuda/CUDACachingAllocator.cpp; NVML's nvmlErrorString.
var faultTexts = []struct {
	kind FaultKind
	all  []string
	near func() *regexp.Regexp
}{
	{NoDevice, []string{"no cuda-capable device is detected"}, nil}, // 100
	{NoDevice, []string{"cudaerrornodevice"}, nil},
	{NoDevice, []string{"cuda_error_no_device"}, nil},
	{NoDevice, []string{"no cuda gpus are available"}, nil},       // torch._C._cuda_init
	{NoDevice, []string{"no devices were found"}, nil},            // nvidia-smi
	{NoDevice, []string{"0 active drivers", "there should"}, nil}, // Triton: "0 active drivers ([]). There should only be one."

	// Driver and runtime do not match, or the driver does not answer.
	{DeviceTrouble, []string{"cuda driver version is insufficient for cuda runtime version"}, nil}, // 35
	{DeviceTrouble, []string{"cudaerrorinsufficientdriver"}, nil},
	{DeviceTrouble, []string{"forward compatibility was attempted on non supported hw"}, nil}, // 804
	{DeviceTrouble, []string{"cudaerrorcompatnotsupportedondevice"}, nil},
	{DeviceTrouble, []string{"cuda_error_compat_not_supported_on_device"}, nil},
	{DeviceTrouble, []string{"system has unsupported display driver / cuda driver combination"}, nil}, // 803
	{DeviceTrouble, []string{"cudaerrorsystemdrivermismatch"}, nil},
	{DeviceTrouble, []string{"cuda_error_system_driver_mismatch"}, nil},
	{DeviceTrouble, []string{"the nvidia driver on your system is too old"}, nil},      // torch.cuda._check_driver
	{DeviceTrouble, []string{"found no nvidia driver on your system"}, nil},            // the same
	{DeviceTrouble, []string{"failed to initialize nvml"}, nil},                        // nvidia-smi, whatever follows
	{DeviceTrouble, []string{"can't initialize nvml"}, nil},                            // torch.cuda, a warning
	{DeviceTrouble, []string{"driver/library version mismatch"}, nil},                  // NVML 18
	{DeviceTrouble, []string{"couldn't communicate with the nvidia driver"}, nil},      // nvidia-smi
	{DeviceTrouble, []string{"libcuda.so.1: cannot open shared object file"}, nil},     // dynamic linker
	{DeviceTrouble, []string{"mps client failed to connect"}, nil},                     // 805
	{DeviceTrouble, []string{"mps server is not ready to accept new mps client"}, nil}, // 807
	{DeviceTrouble, []string{"remote procedural call between the mps server"}, nil},    // 806

	// Another process holds the device exclusively.
	{DeviceTrouble, []string{"cuda-capable device", "busy or unavailable"}, nil}, // 46
	{DeviceTrouble, []string{"cudaerrordevicesunavailable"}, nil},
	{DeviceTrouble, []string{"cuda_error_device_unavailable"}, nil},

	// A service such as the fabric manager has not started.
	{DeviceTrouble, []string{"system not yet initialized"}, nil}, // 802
	{DeviceTrouble, []string{"cudaerrorsystemnotready"}, nil},
	{DeviceTrouble, []string{"cuda_error_system_not_ready"}, nil},

	// The device was there before.
	{DeviceTrouble, []string{"gpu is lost"}, nil},                                   // NVML 15
	{DeviceTrouble, []string{"fallen off the bus"}, nil},                            // kernel log, Xid 79; nvidia-smi
	{DeviceTrouble, []string{"unable to determine the device handle for gpu"}, nil}, // nvidia-smi
	{DeviceTrouble, []string{"gpu requires reset"}, nil},                            // NVML 16
	{DeviceTrouble, []string{"gpu requires restart"}, nil},

	// Errors of memory or links.
	{DeviceTrouble, []string{"uncorrectable ecc error encountered"}, nil}, // 214
	{DeviceTrouble, []string{"cudaerroreccuncorrectable"}, nil},
	{DeviceTrouble, []string{"cuda_error_ecc_uncorrectable"}, nil},
	{DeviceTrouble, []string{"uncorrectable nvlink error"}, nil}, // 220
	{DeviceTrouble, []string{"cudaerrornvlinkuncorrectable"}, nil},

	// PyTorch's allocator says "CUDA out of memory. Tried to allocate": that is the candidate's
	// fault unless it names another process. "CUDA error: out of memory" comes from a runtime
	// call, mostly the first one, which creates the context.
	{DeviceMemory, []string{"cuda error: out of memory"}, nil},
	{DeviceMemory, []string{"cudaerrormemoryallocation"}, nil}, // 2
	{DeviceMemory, []string{"cuda_error_out_of_memory"}, nil},
	{DeviceMemory, []string{"cuda out of memory"}, foreign},

	{Passing, []string{"no space left on device"}, nil}, // ENOSPC
	{Passing, []string{"disk quota exceeded"}, nil},     // EDQUOT

	{Passing, []string{"fork", "cannot allocate memory"}, nil},               // shells, make, gcc's vfork
	{Passing, []string{"fork", "resource temporarily unavailable"}, nil},     // no process left
	{Passing, []string{"[errno 12] cannot allocate memory"}, fork},           // Python's subprocess and os.fork()
	{Passing, []string{"[errno 11] resource temporarily unavailable"}, fork}, // the same

	{Passing, []string{"too many open files in system"}, nil}, // ENFILE; without "in system" it is EMFILE, the program's own
}

// nearLines is how many lines before a fault near may match: enough for the Python frame that raised it.
const nearLines = 4

var (
	// foreign is how PyTorch reports other processes on the device. In a container, where it
	// does not know its own PID on the host, it reports itself in the same way.
	foreign = lazy.Pattern(`process \d+ has [0-9.]+ ([kmgt]ib|bytes) memory in use`)
	fork    = lazy.Pattern(`\b_?(os\.)?fork(_exec)?\(`)
)

// FindFault returns the first message in a program's output that blames the machine.
func FindFault(output []byte) (Fault, bool) {
	var before []string
	for raw := range bytes.Lines(output) {
		line := strings.ToLower(string(raw[:min(len(raw), MaxLine)]))
		before = append(before, line)
		before = before[max(0, len(before)-nearLines-1):]
		for i := range faultTexts {
			if isFault(i, before) {
				return Fault{faultTexts[i].kind, Plain(string(raw[:min(len(raw), MaxLine)]), MaxWhere)}, true
			}
		}
	}
	return Fault{}, false
}

// isFault reports whether the last of some lines matches entry i of the table.
func isFault(i int, lines []string) bool {
	t, line := &faultTexts[i], lines[len(lines)-1]
	for _, w := range t.all {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return t.near == nil || t.near().MatchString(strings.Join(lines, ""))
}

// Missing is what a program asked for and this machine does not have, going by its output.
type Missing struct {
	Module bool   // of Python; else it is a program
	Name   string // "nvcc", "triton.language"
	Line   string // the line that says so
}

// programWord is a name that is looked up in PATH. One with a slash is a file of the project.
const programWord = `['"‘“]?([\w.+-]+)['"’”]?`

var (
	// noProgram matches how shells, make and programs that start others report one that is not in PATH.
	noProgram = lazy.Pattern(`(?m)^(?:` +
		`(?:.*: (?:line )?\d+: |\S*sh: )(?:exec: )?` + programWord + `: (?:command )?not found` +
		`|.*(?:command not found|Unknown command): ` + programWord +
		`|(?:\S*/)?(?:g?make(?:\[\d+\])?|env|timeout|nice|nohup|time|xargs|sudo): (?:\*\*\* |failed to run command |cannot run )?` + programWord + `: (?:[Cc]ommand not found|No such file or directory)` +
		`)\r?$`)
	// passedOn matches the last words of build tools about a command that was not found or that failed.
	passedOn = lazy.Pattern(`(?m)^.*\*\*\* .*Error 127\b|^ninja: build stopped`)
	// noTool matches what CMake, gcc, nvcc, Triton and PyTorch print that look for a tool by themselves, with its name
	// where they do not say it.
	noTool = []struct {
		text func() *regexp.Regexp
		name string
	}{
		{lazy.Pattern(`(?m)^.*No CMAKE_CUDA_COMPILER could be found.*$`), "nvcc"},
		{lazy.Pattern(`(?m)^.*No CMAKE_C_COMPILER could be found.*$`), "cc"},
		{lazy.Pattern(`(?m)^.*No CMAKE_CXX_COMPILER could be found.*$`), "c++"},
		{lazy.Pattern(`(?m)^.*unable to find a build program corresponding to "Unix Makefiles".*$`), "make"},
		{lazy.Pattern(`(?m)^.*unable to find a build program corresponding to "Ninja".*$`), "ninja"},
		{lazy.Pattern(`(?m)^.*: cannot execute ` + programWord + `: .*No such file or directory.*$`), ""},
		{lazy.Pattern(`(?m)^nvcc fatal +: .*(?:Cannot find compiler|Failed to preprocess host compiler).*$`), "g++"},
		{lazy.Pattern(`(?m)^.*Failed to find C compiler\. Please specify via CC environment variable.*$`), "gcc"},
		{lazy.Pattern(`(?m)^.*Ninja is required to load C\+\+ extensions.*$`), "ninja"},
	}
	// Python's words: the exceptions that end a traceback, and the last line of python -m.
	noModule  = lazy.Pattern(`\bNo module named '?([\w.]+)'?`)
	noStarted = lazy.Pattern(`^FileNotFoundError: \[Errno 2\] No such file or directory: '([\w.+-]+)'`)
	pythonM   = lazy.Pattern(`(?m)^\S*python[\d.]*: (?:No module named|Error while finding module) .*$`)
)

// FindMissing reads from the output of a program that failed with an exit code what was missing. A name that is only
// mentioned on the way does not count, as when a script tries several compilers.
func FindMissing(exit int, output []byte) (m Missing, ok bool) {
	found := func(module bool, line []byte, name ...[]byte) (Missing, bool) {
		return Missing{module, string(bytes.Join(name, nil)), Plain(string(line), MaxWhy)}, true
	}
	for _, c := range noTool {
		if x := c.text().FindSubmatch(output); x != nil {
			return found(false, x[0], append(x[1:], []byte(c.name))...)
		}
	}
	line := PythonErrorLine(output)
	if line == nil {
		line = pythonM().Find(output)
	}
	if x := noModule().FindSubmatch(line); x != nil {
		return found(true, line, x[1])
	}
	if x := noStarted().FindSubmatch(line); x != nil && bytes.Contains(output, []byte("in _execute_child")) {
		return found(false, line, x[1])
	}
	all := noProgram().FindAllSubmatch(output, -1)
	if len(all) == 0 {
		return m, false
	}
	last := all[len(all)-1]
	if exit == 127 || passedOn().Match(output) || bytes.HasSuffix(bytes.TrimSpace(output), bytes.TrimSpace(last[0])) {
		return found(false, last[0], last[1:]...)
	}
	return m, false
}
