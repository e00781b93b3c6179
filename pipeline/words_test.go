package pipeline

import "testing"

// The reason of a failed build is the first error of its compiler.
func TestBuildWords(t *testing.T) {
	for tail, want := range map[string]string{
		"cc -o a a.c\na.c:3:5: error: 'x' undeclared\ncompilation terminated.\n":                              " (a.c:3:5: error: 'x' undeclared)",
		"a.cu(3): error: identifier \"x\" is undefined\n\n1 error detected in the compilation of \"a.cu\".\n": " (a.cu(3): error: identifier \"x\" is undefined)",
		"CMake Error: no compiler\n-- Configuring incomplete, errors occurred!\n":                             " (CMake Error: no compiler)",
		"make: *** [Makefile:2: all] Error 1\n":                                                               " (make: *** [Makefile:2: all] Error 1)",
		"":                                                                                                    "",
	} {
		if got := buildWords([]byte(tail)); got != want {
			t.Errorf("%q: %q, want %q", tail, got, want)
		}
	}
}
