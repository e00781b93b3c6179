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

// TestSpine walks the list in CONTRIBUTING that follows one search through the code: every function stands in the file named,
// calls the one after its arrow, and is called by one that was named before. The way may not get longer.
func TestSpine(t *testing.T) {
	const mostCalls, mostFiles = 52, 26
	guide, err := os.ReadFile("../../.github/CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(guide), "a test keeps the list true.\n")
	if !ok {
		t.Fatal("CONTRIBUTING has no list to follow")
	}
	item, name := regexp.MustCompile("(?m)^- `([^`]+\\.go)`(.*)$"), regexp.MustCompile("(→ )?`([A-Za-z]+)`")
	said := map[string]bool{} // names that a function walked so far mentions
	files := map[string]bool{}
	calls := 0
	for _, line := range item.FindAllStringSubmatch(list, -1) {
		file := line[1]
		files[file] = true
		bodies := mentions(t, filepath.Join("../..", filepath.FromSlash(file)))
		caller := ""
		for _, m := range name.FindAllStringSubmatch(line[2], -1) {
			f := m[2]
			if bodies[f] == nil {
				t.Errorf("%s: no function %s", file, f)
				continue
			}
			switch {
			case m[1] != "" && !bodies[caller][f]:
				t.Errorf("%s: %s does not call %s", file, caller, f)
			case m[1] == "" && f != "main" && !said[f]:
				t.Errorf("%s: %s is called by no function named before it", file, f)
			}
			for x := range bodies[f] {
				said[x] = true
			}
			caller = f
			calls++
		}
	}
	t.Logf("%d calls through %d files", calls, len(files))
	if calls < 30 || calls > mostCalls || len(files) > mostFiles {
		t.Errorf("the way has %d calls through %d files, at most %d through %d are wanted", calls, len(files), mostCalls, mostFiles)
	}
}

// mentions are the names that each function of a file uses, by the name of the function. Methods of one name count as one.
func mentions(t *testing.T, file string) map[string]map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]bool{}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if out[f.Name.Name] == nil {
			out[f.Name.Name] = map[string]bool{}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				out[f.Name.Name][id.Name] = true
			}
			return true
		})
	}
	return out
}
