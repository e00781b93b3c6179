package kernels

import (
	"embed"
	"path"
)

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
