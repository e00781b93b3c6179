package source

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	attrSet         = "set"
	attrUnset       = "unset"
	attrUnspecified = "unspecified"
)

// attrRule is one line of a .gitattributes file.
type attrRule struct {
	pattern  string
	baseName bool // the pattern has no slash and matches names at any depth
	sets     []attrValue
}

type attrValue struct{ name, value string }

// attrFile is one parsed .gitattributes file.
type attrFile struct {
	dir   string // "" at the root
	id    string
	rules []attrRule
	// macros are the file's own [attr] lines; Git heeds them only at the root.
	macros map[string][]attrValue
}

// parseAttributes reads the text of a .gitattributes file. Lines that Git
// would ignore are ignored.
func parseAttributes(text string) attrFile {
	f := attrFile{macros: map[string][]attrValue{}}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		pattern, rest, ok := cutPattern(line)
		if !ok || strings.HasPrefix(pattern, "!") {
			continue
		}
		sets := parseAttrValues(rest)
		if name, ok := strings.CutPrefix(pattern, "[attr]"); ok {
			f.macros[name] = sets
			continue
		}
		f.rules = append(f.rules, attrRule{
			pattern:  strings.TrimPrefix(pattern, "/"),
			baseName: !strings.Contains(pattern, "/"),
			sets:     sets,
		})
	}
	return f
}

func cutPattern(line string) (pattern, rest string, ok bool) {
	if line[0] != '"' {
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			return line[:i], line[i:], true
		}
		return line, "", true
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			pattern, err := strconv.Unquote(line[:i+1])
			return pattern, line[i+1:], err == nil
		}
	}
	return "", "", false
}

func parseAttrValues(s string) []attrValue {
	var out []attrValue
	for _, word := range strings.Fields(s) {
		name, value, has := strings.Cut(word, "=")
		switch {
		case word[0] == '-':
			out = append(out, attrValue{word[1:], attrUnset})
		case word[0] == '!':
			out = append(out, attrValue{word[1:], attrUnspecified})
		case has:
			out = append(out, attrValue{name, value})
		default:
			out = append(out, attrValue{word, attrSet})
		}
	}
	return out
}

// attributes are all rules of one tree. A nil value says that no rule can
// change how a file is written.
type attributes struct {
	files     []attrFile // weakest first
	macros    map[string][]attrValue
	signature string // equal for equal rules
}

func newAttributes(files []attrFile) *attributes {
	a := &attributes{files: files, macros: map[string][]attrValue{
		"binary": {{"diff", attrUnset}, {"merge", attrUnset}, {"text", attrUnset}},
	}}
	slices.SortStableFunc(a.files, func(x, y attrFile) int { return len(x.dir) - len(y.dir) })
	matters := false
	for _, f := range a.files {
		if f.dir == "" {
			for name, sets := range f.macros {
				a.macros[name] = sets
				matters = matters || changesContent(sets)
			}
		}
		for _, r := range f.rules {
			matters = matters || changesContent(r.sets)
		}
		a.signature += fmt.Sprintf("%q %s\n", f.dir, f.id)
	}
	if !matters {
		return nil
	}
	return a
}

// changesContent reports whether files could differ from their blobs.
func changesContent(sets []attrValue) bool {
	return slices.ContainsFunc(sets, func(s attrValue) bool {
		switch s.name {
		case "filter", "working-tree-encoding", "ident":
			return s.value != attrUnset && s.value != attrUnspecified
		case "eol":
			return s.value == "crlf"
		}
		return false
	})
}

// of returns the attributes of one file. The strongest rule that speaks of an
// attribute decides: deeper folders first, later lines first.
func (a *attributes) of(file string) map[string]string {
	got := map[string]string{}
	for i := len(a.files) - 1; i >= 0; i-- {
		f := a.files[i]
		rel := file
		if f.dir != "" && f.dir != infoAttributes {
			var ok bool
			if rel, ok = strings.CutPrefix(file, f.dir+"/"); !ok {
				continue
			}
		}
		for j := len(f.rules) - 1; j >= 0; j-- {
			if f.rules[j].matches(rel) {
				a.apply(got, f.rules[j].sets, 0)
			}
		}
	}
	return got
}

func (a *attributes) apply(got map[string]string, sets []attrValue, depth int) {
	for i := len(sets) - 1; i >= 0 && depth < 16; i-- {
		s := sets[i]
		if _, decided := got[s.name]; decided {
			continue
		}
		got[s.name] = s.value
		if macro, ok := a.macros[s.name]; ok && s.value == attrSet {
			a.apply(got, macro, depth+1)
		}
	}
}

func (r attrRule) matches(rel string) bool {
	if strings.HasSuffix(r.pattern, "/") {
		return false // folders carry no attributes
	}
	if r.baseName {
		return wildmatch(r.pattern, path.Base(rel))
	}
	return wildmatch(r.pattern, rel)
}

// treatment is how the attributes ask for a file to be written.
type treatment struct {
	eol    eolMode
	lfs    bool
	refuse string // an attribute that cannot be honoured here, or ""
}

func (a *attributes) treat(file string) treatment {
	if a == nil {
		return treatment{}
	}
	got := a.of(file)
	t := treatment{eol: eolOf(got)}
	if filter := got["filter"]; filter == "lfs" {
		t.lfs = true
	} else if isOn(filter) {
		t.refuse = "filter=" + filter
	}
	if isOn(got["ident"]) {
		t.refuse = "ident"
	}
	if enc := got["working-tree-encoding"]; isOn(enc) && !strings.EqualFold(enc, "UTF-8") && !strings.EqualFold(enc, "UTF8") {
		t.refuse = "working-tree-encoding=" + enc
	}
	return t
}

func isOn(value string) bool {
	return value != "" && value != attrUnset && value != attrUnspecified
}
