package config

import (
	"strconv"
	"strings"
)

// lineIndex maps the path of a key in a TOML document to the line it stands on.
// Elements of arrays, and tables of arrays of tables, have indexOf their place as
// a path element. The TOML parser tells lines for syntax errors only.
type lineIndex map[string]int

// indexOf is the path element of the i-th element, from 0, of an array.
func indexOf(i int) string { return "#" + strconv.Itoa(i) }

func pathKey(path []string) string { return strings.Join(path, "\x00") }

// of returns the line of path, or of the nearest enclosing key that has one.
func (x lineIndex) of(path ...string) int {
	for n := min(len(path), maxDepth); n > 0; n-- {
		if line, ok := x[pathKey(path[:n])]; ok {
			return line
		}
	}
	return 1
}

// maxDepth bounds the index: no key that means anything is nested deeper, and
// the memory for n nested keys grows as n squared.
const maxDepth = 12

// maxNesting is how deep a document may nest at all: the time that the parser
// needs grows as the square of it.
const maxNesting = 64

// set keeps the first line on which a key was seen.
func (x lineIndex) set(path []string, line int) {
	if len(path) > maxDepth {
		return
	}
	if k := pathKey(path); x[k] == 0 {
		x[k] = line
	}
}

// indexLines scans a document and also returns the first line that nests deeper
// than maxNesting, or 0. It does not check the syntax: on anything that it does
// not understand it moves on, so it ends on every input, and the worst case is
// the line of an enclosing table.
func indexLines(doc []byte) (index lineIndex, tooDeep int) {
	s := &lineScanner{doc: doc, line: 1, lines: lineIndex{}, tables: map[string]int{}}
	var prefix []string
	for s.skipBlank(true); s.pos < len(s.doc); s.skipBlank(true) {
		at := s.pos
		if s.peek() == '[' {
			prefix = s.header()
		} else {
			s.pair(prefix)
		}
		if s.pos == at {
			s.next()
		}
	}
	return s.lines, s.tooDeep
}

type lineScanner struct {
	doc    []byte
	pos    int
	line   int
	lines  lineIndex
	tables map[string]int // how many [[tables]] of a path there have been

	depth   int // of the value that is being read
	tooDeep int // the first line deeper than maxNesting, and the end of the scan
}

func (s *lineScanner) peek() byte {
	if s.pos < len(s.doc) {
		return s.doc[s.pos]
	}
	return 0
}

func (s *lineScanner) next() {
	if s.peek() == '\n' {
		s.line++
	}
	if s.pos < len(s.doc) {
		s.pos++
	}
}

func (s *lineScanner) has(text string) bool {
	return strings.HasPrefix(string(s.doc[s.pos:min(len(s.doc), s.pos+len(text))]), text)
}

// skipBlank passes spaces and, where lines may end, newlines and comments.
func (s *lineScanner) skipBlank(newlines bool) {
	for s.pos < len(s.doc) {
		switch c := s.peek(); {
		case c == ' ' || c == '\t' || newlines && (c == '\n' || c == '\r'):
			s.next()
		case c == '#' && newlines:
			for s.pos < len(s.doc) && s.peek() != '\n' {
				s.next()
			}
		default:
			return
		}
	}
}

// header reads [a.b] or [[a.b]] and returns the path of the keys below it.
func (s *lineScanner) header() []string {
	line, array := s.line, s.has("[[")
	for s.peek() == '[' {
		s.next()
	}
	path := s.resolve(s.keys())
	for s.pos < len(s.doc) && s.peek() != '\n' {
		s.next()
	}
	if array {
		key := pathKey(path)
		s.lines.set(path, line)
		path = append(path, indexOf(s.tables[key]))
		s.tables[key]++
	}
	s.lines.set(path, line)
	return path
}

