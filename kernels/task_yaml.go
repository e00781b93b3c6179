package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Bounds on a task.yml.
const (
	maxTask   = 64 << 10 // bytes
	maxNested = 100      // of collections

	maxExpanded = 1 << 20 // with its aliases replaced: nodes and bytes
)

// decodeYAML keeps a parser that gives up in an unorderly way from taking the program with it. Like
// PyYAML it lets the last of equal keys count, and reads aliases, but for those with which a short file
// describes a huge one or one without end. Mappings within values keep their order.
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
			return errors.New("the aliases describe something huge or without end\nhint: write the values out")
		case *e.merges:
			return errors.New("a merge key (<<) is read at the beginning of a mapping and with one alias only\nhint: move it there, or write the values out")
		}
	}
	if err := yaml.UnmarshalWithOptions(data, v, yaml.AllowDuplicateMapKey(), yaml.UseOrderedMap()); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s", errYAML, yaml.FormatError(err, false, false))
	}
	return nil
}

// expansion sums up how much a document is once all aliases are replaced by what they stand for, without
// doing so.
type expansion struct {
	sizes   map[string]int // of closed anchors
	open    []*anchor      // those around the node, the whole document first
	endless *bool
	merges  *bool // where Python's order of values is another than the reader's
}

// anchor is a node with a name, and how much it is so far.
type anchor struct {
	name string
	size *int
}

// Visit is called for each node, in the order of the document.
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

// tooDeep bounds what the parser, which calls itself for each level, has to hold.
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
