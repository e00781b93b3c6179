package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
)

// Bounds on the search for problems.
const (
	problemDepth   = 3
	problemEntries = 4000
)

// kernelbot is a problem folder, here or below. The submission is the one at the top, which may name the
// problem in a directive, or else the one beside the problem, which may be an example.
func (d *detector) kernelbot() (project, bool) {
	problems := d.problems()
	if len(problems) == 0 {
		return project{}, false
	}
	chosen := problems[0]
	words := kernels.ReadDirectives(d.read("submission.py"))
	wanted := problemName(words.Leaderboard)
	for _, dir := range problems {
		beside := d.isPlain(path.Join(dir, "submission.py"))
		switch {
		case wanted != "" && problemName(path.Base(dir)) == wanted:
			return d.problem(dir), true
		case beside && !d.isPlain(path.Join(chosen, "submission.py")):
			chosen = dir
		}
	}
	p := d.problem(chosen)
	switch {
	case wanted != "":
		p.judged = append(p.judged, fmt.Sprintf("No folder here is called %s: name the right one.", words.Leaderboard))
	case len(problems) > 1:
		p.judged = append(p.judged, fmt.Sprintf("FILL IN: there are %d problem folders here, of which this is one; name yours.", len(problems)))
	}
	return p, true
}

// directiveNotes says what the submission asks of KernelBot's server.
func directiveNotes(words kernels.Directives) (notes []string) {
	if words.Leaderboard != "" {
		notes = append(notes, "The submission is for the leaderboard "+words.Leaderboard+".")
	}
	if len(words.GPUs) > 0 {
		notes = append(notes, "It is ranked on "+strings.Join(words.GPUs, ", ")+": times of another device may tell another story.")
	}
	for _, w := range words.Unknown {
		notes = append(notes, "#!POPCORN "+w+": KernelBot's client does not know this word, and passes it over.")
	}
	return notes
}

func (d *detector) problem(dir string) project {
	p := project{kind: kindKernelbot, what: "a KernelBot problem folder (" + path.Join(dir, "task.yml") + ")"}
	p.task = TaskConfig{Problem: dir, Submission: "submission.py"}
	if t, err := kernels.ParseTask(d.read(path.Join(dir, "task.yml"))); err == nil {
		p.task.Submission = t.Submission()
	}
	if beside := path.Join(dir, p.task.Submission); d.isPlain(beside) && !d.isPlain(p.task.Submission) {
		p.task.Submission = beside
	}
	p.judged = directiveNotes(kernels.ReadDirectives(d.read(p.task.Submission)))
	if !d.isPlain(p.task.Submission) {
		p.judged = append(p.judged, "FILL IN: there is no "+p.task.Submission+"; name yours.")
	}
	p.paths = []string{p.task.Submission} // nothing else of the candidate is looked at
	return p
}

// problemName compares names as written in folders and in directives.
func problemName(s string) string {
	return strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(s), "_", "-"), "-py")
}

// problems lists the folders that hold a task.yml with a place for a submission, the nearest first.
func (d *detector) problems() []string {
	var out []string
	seen := 0
	_ = filepath.WalkDir(d.dir, func(name string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(d.dir, name)
		if seen++; err != nil || relErr != nil || seen > problemEntries {
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel = filepath.ToSlash(rel)
		if e.IsDir() {
			if rel != "." && (strings.HasPrefix(e.Name(), ".") || strings.Count(rel, "/") >= problemDepth) {
				return fs.SkipDir
			}
			return nil
		}
		if e.Name() == "task.yml" && d.isPlain(rel) && bytes.Contains(d.read(rel), []byte(kernels.SubmissionMark)) {
			out = append(out, path.Dir(rel))
		}
		return nil
	})
	slices.SortStableFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(path.Clean(a), "/"), strings.Count(path.Clean(b), "/")), cmp.Compare(a, b))
	})
	return out
}

// torch is a submission by itself: kbisect's driver runs it where there is a reference to hold it
// against, else the project's own benchmark.
func (d *detector) torch() (project, bool) {
	if !bytes.Contains(d.read("submission.py"), []byte("custom_kernel")) {
		return project{}, false
	}
	p := project{kind: kindTorch, what: "a PyTorch submission (custom_kernel in submission.py)"}
	if bytes.Contains(d.read("reference.py"), []byte("generate_input")) {
		p.task = TaskConfig{Submission: "submission.py", Reference: "reference.py"}
		return p, true
	}
	p.kind = kindCommand
	d.pythonRun(&p, "submission.py")
	if words := kernels.ReadDirectives(d.read("submission.py")); words.Leaderboard != "" {
		p.what = "a submission to KernelBot without its problem folder"
		p.notes = append(directiveNotes(words), "With a copy of its problem folder, anywhere, the server's own judge runs here: kind = \"kernelbot\",",
			"[task] problem = \"FOLDER OF task.yml\" and submission = \"submission.py\"; then leave command out.")
	}
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
