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
)

// decodeYAML keeps a parser that gives up in an unorderly way from taking the program with it. Like
// PyYAML it lets the last of equal keys count; aliases, with which a short file describes an endless
// one, are refused. Mappings within values keep their order.
func decodeYAML(data []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not read as YAML: %v", r)
		}
	}()
	if tooDeep(data) {
		return errors.New("collections are nested too deep")
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return errors.New(yaml.FormatError(err, false, false))
	}
	var found aliases
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(&found, doc.Body)
		}
	}
	if found > 0 {
		return errors.New("aliases are not read here\nhint: write the values out")
	}
	if err := yaml.UnmarshalWithOptions(data, v, yaml.AllowDuplicateMapKey(), yaml.UseOrderedMap()); err != nil && !errors.Is(err, io.EOF) {
		return errors.New(yaml.FormatError(err, false, false))
	}
	return nil
}

// aliases counts those of a document.
type aliases int

// Visit is called for each node.
func (a *aliases) Visit(n ast.Node) ast.Visitor {
	if n.Type() == ast.AliasType || n.Type() == ast.MergeKeyType {
		*a++
	}
	return a
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