// resolve puts the index of the newest table of an array behind each part of a
// header but the last that names one.
func (s *lineScanner) resolve(keys []string) []string {
	var path []string
	for i, k := range keys {
		path = append(path, k)
		if n := s.tables[pathKey(path)]; n > 0 && i < len(keys)-1 {
			path = append(path, indexOf(n-1))
		}
	}
	return path
}

// pair reads key = value below prefix.
func (s *lineScanner) pair(prefix []string) {
	line := s.line
	keys := s.keys()
	path := append([]string(nil), prefix...)
	for _, k := range keys {
		path = append(path, k)
		s.lines.set(path, line)
	}
	s.skipBlank(false)
	if s.peek() == '=' {
		s.next()
		s.skipBlank(false)
		s.value(path)
	}
}

// keys reads a dotted key.
func (s *lineScanner) keys() []string {
	var keys []string
	for {
		if s.checkDepth(len(keys)) {
			return keys
		}
		s.skipBlank(false)
		switch c := s.peek(); {
		case c == '"' || c == '\'':
			keys = append(keys, s.quoted())
		case bareKey(c):
			start := s.pos
			for bareKey(s.peek()) {
				s.next()
			}
			keys = append(keys, string(s.doc[start:s.pos]))
		default:
			return keys
		}
		s.skipBlank(false)
		if s.peek() != '.' {
			return keys
		}
		s.next()
	}
}

func bareKey(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c >= 0x80
}

// quoted reads a string of any of the four forms and returns what stands
// between the quotes, with simple escapes resolved.
func (s *lineScanner) quoted() string {
	quote := string(s.peek())
	escapes := quote == `"`
	if s.has(strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	s.pos += len(quote)
	start := s.pos
	for s.pos < len(s.doc) && !s.has(quote) {
		if escapes && s.peek() == '\\' {
			s.next()
		}
		s.next()
	}
	text := string(s.doc[start:s.pos])
	for s.has(quote) && len(quote) == 3 && s.pos+3 < len(s.doc) && s.doc[s.pos+3] == quote[0] {
		s.pos++ // up to two quotes may stand right before the closing three
	}
	s.pos = min(s.pos+len(quote), len(s.doc))
	if escapes && strings.Contains(text, `\`) {
		if plain, err := strconv.Unquote(`"` + text + `"`); err == nil {
			return plain
		}
	}
	return text
}

// checkDepth ends the scan where something nests too deep.
func (s *lineScanner) checkDepth(depth int) bool {
	if depth > maxNesting && s.tooDeep == 0 {
		s.tooDeep, s.pos = s.line, len(s.doc)
	}
	return s.tooDeep > 0
}

// value passes one value and indexes what it holds.
func (s *lineScanner) value(path []string) {
	s.depth++
	defer func() { s.depth-- }()
	if s.checkDepth(s.depth) {
		return
	}
	switch c := s.peek(); c {
	case '"', '\'':
		s.quoted()
	case '[':
		s.next()
		s.elements(path)
	case '{':
		s.next()
		s.inline(path)
	default:
		for s.pos < len(s.doc) && !strings.ContainsRune(",]}#\n", rune(s.peek())) {
			s.next()
		}
	}
}

func (s *lineScanner) elements(path []string) {
	for i := 0; s.pos < len(s.doc); i++ {
		s.skipBlank(true)
		if s.peek() == ']' {
			s.next()
			return
		}
		element := append(append([]string(nil), path...), indexOf(i))
		s.lines.set(element, s.line)
		s.value(element)
		if !s.comma(']') {
			return
		}
	}
}

func (s *lineScanner) inline(path []string) {
	for s.pos < len(s.doc) {
		s.skipBlank(true)
		if s.peek() == '}' {
			s.next()
			return
		}
		s.pair(path)
		if !s.comma('}') {
			return
		}
	}
}

// comma passes what stands between two elements and reports whether there may
// be another one.
func (s *lineScanner) comma(closing byte) bool {
	s.skipBlank(true)
	switch s.peek() {
	case ',':
		s.next()
		return true
	case closing:
		s.next()
		return false
	default:
		s.next()
		return false
	}
}
