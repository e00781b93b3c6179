package kernels

import (
	"strconv"
	"strings"
)

// BaseName is the function's own name in the name of a kernel, mangled or not, without namespaces,
// template arguments and parameters: what ncu calls the function. Commits that change the tile of a
// template change the name of its kernels, but not this one.
func BaseName(kernel string) string {
	if rest, ok := strings.CutPrefix(kernel, "_Z"); ok {
		if name := mangledName(rest); name != "" {
			return name
		}
		return kernel
	}
	name := kernel
	if i := outside(name, '('); i > 0 {
		name = name[:i]
	}
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

// mangledName is the last identifier of a name by the Itanium rules: _Z3fooi, _ZN2ns3fooIfEEvPf. It
// stops at what is none; substitutions before it do not matter.
func mangledName(s string) (name string) {
	nested := strings.HasPrefix(s, "N")
	s = strings.TrimPrefix(s, "N")
	for len(s) > 0 {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		switch length, err := strconv.Atoi(s[:n]); {
		case n > 0 && err == nil && length > 0 && length <= len(s)-n:
			name, s = s[n:n+length], s[n+length:]
			if !nested {
				return name
			}
		case s[0] == 'S' && len(s) > 1: // of the standard library, or a substitution
			end := strings.IndexByte(s, '_')
			if s[1] >= 'a' && s[1] <= 'z' || end < 0 {
				end = 1
			}
			s = s[end+1:]
		case s[0] == 'K' || s[0] == 'V' || s[0] == 'L':
			s = s[1:]
		default:
			return name
		}
	}
	return name
}

// Demanglers are commands that turn mangled names, one a line on their standard input, into readable
// ones; the first that a machine has will do. It writes names as torch does.
func Demanglers() [][]string { return [][]string{{"c++filt"}, {"cu++filt"}} }
