package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Limits of a package and of a type. A package that does not fit wants to be two; a type with more methods, or with
// methods in more files, is several.
const (
	mostFiles       = 12
	mostLines       = 2500
	mostMethods     = 20
	mostMethodFiles = 3
	mostEmbedded    = 5 // methods of a struct that another embeds
)

// larger lists the packages and types above a limit, each with the number that it may have. The numbers may only
// shrink, and an entry that is not needed any more has to go.
var larger = map[string]int{}

// readsProse lists the files that may look into the words of an error: those of other programs, not ours.
var readsProse = map[string]string{
	"bisect/hint/hint.go":                     "takes off the hint that it added",
	"cmd/kbisect/internal/config/document.go": "the TOML library puts its name before its errors",
	"pipeline/cache/put.go":                   "os.Root has no value for a link that leads out of the folder",
}

// room is what the sources of one package say, without tests and what is generated.
type room struct {
	files, lines int
	methods      map[string][]string // by type: the file of each method
	embeds       map[string][]string // by struct: types of this package that it embeds
	exported     []string            // package-level functions and variables
	name         string
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// house reads all packages below the top of the repository.
func house(t *testing.T, visit func(path string, file *ast.File, src []byte)) map[string]*room {
	t.Helper()
	top := filepath.Join("..", "..")
	rooms := map[string]*room{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != top || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, path, src, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, path)
		if visit != nil {
			visit(filepath.ToSlash(rel), file, src)
		}
		if strings.HasSuffix(path, "_test.go") || generated.Match(src) {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		r := rooms[dir]
		if r == nil {
			r = &room{methods: map[string][]string{}, embeds: map[string][]string{}, name: file.Name.Name}
			rooms[dir] = r
		}
		r.files++
		r.lines += strings.Count(string(src), "\n")
		r.read(filepath.Base(path), file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rooms
}

// read notes what a file declares.
func (r *room) read(name string, file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				typ := typeName(d.Recv.List[0].Type)
				r.methods[typ] = append(r.methods[typ], name)
			} else if d.Name.IsExported() {
				r.exported = append(r.exported, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if st, ok := s.Type.(*ast.StructType); ok {
						for _, f := range st.Fields.List {
							if len(f.Names) == 0 {
								r.embeds[s.Name.Name] = append(r.embeds[s.Name.Name], typeName(f.Type))
							}
						}
					}
				case *ast.ValueSpec:
					for _, n := range s.Names { // constants belong to their types
						if n.IsExported() && d.Tok == token.VAR {
							r.exported = append(r.exported, n.Name)
						}
					}
				}
			}
		}
	}
}

// typeName is the name of a type that is written as T, *T or T[X]; of another package's with its name: p.T.
func typeName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.SelectorExpr:
		return typeName(x.X) + "." + x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// TestHouse keeps packages and types small enough to be read.
func TestHouse(t *testing.T) {
	rooms := house(t, nil)
	byName := map[string]*room{} // for embedded types of other packages
	for _, r := range rooms {
		byName[r.name] = r
	}
	needed := map[string]bool{}
	check := func(what string, is, most int) {
		if is <= most {
			return
		}
		needed[what] = true
		if may, ok := larger[what]; !ok {
			t.Errorf("%s: %d, at most %d", what, is, most)
		} else if is > may {
			t.Errorf("%s: %d, and it had %d; the exceptions may only shrink", what, is, may)
		}
	}
	for dir, r := range rooms {
		files, lines := mostFiles, mostLines
		switch dir {
		case "cmd/kbisect": // a file a command
			files, lines = 20, 3500
		}
		check(dir+": files", r.files, files)
		check(dir+": lines", r.lines, lines)
		for typ, files := range r.methods {
			n := len(files)
			slices.Sort(files)
			check(fmt.Sprintf("%s.%s: methods", dir, typ), n, mostMethods)
			check(fmt.Sprintf("%s.%s: files of methods", dir, typ), len(slices.Compact(files)), mostMethodFiles)
		}
		for typ, embedded := range r.embeds {
			for _, e := range embedded {
				n := len(r.methods[e])
				if pkg, name, ok := strings.Cut(e, "."); ok && byName[pkg] != nil {
					n = len(byName[pkg].methods[name])
				}
				check(fmt.Sprintf("%s.%s: embeds the methods of %s", dir, typ, e), n, mostEmbedded)
			}
		}
	}
	for what, n := range larger {
		if !needed[what] {
			t.Errorf("%s: %d is not needed any more; take it out of the list", what, n)
		}
	}
}

// ownProse finds strings functions that read our own sentences.
var ownProse = regexp.MustCompile(`strings\.(Cut|CutPrefix|CutSuffix|HasPrefix|HasSuffix|Contains|Index|Split|TrimPrefix|TrimSuffix|Fields|EqualFold)\([^()]*(\([^()]*\))?[^()]*(\.Why\b|\.Hint\b|\.Error\(\))`)

// TestNothingReadsItsOwnSentences: a fact is a field; a sentence is for people.
func TestNothingReadsItsOwnSentences(t *testing.T) {
	needed := map[string]bool{}
	house(t, func(path string, _ *ast.File, src []byte) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for i, line := range strings.Split(string(src), "\n") {
			if !ownProse.MatchString(line) {
				continue
			}
			needed[path] = true
			if readsProse[path] == "" {
				t.Errorf("%s:%d reads a sentence: %s", path, i+1, strings.TrimSpace(line))
			}
		}
	})
	for path := range readsProse {
		if !needed[path] {
			t.Errorf("%s reads no sentence any more; take it out of the list", path)
		}
	}
}

// TestExportedNamesAreUsed: an exported name has a user outside of its package, or is part of the public API, which is
// packages bisect and bisect/sets.
func TestExportedNamesAreUsed(t *testing.T) {
	used := map[string]map[string]bool{} // by folder: pkg.Name
	rooms := house(t, func(path string, file *ast.File, _ []byte) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(file.Name.Name, "_test") {
			dir += "_test"
		}
		if used[dir] == nil {
			used[dir] = map[string]bool{}
		}
		aliases := map[string]string{}
		for _, i := range file.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			if to, ours := strings.CutPrefix(p, module); ours {
				name := to[strings.LastIndex(to, "/")+1:]
				if i.Name != nil {
					name = i.Name.Name
				}
				aliases[name] = to
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && aliases[x.Name] != "" {
					used[dir][aliases[x.Name]+"."+s.Sel.Name] = true
				}
			}
			return true
		})
	})
	for dir, r := range rooms {
		if dir == "bisect" || dir == "bisect/sets" || r.name == "main" {
			continue
		}
		for _, name := range r.exported {
			found := false
			for from, names := range used {
				found = found || from != dir && names[dir+"."+name]
			}
			if !found && !unusedExports[dir+"."+name] {
				t.Errorf("%s.%s is exported, and only its package uses it", dir, name)
			}
		}
	}
}

// unusedExports are exported for a reason that no import shows.
var unusedExports = map[string]bool{}
