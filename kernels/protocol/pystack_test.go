package protocol

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What faulthandler of Python 3.11 printed, and of 3.14 the parts that are new there.
const (
	aborted = `starting
Fatal Python error: Aborted

Thread 0x00007f78d7ee86c0 (most recent call first):
  File "/home/u/r/helper.py", line 7 in bg
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f78d8c49b80 (most recent call first):
  Garbage-collecting
  File "/usr/local/lib/python3.11/dist-packages/torch/utils/file_baton.py", line 42 in wait
  File "/home/u/.venv/lib/python3.11/site-packages/torch/utils/cpp_extension.py", line 2090 in _jit_compile
  File "/tmp/probe/sitecustomize.py", line 130 in wrapper
  File "/home/u/r/submission.py", line 12 in custom_kernel
  File "/home/u/r/eval.py", line 200 in <module>

Extension modules: numpy._core, torch._C (total: 2)
`
	waiting = `Fatal Python error: Aborted

Current thread 0x00007f0000000001 [python] (most recent call first):
  File "/usr/lib/python3.14/multiprocessing/connection.py", line 400 in _recv
  File "/usr/lib/python3.14/multiprocessing/pool.py", line 765 in wait
  File "eval.py", line 88 in main

Current thread's C stack trace (most recent call first):
  Binary file "/usr/bin/python3", at _Py_DumpStack+0x31 [0x5f3a]
  <truncated rest of calls>
`
	// What the worker of a pool and its resource tracker printed at a time: the title of one stands within that of the other.
	mingled = `Fatal Python error: Fatal Python error: Aborted

Current thread 0x00007f56fee56b80 (most recent call first):
  File "/tmp/problem/submission.py", line 44 in custom_kernel
  File "/tmp/problem/eval.py", line 148 in _run_single_test
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 125 in worker
  File "<string>", line 1 in <module>
Aborted

Current thread 0x00007f4b6140bb80 (most recent call first):
  File "/usr/lib/python3.11/multiprocessing/resource_tracker.py", line 227 in main
  File "<string>", line 1 in <module>
`
	compiling = `Fatal Python error: Aborted

Current thread 0x00007f56fee56b80 (most recent call first):
  File "/usr/lib/python3.12/subprocess.py", line 2011 in _wait
  File "/usr/lib/python3.12/subprocess.py", line 571 in run
  File "/usr/local/lib/python3.12/dist-packages/triton/backends/nvidia/compiler.py", line 480 in make_cubin
  File "/tmp/problem/submission.py", line 30 in custom_kernel
  File "/usr/lib/python3.12/multiprocessing/pool.py", line 125 in worker
  File "<string>", line 1 in <module>
`
	library = `Timeout (0:00:05)!
Thread 0x00007f0000000001 (most recent call first):
  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed
  File "/usr/lib/python3.12/runpy.py", line ??? in run
`
)

func TestPythonStack(t *testing.T) {
	for name, c := range map[string]struct {
		output, want string
	}{
		"in the repository":   {strings.ReplaceAll(aborted, "/home/u/r/", "kernels/"), "kernels/submission.py:12 in custom_kernel"},
		"current thread":      {aborted, "submission.py:12 in custom_kernel"},
		"main thread is last": {strings.Replace(aborted, "Current thread", "Thread", 1), "submission.py:12 in custom_kernel"},
		"a current thread without Python": {strings.Replace(aborted, "Current thread 0x00007f78d8c49b80 (most recent call first):",
			"Current thread 0x00007f78d8c49b80 (most recent call first):\n  <no Python frame>\n\nThread 0x1 (most recent call first):", 1), "submission.py:12 in custom_kernel"},
		"parent first":                  {waiting + aborted, "submission.py:12 in custom_kernel"},
		"parent last":                   {aborted + waiting, "submission.py:12 in custom_kernel"},
		"mingled":                       {waiting + mingled, "submission.py:44 in custom_kernel"},
		"a compiler, before its parent": {compiling + waiting, "submission.py:30 in custom_kernel"},
		"a compiler, after its parent":  {waiting + compiling, "submission.py:30 in custom_kernel"},
		"only a parent":                 {waiting, "eval.py:88 in main"},
		"only the library":              {library, "<frozen importlib._bootstrap>:241 in _call_with_frames_removed"},
		"two of one":                    {strings.ReplaceAll(aborted, "custom_kernel", "first") + aborted, "submission.py:12 in custom_kernel"},
		"carriage returns":              {strings.ReplaceAll(aborted, "\n", "\r\n"), "submission.py:12 in custom_kernel"},
		"no thread":                     {"Stack (most recent call first):\n  File \"<string>\", line 4 in <module>\n", "<string>:4 in <module>"},
		"spaces":                        {"Stack (most recent call first):\n  File \"/a b/c \", line 4.py\", line 4 in f\n", "c \", line 4.py:4 in f"},
		"a traceback":                   {"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 1\n", ""},
		"frames of others":              {"  File \"a.py\", line 1 in f\n", ""},
		"nothing":                       {"", ""},
	} {
		got, ok := PythonStack([]byte(c.output))
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func FuzzPythonStack(f *testing.F) {
	f.Add([]byte(aborted))
	f.Add([]byte(waiting + library))
	f.Add([]byte("Stack (most recent call first):\n  File \"\xff\", line 1 in \x1b[1m\n"))
	f.Fuzz(func(t *testing.T, output []byte) {
		got, ok := PythonStack(output)
		switch {
		case ok == (got == ""):
			t.Fatalf("%q, %v", got, ok)
		case len(got) > MaxWhere+32 || !utf8.ValidString(got):
			t.Fatalf("%q is too long or not valid", got)
		case strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }):
			t.Fatalf("%q has control characters", got)
		}
	})
}
