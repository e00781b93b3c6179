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

const maxNested = 100 // depth of collections

// decodeYAML reads untrusted YAML as PyYAML does: the last of equal keys counts. Aliases, which make a short file huge
// or endless, are refused; no problem of KernelBot has any. Mappings inside values keep their order. Only the first
// document counts, and an empty one leaves v as it is. A panic of the parser becomes an error.
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
		var old oldScalars
		ast.Walk(&old, doc.Body)
		if old.aliases {
			return hint.Add(errors.New("aliases (*) and merge keys (<<) are not read"), "write the values out")
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

// oldScalars replaces the plain words that PyYAML, which reads YAML 1.1, takes for another type than this parser,
// which reads YAML 1.2: "on" is true, and "1.0e5", whose exponent has no sign, is text. It leaves alone what no case
// holds: numbers to the base of 60 or 8, and infinity with a sign.
type oldScalars struct {
	aliases bool // there are some, or merge keys
}

// oldFloat matches what YAML 1.1 takes for a floating-point number.
var oldFloat = regexp.MustCompile(`^([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?)$`)

// Visit implements ast.Visitor.
func (s *oldScalars) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.AliasNode, *ast.MergeKeyNode:
		s.aliases = true
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
