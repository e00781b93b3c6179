package kernelbot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

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
		ast.Walk(oldScalars{}, doc.Body)
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
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil
	}
	if err := yaml.NodeToValue(file.Docs[0].Body, v, yaml.AllowDuplicateMapKey(), yaml.UseOrderedMap()); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s", errYAML, yaml.FormatError(err, false, false))
	}
	return nil
}

// oldScalars replaces the plain words that PyYAML, which reads YAML 1.1, takes for another type than this parser, which
// reads YAML 1.2: "on" is true, and "1.0e5", whose exponent has no sign, is text. What no case holds is left as it is:
// numbers to the base of 60 and of 8, and infinity with a sign.
type oldScalars struct{}

var oldFloat = regexp.MustCompile(`^([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?)$`)

// Visit implements ast.Visitor.
func (s oldScalars) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.MappingValueNode:
		n.Value = oldScalar(n.Value)
	case *ast.AnchorNode:
		n.Value = oldScalar(n.Value)
	case *ast.SequenceNode:
		for i, v := range n.Values {
			n.Values[i] = oldScalar(v)
		}
	}
	return s
}

// oldScalar is what PyYAML takes a node for.
func oldScalar(n ast.Node) ast.Node {
	at := n.GetToken()
	plain := func(word string) *token.Token { return token.New(word, word, at.Position) }
	switch n := n.(type) {
	case *ast.FloatNode:
		if !oldFloat.MatchString(at.Value) {
			return ast.String(at)
		}
	case *ast.StringNode:
		switch word := n.Value; {
		case at.Type != token.StringType: // in quotes
		case slices.Contains([]string{"yes", "Yes", "YES", "on", "On", "ON"}, word):
			return ast.Bool(plain("true"))
		case slices.Contains([]string{"no", "No", "NO", "off", "Off", "OFF"}, word):
			return ast.Bool(plain("false"))
		}
	}
	return n
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
