package cuda

import (
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/kbisect/kbisect/bisect"
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

// Names are the names of a static figure's case, shortest first: the function, with template arguments, with
// namespaces too, with parameters, and as the compiler writes it. Its architecture, if it has one, follows each.
func Names(figure string) []string {
	mangled, arch, several := strings.Cut(figure, " ")
	base, instance := BaseName(mangled), Instance(mangled)
	names := []string{base, base, instance, Signature(mangled), mangled}
	if i := strings.Index(instance, base+"<"); i >= 0 {
		names[1] = instance[i:]
	}
	for i := range names {
		if several {
			names[i] += " " + arch
		}
	}
	return names
}

// shownTemplate is the longest name with template arguments that is shown where the function's would do, bytes.
const shownTemplate = 64

// ShortCases names each kernel by the shortest of its names that no other kernel of the build has: after a change
// of its signature it is the same kernel, though not under its mangled name. Only long template arguments are left
// out: with them, a kernel has the same name in a build with one more instance.
func ShortCases(all []bisect.Series) []bisect.Series {
	type figure struct{ metric, name string }
	names := make([][]string, len(all))
	count := map[figure]int{}
	for i, s := range all {
		names[i] = Names(s.Case)
		if len(names[i][1]) <= shownTemplate {
			names[i] = names[i][1:]
		}
		for _, n := range slices.Compact(slices.Clone(names[i])) {
			count[figure{s.Metric, n}]++
		}
	}
	out := slices.Clone(all)
	for i, s := range all {
		for _, n := range names[i] {
			if count[figure{s.Metric, n}] == 1 {
				out[i].Case = n
				break
			}
		}
	}
	return out
}
