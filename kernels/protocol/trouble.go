package protocol

import (
	"bytes"
	"regexp"
	"strings"
)

// Fault is a word of a driver or a runtime that accuses the machine. It is no proof: the words may
// stand in what the candidate prints, or may be the candidate's own fault. It asks for a look at the
// machine with a program that is known to be good.
type Fault struct {
	Kind  FaultKind
	Words string // the line that says so
}

// FaultKind is what is wrong with the machine.
type FaultKind string

// The kinds of fault.
const (
	NoDevice     FaultKind = "no-device"     // there is none, or it cannot be seen
	DriverFault  FaultKind = "driver"        // driver and runtime do not fit, or the driver does not answer
	DeviceBusy   FaultKind = "busy"          // another process holds it exclusively
	NotReady     FaultKind = "not-ready"     // the system has not started, such as the fabric manager
	DeviceLost   FaultKind = "lost"          // it was there
	MemoryErrors FaultKind = "ecc"           // memory or links that cannot correct their errors
	DeviceMemory FaultKind = "device-memory" // none left for a context: accuses the machine only beside a foreign process
	DiskFull     FaultKind = "disk"
	HostMemory   FaultKind = "memory" // none left to start a process
	FilesFull    FaultKind = "files"  // the table of open files of the whole system
)

// texts names the faults. All words of an entry are on one line, in lower case here and in any case
// there; near, where it is set, matches that line or one of the few before it. The words of a runtime
// are those of cudaGetErrorString and cudaGetErrorName of the CUDA runtime (driver_types.h, error
// codes in the comments), those of PyTorch from torch/csrc/cuda/Module.cpp, torch/cuda/__init__.py,
// c10/cuda/CUDAFunctions.cpp and c10/cuda/CUDACachingAllocator.cpp, those of NVML from
// nvmlErrorString.
var texts = []struct {
	kind FaultKind
	all  []string
	near *regexp.Regexp
}{
	{NoDevice, []string{"no cuda-capable device is detected"}, nil}, // 100
	{NoDevice, []string{"cudaerrornodevice"}, nil},
	{NoDevice, []string{"cuda_error_no_device"}, nil},
	{NoDevice, []string{"no cuda gpus are available"}, nil},       // torch._C._cuda_init
	{NoDevice, []string{"no devices were found"}, nil},            // nvidia-smi
	{NoDevice, []string{"0 active drivers", "there should"}, nil}, // Triton: "0 active drivers ([]). There should only be one."

	{DriverFault, []string{"cuda driver version is insufficient for cuda runtime version"}, nil}, // 35
	{DriverFault, []string{"cudaerrorinsufficientdriver"}, nil},
	{DriverFault, []string{"forward compatibility was attempted on non supported hw"}, nil}, // 804
	{DriverFault, []string{"cudaerrorcompatnotsupportedondevice"}, nil},
	{DriverFault, []string{"cuda_error_compat_not_supported_on_device"}, nil},
	{DriverFault, []string{"system has unsupported display driver / cuda driver combination"}, nil}, // 803
	{DriverFault, []string{"cudaerrorsystemdrivermismatch"}, nil},
	{DriverFault, []string{"cuda_error_system_driver_mismatch"}, nil},
	{DriverFault, []string{"the nvidia driver on your system is too old"}, nil},      // torch.cuda._check_driver
	{DriverFault, []string{"found no nvidia driver on your system"}, nil},            // the same
	{DriverFault, []string{"failed to initialize nvml"}, nil},                        // nvidia-smi, whatever follows
	{DriverFault, []string{"can't initialize nvml"}, nil},                            // torch.cuda, a warning
	{DriverFault, []string{"driver/library version mismatch"}, nil},                  // NVML 18
	{DriverFault, []string{"couldn't communicate with the nvidia driver"}, nil},      // nvidia-smi
	{DriverFault, []string{"libcuda.so.1: cannot open shared object file"}, nil},     // dynamic linker
	{DriverFault, []string{"mps client failed to connect"}, nil},                     // 805
	{DriverFault, []string{"mps server is not ready to accept new mps client"}, nil}, // 807
	{DriverFault, []string{"remote procedural call between the mps server"}, nil},    // 806

	{DeviceBusy, []string{"cuda-capable device", "busy or unavailable"}, nil}, // 46
	{DeviceBusy, []string{"cudaerrordevicesunavailable"}, nil},
	{DeviceBusy, []string{"cuda_error_device_unavailable"}, nil},

	{NotReady, []string{"system not yet initialized"}, nil}, // 802
	{NotReady, []string{"cudaerrorsystemnotready"}, nil},
	{NotReady, []string{"cuda_error_system_not_ready"}, nil},

	{DeviceLost, []string{"gpu is lost"}, nil},                                   // NVML 15
	{DeviceLost, []string{"fallen off the bus"}, nil},                            // kernel log, Xid 79; nvidia-smi
	{DeviceLost, []string{"unable to determine the device handle for gpu"}, nil}, // nvidia-smi
	{DeviceLost, []string{"gpu requires reset"}, nil},                            // NVML 16
	{DeviceLost, []string{"gpu requires restart"}, nil},

	{MemoryErrors, []string{"uncorrectable ecc error encountered"}, nil}, // 214
	{MemoryErrors, []string{"cudaerroreccuncorrectable"}, nil},
	{MemoryErrors, []string{"cuda_error_ecc_uncorrectable"}, nil},
	{MemoryErrors, []string{"uncorrectable nvlink error"}, nil}, // 220
	{MemoryErrors, []string{"cudaerrornvlinkuncorrectable"}, nil},

	// PyTorch's allocator says "CUDA out of memory. Tried to allocate": that is the candidate's, unless
	// it names another process. "CUDA error: out of memory" comes from a call of the runtime, above all
	// the first one, which makes the context.
	{DeviceMemory, []string{"cuda error: out of memory"}, nil},
	{DeviceMemory, []string{"cudaerrormemoryallocation"}, nil}, // 2
	{DeviceMemory, []string{"cuda_error_out_of_memory"}, nil},
	{DeviceMemory, []string{"cuda out of memory"}, foreign},

	{DiskFull, []string{"no space left on device"}, nil}, // ENOSPC
	{DiskFull, []string{"disk quota exceeded"}, nil},     // EDQUOT

	{HostMemory, []string{"fork", "cannot allocate memory"}, nil},               // shells, make, gcc's vfork
	{HostMemory, []string{"fork", "resource temporarily unavailable"}, nil},     // no process left
	{HostMemory, []string{"[errno 12] cannot allocate memory"}, fork},           // Python's subprocess and os.fork()
	{HostMemory, []string{"[errno 11] resource temporarily unavailable"}, fork}, // the same

	{FilesFull, []string{"too many open files in system"}, nil}, // ENFILE; without "in system" it is EMFILE, the program's own
}

