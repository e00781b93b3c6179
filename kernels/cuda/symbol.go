package cuda

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// maxReadable is the logarithm to base 2 of the longest readable name, in bytes.
const maxReadable = 13

// Signature is the name of a kernel as C++ writes it, with parameters: what torch and ncu print. A name
// that is not mangled stays.
func Signature(kernel string) string {
	return demangle.Filter(kernel, demangle.MaxLength(maxReadable)) // a few letters can stand for gigabytes
}

// Instance is a kernel without its parameters: gemm<4>.
func Instance(kernel string) string {
	name := Signature(kernel)
	if i := outside(name, '('); i > 0 {
		name = name[:i]
	}
	return strings.TrimPrefix(name, "void ")
}

// BaseName is the function's own name in the name of a kernel, mangled or not, without namespaces,
// template arguments and parameters: what ncu calls the function. Commits that change the tile of a
// template change the name of its kernels, but not this one.
func BaseName(kernel string) string {
	name := Instance(kernel)
	if i := outside(name, '<'); i > 0 {
		name = name[:i]
	}
	name = name[strings.LastIndexAny(name, " :")+1:]
	if name == "" {
		return kernel
	}
	return name
}

// outside finds a letter that stands in no bracket: "(anonymous namespace)" opens a name, no list of
// parameters.
func outside(s string, b byte) int {
	depth := 0
	for i := range len(s) {
		if depth == 0 && s[i] == b && !strings.HasPrefix(s[i:], "(anonymous ") && !strings.HasPrefix(s[i:], "(unnamed ") {
			return i
		}
		switch s[i] {
		case '<', '(', '[', '{':
			depth++
		case '>', ')', ']', '}':
			depth = max(0, depth-1)
		}
	}
	return -1
}
