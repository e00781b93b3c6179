package detect

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels/kernelbot"
)

// Bounds on the search for problems and for what is submitted to them.
const (
	problemDepth   = 3
	problemEntries = 4000
)

// kernelbot is a problem folder, here or below. The submission is the first that names one of the problems in
// a directive, or else the one at the top, or else the one beside the problem, which may be an example.
func (d *detector) kernelbot() (project, bool) {
	problems := d.problems()
	if len(problems) == 0 {
		return project{}, false
	}
	files := d.submissions()
	if own := d.ownKernel(); own != "" && (len(files) == 0 || slices.Contains(problems, path.Dir(files[0]))) {
		return d.unnamed(problems, own), true
	}
	for _, file := range files {
		if found := d.problemsOf(file, problems); len(found) > 0 {
			p := d.submitted(file, found, files)
			isBare := func(dir string) bool {
				return !slices.ContainsFunc(files, func(f string) bool { return path.Dir(f) == dir })
			}
			if slices.Contains(problems, path.Dir(file)) && slices.ContainsFunc(problems, isBare) {
				p.judged = append(p.judged, oneOfMany(problems)) // an example: the own one may be still to come
			}
			return p, true
		}
	}
	if len(files) > 0 {
		return d.problem("", files[0]), true
	}
	return d.unnamed(problems, ""), true
}

// unnamed is the project of a submission, "" for the customary one, that does not say which of the problems it is for.
func (d *detector) unnamed(problems []string, file string) project {
	chosen := problems[0]
	if i := slices.IndexFunc(problems, func(dir string) bool { return d.beside(dir) != "" }); i >= 0 {
		chosen = problems[i]
	}
	p := d.problem(chosen, file)
	if len(problems) > 1 {
		p.judged = append(p.judged, oneOfMany(problems))
	}
	return p
}

// ownKernel is a file at the top that defines what KernelBot calls, "" where there is none or it says itself which
// leaderboard it is for.
func (d *detector) ownKernel() string {
	for _, file := range d.files {
		if !strings.HasPrefix(file, "template") && d.definesKernel(file) && kernelbot.ReadDirectives(d.read(file)).Leaderboard == "" {
			return file
		}
	}
	return ""
}

func (d *detector) definesKernel(file string) bool {
	return path.Ext(file) == ".py" && regexp.MustCompile(`(?m)^(def custom_kernel\b|custom_kernel *=)`).Match(d.read(file))
}

func oneOfMany(problems []string) string {
	return fmt.Sprintf("FILL IN: there are %d problem folders here, of which this is one; name yours.", len(problems))
}

// submitted is the project of one submission, with a word about other problems and submissions.
func (d *detector) submitted(file string, problems, files []string) project {
	const most = 3
	p := d.problem(problems[0], file)
	if len(problems) > 1 {
		p.judged = append(p.judged, fmt.Sprintf("FILL IN: %d problem folders here have this name: %s.", len(problems), strings.Join(problems[:min(most, len(problems))], ", ")))
	}
	isExample := func(f string) bool { return d.isPlain(path.Join(path.Dir(f), "task.yml")) }
	others := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return f == file || isExample(f) && !isExample(file) })
	if len(others) > 0 {
		p.judged = append(p.judged, "Other submissions here: "+strings.Join(others[:min(most, len(others))], ", ")+"; kbisect init FILE writes this file for one.")
	}
	return p
}

// submission is the project of a file that says that it is for a leaderboard, or that lies in a problem folder.
func (d *detector) submission(file string) (project, bool) {
	isSubmitted := kernelbot.ReadDirectives(d.read(file)).Leaderboard != ""
	if !isSubmitted && !bytes.Contains(d.read(file), []byte("custom_kernel")) {
		return project{}, false
	}
	if found := d.problemsOf(file, d.problems()); len(found) > 0 {
		return d.submitted(file, found, nil), true
	}
	return d.problem("", file), isSubmitted
}

