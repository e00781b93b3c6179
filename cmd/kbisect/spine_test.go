package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The way from the command line to the report may not get longer: functions and files to walk through, and those that stand
// beside it.
const (
	mostSteps, mostStepFiles     = 39, 15
	mostBesides, mostBesideFiles = 17, 10
)

// TestSpine walks the list in the package comment that follows one search through the code: every function stands in the file named,
// calls the one after its arrow, and is called, or passed on, by one that was named before.
func TestSpine(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(source), "TestSpine keeps the list true.\n")
	list, _, _ = strings.Cut(list, "\npackage ")
	if !ok {
		t.Fatal("the package comment has no list to follow")
	}
	item, name := regexp.MustCompile("(?m)^//   - (beside: )?`([^`]+\\.go)`(.*)$"), regexp.MustCompile("(→ )?`([A-Za-z]+)`")
	called := map[string]bool{} // by functions named so far
	functions, files := [2]map[string]bool{{}, {}}, [2]map[string]bool{{}, {}}
	for _, line := range item.FindAllStringSubmatch(list, -1) {
		file, beside := line[2], min(len(line[1]), 1)
		files[beside][file] = true
		calls := callsOf(t, filepath.Join("../..", filepath.FromSlash(file)))
		caller := ""
		for _, m := range name.FindAllStringSubmatch(line[3], -1) {
			f := m[2]
			switch {
			case calls[f] == nil:
				t.Errorf("%s: no function %s", file, f)
				continue
			case m[1] != "" && !calls[caller][f]:
				t.Errorf("%s: %s does not call %s", file, caller, f)
			case m[1] == "" && f != "main" && !called[f]:
				t.Errorf("%s: %s is called by no function named before it", file, f)
			}
			for x := range calls[f] {
				called[x] = true
			}
			caller = f
			functions[beside][file+" "+f] = true
		}
	}
	for i, most := range [2][2]int{{mostSteps, mostStepFiles}, {mostBesides, mostBesideFiles}} {
		n, in := len(functions[i]), len(files[i])
		what := [2]string{"on the way", "beside it"}[i]
		t.Logf("%s: %d functions in %d files", what, n, in)
		if n > most[0] || in > most[1] || n < most[0]/2 {
			t.Errorf("%s are %d functions in %d files, at most %d in %d are wanted", what, n, in, most[0], most[1])
		}
	}
}

// callsOf are the functions that each function of a file calls or passes on, by its name. Methods of one name count as one.
func callsOf(t *testing.T, file string) map[string]map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]bool{}
	for _, i := range parsed.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		packages[path[strings.LastIndex(path, "/")+1:]] = true
	}
	out := map[string]map[string]bool{}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		calls := out[f.Name.Name]
		if calls == nil {
			calls = map[string]bool{}
			out[f.Name.Name] = calls
		}
		passed := func(values []ast.Expr) { // a function of this package or another one; a field is none
			for _, v := range values {
				switch v := v.(type) {
				case *ast.Ident:
					calls[v.Name] = true
				case *ast.SelectorExpr:
					if x, ok := v.X.(*ast.Ident); ok && packages[x.Name] {
						calls[v.Sel.Name] = true
					}
				}
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				switch f := n.Fun.(type) {
				case *ast.Ident:
					calls[f.Name] = true
				case *ast.SelectorExpr:
					calls[f.Sel.Name] = true
				}
				passed(n.Args)
			case *ast.AssignStmt:
				passed(n.Rhs)
			}
			return true
		})
	}
	return out
}
