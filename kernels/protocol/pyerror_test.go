package protocol

import "testing"

func TestPythonError(t *testing.T) {
	for _, c := range []struct{ output, want string }{
		{"", ""},
		{"error: no Python here\n", ""},
		{"Traceback (most recent call last):\n  File \"b.py\", line 3, in <module>\n    f()\nNameError: name 'f' is not defined\n", "NameError"},
		{"Traceback (most recent call last):\n  File \"b.py\", line 3\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n" +
			"Traceback (most recent call last):\n  File \"b.py\", line 5, in g\n    raise\ntorch._dynamo.exc.Unsupported: call_function\n\nfrom user code:\n", "torch._dynamo.exc.Unsupported"},
		{"Traceback (most recent call last):\n  File \"b.py\", line 3, in <module>\n    sys.exit\nKeyboardInterrupt\n", "KeyboardInterrupt"},
		{"Traceback (most recent call last):\n  File \"b.py\", line 3", ""},
		{"  File \"b.py\", line 1\n    def\n       ^\nSyntaxError: invalid syntax\n", "SyntaxError"},
		{"ValueError: old\r\nRuntimeError: new\r\ndone\n", "RuntimeError"},
	} {
		if got := PythonError([]byte(c.output)); got != c.want {
			t.Errorf("%q: %q, want %q", c.output, got, c.want)
		}
	}
}

func FuzzPythonError(f *testing.F) {
	f.Add([]byte("Traceback (most recent call last):\n  x\nA.B: c\n"))
	f.Add([]byte("SyntaxError: x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if name := PythonError(data); len(name) > 8*130+64 {
			t.Errorf("a name of %d bytes", len(name))
		}
	})
}

// What CUDA throws goes on with advice.
func TestPythonWords(t *testing.T) {
	const thrown = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\ntorch.AcceleratorError: CUDA error: an illegal memory access was encountered\n" +
		"CUDA kernel errors might be asynchronously reported at some other API call.\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
	for output, want := range map[string]string{
		thrown:                              "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
		"Traceback (most recent call last)": "", "all is well\n": "", "": "",
	} {
		if got := string(PythonErrorLine([]byte(output))); got != want {
			t.Errorf("%q", got)
		}
	}
}