// problemsOf are the problems that a submission is for: the folder that it lies in, else those that are called as
// its directive says, else those of which only the version has another name.
func (d *detector) problemsOf(file string, problems []string) (found []string) {
	for _, dir := range problems {
		if dir == path.Dir(file) || dir != "." && strings.HasPrefix(file, dir+"/") {
			return []string{dir}
		}
	}
	wanted := kernelbot.ReadDirectives(d.read(file)).Leaderboard
	if wanted == "" {
		return nil
	}
	called := d.leaderboards(problems)
	for _, plain := range []func(string) string{problemName, unversioned} {
		for _, dir := range problems {
			if plain(path.Base(dir)) == plain(wanted) || plain(called[dir]) == plain(wanted) {
				found = append(found, dir)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	return found
}

// leaderboards are the names that the lists of problems, which lie above their folders, give to these.
func (d *detector) leaderboards(problems []string) map[string]string {
	out, seen := map[string]string{}, map[string]bool{}
	for _, dir := range problems {
		for above := path.Dir(dir); !seen[above]; above = path.Dir(above) {
			seen[above] = true
			lists, _ := filepath.Glob(filepath.Join(d.dir, filepath.FromSlash(above), "*.yaml")) // the pattern is a fixed one
			for _, list := range lists {
				for _, p := range kernelbot.ParseProblems(d.read(path.Join(above, filepath.Base(list)))) {
					out[path.Join(above, p.Folder)] = p.Leaderboard
				}
			}
		}
	}
	return out
}

// directiveNotes says what the submission asks of KernelBot's server.
func directiveNotes(words kernelbot.Directives) (notes []string) {
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

// problem is the project of a problem folder, "" where it is not known, and a submission, "" for the one at
// the top or beside the problem.
func (d *detector) problem(dir, file string) project {
	p := project{kind: config.KindKernelbot, what: "a submission to KernelBot", task: config.TaskConfig{Problem: dir, Submission: file}}
	if dir != "" {
		p.what = "a KernelBot problem folder (" + path.Join(dir, "task.yml") + ")"
	}
	if file == "" {
		p.task.Submission = d.named(dir)
	}
	words := kernelbot.ReadDirectives(d.read(p.task.Submission))
	p.judged = directiveNotes(words)
	if dir == "" {
		p.judged = append(p.judged, "No folder here is called "+words.Leaderboard+": name the right one.",
			"A copy of the problem may lie anywhere; the server's own judge, which is in it, runs here.")
	}
	if !d.isPlain(p.task.Submission) {
		p.judged = append(p.judged, "FILL IN: there is no "+p.task.Submission+"; name yours.")
	}
	p.paths = []string{p.task.Submission} // nothing else of the candidate is looked at
	return p
}

// named is the submission of a problem: at the top or beside it, where there is one.
func (d *detector) named(dir string) string {
	name := "submission.py"
	if t, err := kernelbot.ParseTask(d.read(path.Join(dir, "task.yml"))); err == nil {
		name = t.Submission()
	}
	for _, file := range []string{name, "submission.py", d.beside(dir)} {
		if file != "" && d.isPlain(file) {
			return file
		}
	}
	return name
}

// beside is the submission in a problem folder, "" where there is none.
func (d *detector) beside(dir string) string {
	names := []string{"submission.py", "submission.cu"}
	if t, err := kernelbot.ParseTask(d.read(path.Join(dir, "task.yml"))); err == nil {
		names = append([]string{t.Submission()}, names...)
	}
	for _, name := range names {
		if file := path.Join(dir, name); d.isPlain(file) {
			return file
		}
	}
	return ""
}

// problemName compares names as written in folders and in directives.
func problemName(s string) string {
	return strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(s), "_", "-"), "-py")
}

// unversioned leaves out that a leaderboard is the second of its problem.
func unversioned(s string) string {
	return regexp.MustCompile(`-v[0-9]+$`).ReplaceAllString(problemName(s), "")
}

// problems lists the folders that hold a task.yml with a place for a submission, the nearest first.
func (d *detector) problems() (out []string) {
	d.below(problemDepth, func(file string) {
		if path.Base(file) == "task.yml" && d.isPlain(file) && bytes.Contains(d.read(file), []byte(kernelbot.SubmissionMark)) {
			out = append(out, path.Dir(file))
		}
	})
	nearestFirst(out)
	return out
}

// submissions lists the files that say in a directive which leaderboard they are for, but for templates: the
// nearest first, and those outside of problem folders before the examples in these.
func (d *detector) submissions() (out []string) {
	var examples []string
	d.below(problemDepth+1, func(file string) {
		name := path.Base(file)
		isSource := path.Ext(name) == ".py" || path.Ext(name) == ".cu"
		switch {
		case !isSource || strings.HasPrefix(name, "template") || !d.isPlain(file) || kernelbot.ReadDirectives(d.read(file)).Leaderboard == "":
		case !d.isPlain(path.Join(path.Dir(file), "task.yml")):
			out = append(out, file)
		case !d.isPlain("submission.py") || path.Dir(file) == ".": // else the one at the top is meant
			examples = append(examples, file)
		}
	})
	nearestFirst(out)
	nearestFirst(examples)
	return append(out, examples...)
}

// nearestFirst sorts by depth and, in a folder, a file of the customary name before others.
func nearestFirst(files []string) {
	other := func(file string) int {
		if strings.HasPrefix(path.Base(file), "submission.") {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(path.Clean(a), "/"), strings.Count(path.Clean(b), "/")),
			cmp.Compare(path.Dir(a), path.Dir(b)), cmp.Compare(other(a), other(b)), cmp.Compare(a, b))
	})
}

// below visits the files of the project down to a depth, as paths from its top.
func (d *detector) below(depth int, visit func(file string)) {
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
		switch {
		case !e.IsDir():
			visit(rel)
		case rel != "." && (strings.HasPrefix(e.Name(), ".") || strings.Count(rel, "/") >= depth):
			return fs.SkipDir
		}
		return nil
	})
}
