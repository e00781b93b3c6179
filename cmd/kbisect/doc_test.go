package main

import (
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestManual runs the examples of the package comment: a line that begins with $ is a command, the
// lines below it must be among what it prints; … stands for anything.
func TestManual(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	r := newRepo(t)
	r.write("Makefile", "bench: n\n\tcp n bench\n")
	r.history(1, func(int) string { return "true" })
	r.git("tag", "v1")
	for i := 1; i <= 11; i++ {
		r.write("n", strconv.Itoa(i))
		r.write("test.sh", "#!/bin/sh\ntest $(cat n) -lt 7\n")
		r.commit("change " + strconv.Itoa(i))
	}
	examples := 0
	output, running := "", false
	for _, line := range strings.Split(f.Doc.Text(), "\n") {
		line, indented := strings.CutPrefix(line, "\t")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case !indented:
			running = false // a block without a command is text
		case isCommand:
			running = true
			examples++
			cmd := exec.Command("sh", "-c", command)
			cmd.Dir, cmd.Env = r.dir, r.env()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
			output = string(out)
		case running:
			pattern := "(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
			if !regexp.MustCompile(pattern).MatchString(output) {
				t.Errorf("no line %q in\n%s", line, output)
			}
		}
	}
	if examples < 6 {
		t.Errorf("%d examples", examples)
	}
}
