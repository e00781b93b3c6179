package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxSize bounds a configuration file, in bytes: files come with repositories, which may be hostile.
const maxSize = 256 << 10

// maxNesting is how deep a document may nest. The time for decoding grows as the square of the depth.
const maxNesting = 64

// parse decodes a document into its root table and checks the root's keys. sizeHint is appended to the complaint
// about a file beyond maxSize. The error is an *Error. The nesting is checked before the library decodes.
func parse(file string, doc []byte, schema map[string][]string, sizeHint string) (table, error) {
	if len(doc) > maxSize {
		return table{}, problemAt(file, 1, fmt.Sprintf("larger than %d KiB%s", maxSize>>10, sizeHint))
	}
	doc = bytes.TrimPrefix(doc, []byte("\xef\xbb\xbf")) // a byte order mark, which editors on Windows write
	lines, tooDeep := findLines(doc)
	if tooDeep > 0 {
		return table{}, problemAt(file, tooDeep, "nested too deep")
	}
	var root map[string]any
	if err := toml.Unmarshal(doc, &root); err != nil {
		return table{}, syntaxError(file, err)
	}
	t := table{r: &reader{file: file, lines: lines, schema: schema}, values: root}
	t.allow("")
	return t, nil
}

// syntaxError converts an error of the library, which stops at the first mistake.
func syntaxError(file string, err error) error {
	text := strings.TrimPrefix(err.Error(), "toml: ")
	var at *toml.DecodeError
	if !errors.As(err, &at) {
		return problemAt(file, 1, text)
	}
	line, _ := at.Position()
	if key := strings.Join(at.Key(), "."); key != "" {
		text = fmt.Sprintf("near %s: %s", key, text)
	}
	return problemAt(file, max(line, 1), text)
}

// lineIndex maps the path of a key to the line, from 1, on which it was first seen. An element of an array, or of
// an array of tables, has [indexOf] as its path element. The library decodes without positions, so that its parser
// runs once more for them.
type lineIndex map[string]int

// indexOf is the path element of the i-th element, from 0, of an array.
func indexOf(i int) string { return "#" + strconv.Itoa(i) }

// pathKey is a path as the key of a map. Keys in TOML may contain dots, but no zero byte.
func pathKey(path []string) string { return strings.Join(path, "\x00") }

// of returns the line of a path, or of the nearest enclosing key that has one; 1 if none has.
func (x lineIndex) of(path ...string) int {
	for n := len(path); n > 0; n-- {
		if line, ok := x[pathKey(path[:n])]; ok {
			return line
		}
	}
	return 1
}

// set keeps the line on which a path is seen first. A line of 0 is unknown, and the enclosing key then stands in.
func (x lineIndex) set(path []string, line int) {
	if k := pathKey(path); x[k] == 0 && line > 0 {
		x[k] = line
	}
}

// lineFinder walks the expressions of a document and fills the index. It sees the document as it is written, in which a
// table may be built up in several places.
type lineFinder struct {
	index    lineIndex
	newlines []int          // byte offsets, ascending
	tables   map[string]int // how many [[tables]] each path has so far
	tooDeep  int            // the first line that nests deeper than maxNesting; 0: none
}

// findLines indexes a document as far as it can be parsed; a syntax error that ends it is reported by the decoder.
// tooDeep is the first line that nests deeper than maxNesting, or 0.
func findLines(doc []byte) (index lineIndex, tooDeep int) {
	f := &lineFinder{index: lineIndex{}, tables: map[string]int{}}
	for i, c := range doc {
		if c == '\n' {
			f.newlines = append(f.newlines, i)
		}
	}
	var p unstable.Parser
	p.Reset(doc)
	var prefix []string
	for f.tooDeep == 0 && p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			prefix = f.header(e)
		case unstable.KeyValue:
			f.keyValue(prefix, e, 1)
		}
	}
	return f.index, f.tooDeep
}

// line is the line of a node, or 0 if the parser does not tell: arrays have no position of their own.
func (f *lineFinder) line(n *unstable.Node) int {
	if n.Raw.Length == 0 {
		return 0
	}
	before, _ := slices.BinarySearch(f.newlines, int(n.Raw.Offset))
	return before + 1
}

// key reads a dotted key and the line it stands on.
func (f *lineFinder) key(n *unstable.Node) (parts []string, line int) {
	for it := n.Key(); it.Next(); {
		if line == 0 {
			line = f.line(it.Node())
		}
		if parts = append(parts, string(it.Node().Data)); len(parts) > maxNesting {
			f.tooDeep = line
			return nil, line
		}
	}
	return parts, line
}

// header indexes [a.b] or [[a.b]] and returns the path of the keys below it, which for [[a.b]] ends with the index of
// the new element.
func (f *lineFinder) header(n *unstable.Node) (path []string) {
	keys, line := f.key(n)
	for i, k := range keys {
		path = append(path, k)
		if made := f.tables[pathKey(path)]; made > 0 && i < len(keys)-1 {
			path = append(path, indexOf(made-1)) // [a.b] belongs to the newest [[a]]
		}
	}
	f.index.set(path, line)
	if n.Kind == unstable.ArrayTable {
		k := pathKey(path)
		path = append(path, indexOf(f.tables[k]))
		f.tables[k]++
		f.index.set(path, line)
	}
	return path
}

// keyValue indexes key = value below path. depth counts the arrays and tables that hold it, from 1. The path is clipped
// before it grows, since siblings share its beginning.
func (f *lineFinder) keyValue(path []string, n *unstable.Node, depth int) {
	keys, line := f.key(n)
	path = slices.Clip(path)
	for _, k := range keys {
		path = append(path, k)
		f.index.set(path, line)
	}
	f.value(path, n.Value(), line, depth)
}

// value indexes what a value holds. line is that of its key, and stands in for elements without a position of their
// own.
func (f *lineFinder) value(path []string, n *unstable.Node, line, depth int) {
	if depth > maxNesting || f.tooDeep > 0 {
		f.tooDeep = max(f.tooDeep, line)
		return
	}
	path = slices.Clip(path)
	children := n.Children()
	switch n.Kind {
	case unstable.Array:
		for i := 0; children.Next(); i++ {
			element := append(path, indexOf(i))
			f.index.set(element, f.line(children.Node()))
			f.value(element, children.Node(), max(line, f.line(children.Node())), depth+1)
		}
	case unstable.InlineTable:
		for children.Next() {
			f.keyValue(path, children.Node(), depth+1)
		}
	}
}
