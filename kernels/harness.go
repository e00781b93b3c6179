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
