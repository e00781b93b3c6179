package detect

import (
	"path/filepath"

	"github.com/kbisect/kbisect/kernels"
)

// findScript accepts everything and comes last. It runs a script with a customary name, if there is one.
func findScript(d *folder) (project, bool) {
	p := project{Kind: kernels.KindCommand, What: "an unrecognised project type"}
	if files := findSubmissions(d); len(files) > 0 {
		return problemProject(d, "", files[0]), true
	}
	switch script := d.first("bench.sh", "benchmark.sh", "run.sh", "bench.py", "benchmark.py", "main.py"); filepath.Ext(script) {
	case ".sh":
		p.Run = []string{"sh", script}
	case ".py":
		p.Run = []string{"python3", script}
	}
	return p, true
}

// benchScript is a Python benchmark with a customary name; "" if there is none.
func benchScript(d *folder) string {
	return d.first("bench.py", "benchmark.py", "run_bench.py")
}

// runPython runs a benchmark script rather than the file itself, which would only be imported.
func runPython(d *folder, p *project, file string) {
	if bench := benchScript(d); bench != "" {
		p.Run = []string{"python3", bench}
		return
	}
	if d.has(file) {
		p.Run = []string{"python3", file}
		p.Notes = []string{"This imports " + file + " and runs only its top level; name your benchmark instead,",
			"or add a reference.py with generate_input and ref_kernel and run kbisect init again."}
	}
}
