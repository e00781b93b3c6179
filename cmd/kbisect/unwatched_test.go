package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// watchedElsewhere lists the packages that start goroutines and are tested without the race detector, each with the
// test in which the detector sees them.
var watchedElsewhere = map[string]string{
	"fixtures/simulate": "TestSimulateTable plays searches side by side",
}

// TestUnwatched: what make tests without the race detector starts no goroutines, and uses no package of ours that does.
func TestUnwatched(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^UNWATCHED = (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no list UNWATCHED")
	}
	list := exec.Command("go", append([]string{"list", "-deps", "-test", "-json=ImportPath,Dir,DepOnly,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles"}, strings.Fields(string(line[1]))...)...)
	list.Dir = filepath.Join("..", "..")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	needed := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			ImportPath, Dir                              string
			DepOnly                                      bool
			GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		room, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours || strings.ContainsAny(room, " .") { // variants for tests have the same files
			continue
		}
		files := append(p.GoFiles, p.CgoFiles...)
		if !p.DepOnly {
			files = slices.Concat(files, p.TestGoFiles, p.XTestGoFiles)
		}
		for _, file := range files {
			at := startsGoroutine(t, filepath.Join(p.Dir, file))
			if needed[room] = needed[room] || at != ""; at != "" && watchedElsewhere[room] == "" {
				t.Errorf("%s starts a goroutine: test it with the race detector", at)
			}
		}
	}
	for room := range watchedElsewhere {
		if !needed[room] {
			t.Errorf("%s starts no goroutines any more; take it out of the list", room)
		}
	}
}

// startsGoroutine returns the place in a file of the first go statement, or call of a method Go of a group; "" if there is none.
func startsGoroutine(t *testing.T, path string) (at string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at = fset.Position(n.Pos()).String()
		case *ast.SelectorExpr:
			if n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc" {
				at = fset.Position(n.Pos()).String()
			}
		}
		return at == ""
	})
	return at
}
