package protocol

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// accusations are messages as they were printed on real machines.
var accusations = []struct {
	kind FaultKind
	text string
}{
	{NoDevice, "CUDA error at vectorAdd.cu:57 code=100(cudaErrorNoDevice) \"cudaGetDeviceCount(&n)\""},
	{NoDevice, "CUDA Error: no CUDA-capable device is detected: No error"},
	{NoDevice, "RuntimeError: No CUDA GPUs are available"},
	{NoDevice, "RuntimeError: 0 active drivers ([]). There should only be one."},
	{DeviceTrouble, "cudaGetDeviceCount returned 35\n-> CUDA driver version is insufficient for CUDA runtime version"},
	{DeviceTrouble, "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"},
	{DeviceTrouble, "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver"},
	{DeviceTrouble, "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 804: forward compatibility was attempted on non supported HW"},
	{DeviceTrouble, "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination"},
	{DeviceTrouble, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161"},
	{DeviceTrouble, "Failed to initialize NVML: Unknown Error"},
	{DeviceTrouble, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."},
	{DeviceTrouble, "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"},
	{DeviceTrouble, "Test CUDA failure common.cu:1007 'CUDA-capable device(s) is/are busy or unavailable'"},
	{DeviceTrouble, "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"},
	{DeviceTrouble, "[rank3]: Cuda failure 802 'system not yet initialized'"},
	{DeviceTrouble, "CUDA error at bandwidthTest.cu:256 code=802(cudaErrorSystemNotReady) \"cudaSetDevice(currentDevice)\""},
	{DeviceTrouble, "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. Reboot the system to recover this GPU"},
	{DeviceTrouble, "Unable to determine the device handle for GPU0000:17:00.0: Unknown Error"},
	{DeviceTrouble, "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus."},
	{DeviceTrouble, "RuntimeError: CUDA error: uncorrectable ECC error encountered"},
	{DeviceTrouble, "torch.AcceleratorError: CUDA error: Uncorrectable NVLink error detected during the execution"},
	{DeviceMemory, "torch.AcceleratorError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call"},
	{DeviceMemory, "cuCtxCreate failed: CUDA_ERROR_OUT_OF_MEMORY"},
	{DeviceMemory, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 11.06 MiB is free. Process 41230 has 76.20 GiB memory in use. Including non-PyTorch memory, this process has 2.60 GiB memory in use."},
	{Passing, "OSError: [Errno 28] No space left on device: '/tmp/x'"},
	{Passing, "fatal error: error writing to /tmp/ccx.s: No space left on device"},
	{Passing, "bash: fork: Cannot allocate memory"},
	{Passing, "g++: fatal error: cannot execute 'as': vfork: Cannot allocate memory"},
	{Passing, "bash: fork: retry: Resource temporarily unavailable"},
	{Passing, "  File \"/usr/lib/python3.12/subprocess.py\", line 1885, in _execute_child\n    self.pid = _fork_exec(\n               ^^^^^^^^^^^\nOSError: [Errno 12] Cannot allocate memory"},
	{Passing, "    self.pid = os.fork()\nOSError: [Errno 12] Cannot allocate memory"},
	{Passing, "sh: 1: cannot create /tmp/x: Too many open files in system"},
}

func TestTrouble(t *testing.T) {
	for _, c := range accusations {
		for _, output := range []string{c.text, "some words\n" + c.text + "\r\nTraceback\n", strings.ToUpper(c.text)} {
			got, ok := FindFault([]byte(output))
			if !ok || got.Kind != c.kind || got.Text == "" {
				t.Errorf("%q: %+v, want %s", output, got, c.kind)
			}
		}
	}
	got, _ := FindFault([]byte("one\n  CUDA error: \x1b[1mno CUDA-capable device is detected\x1b[0m \ntwo"))
	if want := "CUDA error: no CUDA-capable device is detected"; got.Text != want {
		t.Errorf("words %q, want %q", got.Text, want)
	}
}

// The candidate's own faults, or nobody's.
func TestNoTrouble(t *testing.T) {
	for _, output := range []string{
		"",
		"CUDA error: an illegal memory access was encountered",
		"CUDA error: device not ready", // what a query of unfinished work answers
		"CUDA error: invalid device ordinal",
		"CUDA error: unspecified launch failure",
		"CUDA error: the launch timed out and was terminated",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 11.06 MiB is free. Including non-PyTorch memory, this process has 23.60 GiB memory in use.",
		"OSError: [Errno 24] Too many open files: 'x'",
		"    buf = mmap.mmap(-1, n)\nOSError: [Errno 12] Cannot allocate memory",
		"    self.pid = os.fork()\n1\n2\n3\n4\n5\nOSError: [Errno 12] Cannot allocate memory",
		"MemoryError\nstd::bad_alloc",
	} {
		if got, ok := FindFault([]byte(output)); ok {
			t.Errorf("%q: %+v", output, got)
		}
	}
}

func TestTroubleTableIsSane(t *testing.T) {
	for _, e := range faultTexts {
		for _, w := range e.all {
			if w != strings.ToLower(w) || strings.TrimSpace(w) == "" {
				t.Errorf("%q is not in lower case", w)
			}
		}
	}
}

func FuzzTrouble(f *testing.F) {
	for _, c := range accusations {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		got, ok := FindFault(output)
		if ok == (got == Fault{}) || len(got.Text) > MaxWhere || !utf8.ValidString(got.Text) {
			t.Fatalf("%+v, %v", got, ok)
		}
	})
}

// What is missing is read from the words of shells, build tools and Python; what is only mentioned does not count.
func TestFindMissing(t *testing.T) {
	for _, c := range []struct {
		exit         int
		output, want string
	}{
		{127, "sh: 1: nvcc: not found\n", "nvcc"},
		{127, "bash: line 1: nvcc: command not found\r\n", "nvcc"},
		{127, "./build.sh: line 3: x86_64-linux-gnu-g++: command not found", "x86_64-linux-gnu-g++"},
		{127, "zsh:1: command not found: nvcc\n", "nvcc"},
		{127, "env: ‘python3.9’: No such file or directory\n", "python3.9"},
		{127, "/usr/bin/env: 'node': No such file or directory\n", "node"},
		{127, "timeout: failed to run command ‘nvcc’: No such file or directory\n", "nvcc"},
		{2, "make[1]: nvcc: No such file or directory\nmake[1]: *** [Makefile:2: a.o] Error 127\nmake: *** [all] Error 2\n", "nvcc"},
		{2, "/bin/sh: 1: nvcc: not found\nmake: *** [Makefile:3: x] Error 127\n", "nvcc"},
		{1, "FAILED: x.o\n/bin/sh: 1: nvcc: not found\nninja: build stopped: subcommand failed.\n", "nvcc"},
		{1, "CMake Error at CMakeLists.txt:2 (project):\n  No CMAKE_CUDA_COMPILER could be found.\n\n-- Configuring incomplete, errors occurred!\n", "nvcc"},
		{1, "gcc: fatal error: cannot execute ‘cc1plus’: execvp: No such file or directory\ncompilation terminated.\n", "cc1plus"},
		{1, "Traceback (most recent call last):\n  File \"a.py\", line 1\nModuleNotFoundError: No module named 'triton.language'\n", "module triton.language"},
		{1, "/usr/bin/python3: No module named pytest\n", "module pytest"},
		{1, "Traceback (most recent call last):\n  File \"/usr/lib/python3.11/subprocess.py\", line 1955, in _execute_child\nFileNotFoundError: [Errno 2] No such file or directory: 'nvcc'\n", "nvcc"},
		{1, "Traceback (most recent call last):\nRuntimeError: Ninja is required to load C++ extensions\n", "ninja"},
		{1, "Traceback (most recent call last):\n  File \"a.py\", line 1\nFileNotFoundError: [Errno 2] No such file or directory: 'data'\n", ""},
		{1, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'a'\n\nDuring handling of the above exception:\n\nTraceback (most recent call last):\nValueError: x\n", ""},
		{1, "./configure: line 7: icc: command not found\nchecking again\nerror: no good compiler\n", ""},
		{127, "sh: 1: ./run.sh: not found\n", ""},
		{1, "lookup: key: not found\n", ""},
		{1, "open: data.txt: No such file or directory\n", ""},
		{1, "", ""},
	} {
		got, ok := FindMissing(c.exit, []byte(c.output))
		name := got.Name
		if got.Module {
			name = "module " + name
		}
		if name != c.want || ok != (c.want != "") || ok && got.Line == "" {
			t.Errorf("%q: %+v %v, want %q", c.output, got, ok, c.want)
		}
	}
}

// Escape sequences go whole, in one piece or cut off, and never more than the line that they stand in.
func FuzzUnescape(f *testing.F) {
	for text, want := range map[string]string{
		"\x1b[1;31mred\x1b[0m": "red", "a\x1b]0;title\ab": "ab", "a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b": "alinkb", "\u009b31mred": "red",
		"\x1b(B\x1b[mplain": "plain", "\x1b[38:2::1:2:3mx\x1b[?25l\x1b7\x1b=y\x1bM": "xy", "cut \x1b]0;title\nnext": "cut \nnext", "cut \x1b[31": "cut ",
		"\x1bPq#0;2\x1b\\six": "six", "é漢": "é漢", "": "",
	} {
		f.Add(text)
		if got := string(Unescape([]byte(text))); got != want {
			f.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := string(Unescape([]byte(text)))
		if strings.Count(got, "\n") != strings.Count(text, "\n") || strings.Contains(got, "\x1b[") || strings.Contains(got, "\x1b]") {
			t.Errorf("%q: %q", text, got)
		}
		FindMissing(len(text), []byte(text))
	})
}
