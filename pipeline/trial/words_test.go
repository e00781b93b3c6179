package trial

import "testing"

func TestErrorWords(t *testing.T) {
	for _, c := range []struct{ output, want string }{
		{"", ""},
		{"configure\nnothing to say\n", " (nothing to say)"},
		{"a.cu: In function 'int f()':\na.cu:2:7: warning: unused, no error here\na.cu:5:30: error: expected ';' before '}' token\n    5 | int f() {\n      |          ^\n", " (a.cu:5:30: error: expected ';' before '}' token)"},
		{"k.cu(12): error: identifier \"x\" is undefined\n\n1 error detected in the compilation of \"k.cu\".\n", " (k.cu(12): error: identifier \"x\" is undefined)"},
		{"ptxas error   : Entry function 'k' uses too much shared data (0x12000 bytes)\nptxas fatal   : Ptx assembly aborted due to errors\n", " (ptxas error   : Entry function 'k' uses too much shared data (0x12000 bytes))"},
		{"nvcc fatal   : Unsupported gpu architecture 'compute_120'\n", " (nvcc fatal   : Unsupported gpu architecture 'compute_120')"},
		{"/usr/bin/ld: a.o: in function `main':\na.c:(.text+0x5): undefined reference to `f'\ncollect2: error: ld returned 1 exit status\nmake: *** [Makefile:2: a] Error 1\n", " (a.c:(.text+0x5): undefined reference to `f')"},
		{"make: *** No rule to make target 'x.c', needed by 'x'.  Stop.\nbye\n", " (make: *** No rule to make target 'x.c', needed by 'x'.  Stop.)"},
		{"CMake Error at CMakeLists.txt:3 (project):\n  No CMAKE_CUDA_COMPILER could be found.\n-- Configuring incomplete, errors occurred!\n", " (No CMAKE_CUDA_COMPILER could be found.)"},
		{"make: nvcc: No such file or directory\nmake: *** [Makefile:2: all] Error 127\n", " (make: nvcc: No such file or directory)"},
		{"error[E0425]: cannot find value `x`\n  --> a.rs\n", " (error[E0425]: cannot find value `x`)"},
	} {
		if got := errorWords(2, []byte(c.output)); got != c.want {
			t.Errorf("%q: %q, want %q", c.output, got, c.want)
		}
	}
}
