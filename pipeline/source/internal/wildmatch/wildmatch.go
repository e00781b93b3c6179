// Package wildmatch matches paths against the patterns of .gitattributes as git does. Patterns come from commits
// and may be hostile: [Match] takes polynomial time for any of them.
//
// The rules are those of gitattributes(5), which refers to gitignore(5). Where both are silent (a class that does not
// end, a backslash at the end, ranges that run backwards) wildmatch.c of git decides, which the tests compare with.
package wildmatch

import "strings"

// Match reports whether a pattern matches all of text by the rules of gitattributes: "*", "?" and "[…]" stop at
// slashes, "**" as a whole component does not.
func Match(pattern, text string) bool {
	return matcher{}.matchAt(pattern, text, true)
}

// matcher remembers, by the lengths of the rest of the pattern and of the text, at which stars there is no match.
// Without that, a pattern with a few stars could take exponential time.
type matcher map[[2]int]bool

// matchAt is Match in the middle of a pattern. atStart says that the pattern so far was empty or ended in a slash,
// where "**" may begin.
func (m matcher) matchAt(p, t string, atStart bool) bool {
	for p != "" {
		c := p[0]
		if c == '*' {
			at := [2]int{len(p), len(t)}
			if !m[at] && m.matchStar(p, t, atStart) {
				return true
			}
			m[at] = true
			return false
		}
		if t == "" {
			return false
		}
		switch c {
		case '?':
			if t[0] == '/' {
				return false
			}
			p = p[1:]
		case '[':
			rest, ok := matchClass(p[1:], t[0])
			if !ok || t[0] == '/' {
				return false
			}
			p = rest
		default:
			if c == '\\' && len(p) > 1 {
				p = p[1:]
				c = p[0]
			}
			if c != t[0] {
				return false
			}
			p = p[1:]
		}
		atStart = c == '/'
		t = t[1:]
	}
	return t == ""
}

// matchStar is matchAt for a pattern that begins with a star. deep is a star that may pass slashes.
func (m matcher) matchStar(p, t string, atStart bool) bool {
	rest := strings.TrimLeft(p, "*")
	folder := strings.HasPrefix(rest, "/")
	// "a**" and "**b" are no more than one star: two of them pass slashes only as a whole component.
	deep := len(p)-len(rest) >= 2 && atStart && (rest == "" || folder || strings.HasPrefix(rest, `\/`))
	if deep && folder && m.matchAt(rest[1:], t, true) {
		return true // "**/" also stands for no folder at all
	}
	if rest == "" {
		return deep || !strings.Contains(t, "/")
	}
	for {
		if m.matchAt(rest, t, false) {
			return true
		}
		if t == "" || t[0] == '/' && !deep {
			return false
		}
		t = t[1:]
	}
}

// matchClass matches c against the bracket expression that begins in p after "[", and returns what follows it. A
// class that never ends matches nothing.
func matchClass(p string, c byte) (rest string, ok bool) {
	negated := p != "" && (p[0] == '!' || p[0] == '^')
	if negated {
		p = p[1:]
	}
	matched := false
	for first := true; ; first = false {
		if p == "" {
			return "", false
		}
		if p[0] == ']' && !first {
			return p[1:], matched != negated
		}
		if named, found := strings.CutPrefix(p, "[:"); found {
			end := strings.IndexByte(named, ']')
			if end < 0 { // it never ends
				return "", false
			}
			if name, found := strings.CutSuffix(named[:end], ":"); found {
				in, known := inNamedClass(name, c)
				if !known { // the whole pattern matches nothing then
					return "", false
				}
				matched, p = matched || in, named[end+1:]
				continue
			}
		}
		var low, high byte
		low, p = classByte(p)
		high = low
		if len(p) > 1 && p[0] == '-' && p[1] != ']' {
			high, p = classByte(p[1:])
		}
		matched = matched || c == low || low <= c && c <= high // [c-a] holds c
	}
}

// classByte is the next character of a class, which a backslash may precede, and what follows it. p is not empty.
func classByte(p string) (byte, string) {
	if p[0] == '\\' && len(p) > 1 {
		p = p[1:]
	}
	return p[0], p[1:]
}

// inNamedClass reports whether c is in a POSIX class such as "alpha", and whether there is such a class. Classes
// are ASCII and git's own: its "space" has neither \v nor \f.
func inNamedClass(name string, c byte) (in, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	switch name {
	case "alpha":
		return lower || upper, true
	case "digit":
		return digit, true
	case "alnum":
		return lower || upper || digit, true
	case "lower":
		return lower, true
	case "upper":
		return upper, true
	case "space":
		return strings.IndexByte(" \t\n\r", c) >= 0, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "punct":
		return 32 < c && c < 127 && !lower && !upper && !digit, true
	case "cntrl":
		return c < 32 || c == 127, true
	case "graph":
		return 32 < c && c < 127, true
	case "print":
		return 32 <= c && c < 127, true
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F', true
	}
	return false, false
}
