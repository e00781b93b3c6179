package kernelbot

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/kbisect/kbisect/bisect/hint"
)

// errYAML is a syntax error or a value of the wrong type.
var errYAML = errors.New("invalid YAML")

const (
	maxNested   = 100     // depth of collections
	maxExpanded = 1 << 20 // nodes and bytes of a document once its aliases are replaced
)

// decodeYAML reads untrusted YAML as PyYAML does: the last of equal keys counts, and
// aliases are followed, except where they make a short file huge or endless. Mappings
// inside values keep their order. A panic of the parser becomes an error.
func decodeYAML(data []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errYAML, r)
		}
	}()
	if tooDeep(data) {
		return errors.New("collections are nested too deep")
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return fmt.Errorf("%w: %s", errYAML, yaml.FormatError(err, false, false))
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		whole := new(int)
		e := expansion{sizes: map[string]int{}, open: []*anchor{{size: whole}}, endless: new(bool), merges: new(bool)}
		ast.Walk(e, doc.Body)
		switch {
		case *e.endless || *whole > maxExpanded:
			return hint.Add(errors.New("the aliases expand to a huge or endless document"), "write the values out")
		case *e.merges:
			return hint.Add(errors.New("a merge key (<<) must be the first key of its mapping and name one alias"), "move it there, or write the values out")
		}
	}
	if err := yaml.UnmarshalWithOptions(data, v, yaml.AllowDuplicateMapKey(), yaml.UseOrderedMap()); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s", errYAML, yaml.FormatError(err, false, false))
	}
	return nil
}

// expansion measures how large a document becomes when every alias is replaced by
// its anchor, without replacing any.
type expansion struct {
	sizes   map[string]int // of complete anchors
	open    []*anchor      // those that enclose the node, the whole document first
	endless *bool          // an anchor contains an alias of itself
	merges  *bool          // a merge key that PyYAML orders differently from this parser
}

// anchor is a named node and its size so far.
type anchor struct {
	name string
	size *int
}

// Visit implements ast.Visitor; nodes come in the order of the document.
func (e expansion) Visit(n ast.Node) ast.Visitor {
	size := 1
	if t := n.GetToken(); t != nil {
		size += len(t.Value)
	}
	switch n := n.(type) {
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		for _, a := range e.open[1:] {
			*e.endless = *e.endless || a.name == name
		}
		size += e.sizes[name]
	case *ast.MappingNode:
		for i, v := range n.Values {
			if v.Key.Type() == ast.MergeKeyType && (i > 0 || v.Value.Type() != ast.AliasType) {
				*e.merges = true
			}
		}
	case *ast.AnchorNode:
		a := &anchor{n.Name.GetToken().Value, new(int)}
		inner := e
		inner.open = append(e.open[:len(e.open):len(e.open)], a)
		ast.Walk(inner, n.Value)
		e.sizes[a.name] = *a.size
		return nil
	}
	for _, a := range e.open {
		*a.size = min(*a.size+size, 2*maxExpanded)
	}
	return e
}

// tooDeep bounds the nesting by the number of opening marks, because the parser
// recurses once per level and a deep document would exhaust its stack.
func tooDeep(data []byte) bool {
	deep := 0
	for line := range bytes.Lines(data) {
		dashes := bytes.Count(line, []byte("- ")) + bytes.Count(line, []byte("? ")) + bytes.Count(line, []byte(": "))
		deep = max(0, deep+bytes.Count(line, []byte("["))+bytes.Count(line, []byte("{"))-bytes.Count(line, []byte("]"))-bytes.Count(line, []byte("}")))
		if dashes > maxNested*10 || deep > maxNested || bytes.Count(line, []byte("[")) > maxNested*10 || bytes.Count(line, []byte("{")) > maxNested*10 {
			return true
		}
	}
	return false
}