// nearLines is how far before a line the match of near may stand: the frame of Python that raised.
const nearLines = 4

var (
	// foreign is what PyTorch says of other processes on the device, and in a container, where it does
	// not know its own number there, of itself.
	foreign = regexp.MustCompile(`process \d+ has [0-9.]+ ([kmgt]ib|bytes) memory in use`)
	fork    = regexp.MustCompile(`\b_?(os\.)?fork(_exec)?\(`)
)

// Trouble looks for words that accuse the machine in the output of a program, and returns the first.
func Trouble(output []byte) (Fault, bool) {
	var before []string
	for raw := range bytes.Lines(output) {
		line := strings.ToLower(string(raw[:min(len(raw), MaxLine)]))
		before = append(before, line)
		before = before[max(0, len(before)-nearLines-1):]
		for i := range texts {
			if accuses(i, before) {
				return Fault{texts[i].kind, Plain(string(raw[:min(len(raw), MaxLine)]), MaxWhere)}, true
			}
		}
	}
	return Fault{}, false
}

// accuses reports whether an entry of the table is in the last of some lines.
func accuses(i int, lines []string) bool {
	t, line := &texts[i], lines[len(lines)-1]
	for _, w := range t.all {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return t.near == nil || t.near.MatchString(strings.Join(lines, ""))
}
