package detect

import (
	"bytes"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels/kernelbot"
)

// torch is a submission by itself: kbisect's driver runs it where there is a reference to hold it
// against, else the project's own benchmark.
func (d *detector) torch() (project, bool) {
	if !bytes.Contains(d.read("submission.py"), []byte("custom_kernel")) {
		return project{}, false
	}
	p := project{kind: config.KindTorch, what: "a PyTorch submission (custom_kernel in submission.py)"}
	if bytes.Contains(d.read("reference.py"), []byte("generate_input")) {
		p.task = config.TaskConfig{Submission: "submission.py", Reference: "reference.py"}
		return p, true
	}
	if kernelbot.ReadDirectives(d.read("submission.py")).Leaderboard != "" {
		return d.problem("", "submission.py"), true
	}
	p.kind = config.KindCommand
	d.pythonRun(&p, "submission.py")
	return p, true
}

func (d *detector) benchScript() string {
	return d.first("bench.py", "benchmark.py", "run_bench.py")
}

// pythonRun prefers a benchmark over the file itself, which is only loaded.
func (d *detector) pythonRun(p *project, file string) {
	if bench := d.benchScript(); bench != "" {
		p.run = []string{"python3", bench}
		return
	}
	if d.has(file) {
		p.run = []string{"python3", file}
		p.notes = []string{"This loads " + file + " and runs what stands at its top level; name your benchmark instead,",
			"or add a reference.py with generate_input and ref_kernel and run kbisect init again."}
	}
}
