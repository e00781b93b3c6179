// Package harness holds the programs that kbisect brings along: the timing harness for
// CUDA C++ and Python ([File]), example projects that use it ([NewExample]), and
// known-good programs that show whether a machine works ([Hellos]).
//
// The package is only files. It must not know when or how they are run.
package harness

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect/hint"
)

//go:embed kbisect.cuh kbisect_harness.py torch_driver.py cuda torch python
var harnessFiles embed.FS

// The files of the harness, which times a kernel and sends the trial protocol.
const (
	Header      = "kbisect.cuh"        // CUDA C++17, one header
	Module      = "kbisect_harness.py" // Python, with or without PyTorch
	TorchDriver = "torch_driver.py"    // runs a submission against a reference
)

// File returns a file of the harness, such as Header.
func File(name string) []byte {
	text, err := harnessFiles.ReadFile(name)
	if err != nil {
		panic(err) // embedded
	}
	return text
}

// Example is a runnable project that uses the harness.
type Example struct {
	Files map[string][]byte // by name
	Next  string            // how to run it, in one line
}

// examples lists the files of each example, relative to the harness. A project gets them
// under their base names.
func examples() map[string][]string {
	return map[string][]string{
		"cuda":   {Header, "cuda/bench.cu"},
		"torch":  {"torch/submission.py", "torch/reference.py"},
		"python": {Module, "python/bench.py"},
	}
}

// NewExample returns the example cuda, torch or python.
func NewExample(name string) (Example, error) {
	files, ok := examples()[name]
	if !ok {
		return Example{}, hint.Add(fmt.Errorf("no harness for %q", name), "use one of "+strings.Join(slices.Sorted(maps.Keys(examples())), ", "))
	}
	e := Example{Files: map[string][]byte{}, Next: map[string]string{
		"cuda":   "nvcc -O3 -std=c++17 -arch=native -o bench bench.cu && ./bench",
		"torch":  "git add submission.py reference.py && git commit, then kbisect measure HEAD",
		"python": "python3 bench.py",
	}[name]}
	for _, f := range files {
		e.Files[path.Base(f)] = File(f)
	}
	return e, nil
}

//go:embed hello
var helloFiles embed.FS

// Hello is a known-good program. Where it does not print [HelloWord], the machine is at fault.
type Hello struct {
	Name    string   // nvcc and torch, which run on a CUDA device; cc
	File    string   // base name of its source
	Text    []byte   // its source
	Compile []string // command that creates ./hello; empty: nothing to compile
	Run     []string
}

// HelloWord is what a Hello prints.
const HelloWord = "hello"

// Hellos lists the known-good programs, best first: on a device before on the CPU, then
// by start-up time.
func Hellos() []Hello {
	list := []Hello{
		{Name: "nvcc", File: "hello.cu", Compile: []string{"nvcc", "-arch=native", "-o", "hello", "hello.cu"}, Run: []string{"./hello"}},
		{Name: "torch", File: "hello.py", Run: []string{"python3", "hello.py"}},
		{Name: "cc", File: "hello.c", Compile: []string{"cc", "-o", "hello", "hello.c"}, Run: []string{"./hello"}},
	}
	for i := range list {
		text, err := helloFiles.ReadFile(path.Join("hello", list[i].File))
		if err != nil {
			panic(err) // embedded
		}
		list[i].Text = text
	}
	return list
}

// HelloFor returns the known-good program of a tool, or the zero Hello.
func HelloFor(name string) Hello {
	for _, h := range Hellos() {
		if h.Name == name {
			return h
		}
	}
	return Hello{}
}
