package cuda

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// maxReadable is the base-2 logarithm of the longest demangled name, in bytes.
const maxReadable = 13

// Signature demangles the name of a kernel, with parameters, as torch and ncu print it. A name
// that is not mangled stays as it is.
func Signature(kernel string) string {
	return demangle.Filter(kernel, demangle.MaxLength(maxReadable)) // bounded: a few letters can expand to gigabytes
}

// Instance is the demangled name without parameters, such as gemm<4>.
func Instance(kernel string) string {
	name := Signature(kernel)
	if i := outside(name, '('); i > 0 {
		name = name[:i]
	}
	return strings.TrimPrefix(name, "void ")
}

// BaseName is the name of a kernel, mangled or not, without namespaces, template arguments
// and parameters: what ncu calls the function. It stays the same when a commit changes the
// template arguments, such as a tile size.
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

// outside returns the index of the first b that is outside all brackets, or -1. The
// parenthesis of "(anonymous namespace)" belongs to a name and does not count.
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
