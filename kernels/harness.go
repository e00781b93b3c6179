package kernels

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

//go:embed harness
var harnessFiles embed.FS

// The files of the harness.
const (
	Header      = "kbisect.cuh"        // CUDA C++17, one header
	Module      = "kbisect_harness.py" // Python, with or without PyTorch
	TorchDriver = "torch_driver.py"    // runs a submission against a reference
)

// HarnessFile returns a file of the harness, such as Header.
func HarnessFile(name string) []byte {
	text, err := harnessFiles.ReadFile(path.Join("harness", name))
	if err != nil {
		panic(err) // it is in the program
	}
	return text
}

// Example is a runnable project that uses the harness.
type Example struct {
	Files map[string][]byte // by name
	Next  string            // what to do with it, in one line
}

// examples lists the files of each example: those that a project gets under their own name, and
// those that are in the folder of the example.
func examples() map[string][]string {
	return map[string][]string{
		"cuda":   {Header, "cuda/bench.cu"},
		"torch":  {"torch/submission.py", "torch/reference.py"},
		"python": {Module, "python/bench.py"},
	}
}

// Examples are the names of the examples.
func Examples() []string { return slices.Sorted(maps.Keys(examples())) }

// NewExample returns an example by its name.
func NewExample(name string) (Example, error) {
	files, ok := examples()[name]
	if !ok {
		return Example{}, fmt.Errorf("no harness for %q\nhint: there are %s", name, strings.Join(Examples(), ", "))
	}
	e := Example{Files: map[string][]byte{}, Next: map[string]string{
		"cuda":   "nvcc -O3 -std=c++17 -arch=native -o bench bench.cu && ./bench",
		"torch":  "git add submission.py reference.py && git commit, then kbisect measure HEAD",
		"python": "python3 bench.py",
	}[name]}
	for _, f := range files {
		e.Files[path.Base(f)] = HarnessFile(f)
	}
	return e, nil
}

//go:embed hello
var helloFiles embed.FS

// Hello is a known-good program: where it does not print "hello", the machine is at fault.
type Hello struct {
	Name    string   // nvcc, torch, cc
	Device  bool     // it runs on a CUDA device
	File    string   // its source, base name
	Text    []byte   // what is in it
	Compile []string // command that leaves ./hello; empty: nothing to compile
	Run     []string
}

// HelloWord is what a Hello prints.
const HelloWord = "hello"

// Hellos lists the known-good programs, best first: what runs on a device before what does not,
// what starts fast before what is slow.
func Hellos() []Hello {
	list := []Hello{
		{Name: "nvcc", Device: true, File: "hello.cu", Compile: []string{"nvcc", "-arch=native", "-o", "hello", "hello.cu"}, Run: []string{"./hello"}},
		{Name: "torch", Device: true, File: "hello.py", Run: []string{"python3", "hello.py"}},
		{Name: "cc", File: "hello.c", Compile: []string{"cc", "-o", "hello", "hello.c"}, Run: []string{"./hello"}},
	}
	for i := range list {
		text, err := helloFiles.ReadFile(path.Join("hello", list[i].File))
		if err != nil {
			panic(err) // it is in the program
		}
		list[i].Text = text
	}
	return list
}

// HelloFor returns the known-good program of a tool.
func HelloFor(name string) Hello {
	for _, h := range Hellos() {
		if h.Name == name {
			return h
		}
	}
	return Hello{}
}
