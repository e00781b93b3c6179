package detect

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/kernelbot"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// versionSuffix matches the version at the end of a leaderboard's name.
var versionSuffix = lazy.Pattern(`-v[0-9]+$`)

// customKernel matches the definition of what KernelBot calls.
var customKernel = lazy.Pattern(`(?m)^(def custom_kernel\b|custom_kernel *=)`)

// findKernelbot recognises a KernelBot problem folder, here or below. The submission is the first file that names
// one of the problems in a directive, else the one at the top, else the one in the problem folder, which may only
// be an example.
func findKernelbot(d *folder) (project, bool) {
	problems := findProblems(d)
	if len(problems) == 0 {
		return project{}, false
	}
	files := findSubmissions(d)
	if own := ownKernel(d); own != "" && (len(files) == 0 || slices.Contains(problems, path.Dir(files[0]))) {
		return unassigned(d, problems, own), true
	}
	for _, file := range files {
		if found := problemsFor(d, file, problems); len(found) > 0 {
			p := submitted(d, file, found, files)
			isBare := func(dir string) bool {
				return !slices.ContainsFunc(files, func(f string) bool { return path.Dir(f) == dir })
			}
			if slices.Contains(problems, path.Dir(file)) && slices.ContainsFunc(problems, isBare) {
				p.Judged = append(p.Judged, oneOfMany(problems)) // an example: the user's own may be missing still
			}
			return p, true
		}
	}
	if len(files) > 0 {
		return problemProject(d, "", files[0]), true
	}
	return unassigned(d, problems, ""), true
}

// unassigned is the project of a submission that does not say which problem it is for. An empty file stands for the
// one with the customary name.
func unassigned(d *folder, problems []string, file string) project {
	chosen := problems[0]
	if i := slices.IndexFunc(problems, func(dir string) bool { return besideProblem(d, dir) != "" }); i >= 0 {
		chosen = problems[i]
	}
	p := problemProject(d, chosen, file)
	if len(problems) > 1 {
		p.Judged = append(p.Judged, oneOfMany(problems))
	}
	return p
}

// ownKernel is a file at the top that defines what KernelBot calls but names no leaderboard; "" if there is none.
func ownKernel(d *folder) string {
	for _, file := range d.files {
		if !strings.HasPrefix(file, "template") && path.Ext(file) == ".py" && customKernel().Match(d.read(file)) && kernelbot.ReadDirectives(d.read(file)).Leaderboard == "" {
			return file
		}
	}
	return ""
}

// oneOfMany names what the user has to choose from.
func oneOfMany(problems []string) string {
	return fmt.Sprintf("FILL IN: this is one of %d problem folders here; name yours.", len(problems))
}

// submitted is the project of one submission, with comments on other problems and submissions.
func submitted(d *folder, file string, problems, files []string) project {
	const most = 3
	p := problemProject(d, problems[0], file)
	if len(problems) > 1 {
		p.Judged = append(p.Judged, fmt.Sprintf("FILL IN: %d problem folders here have this name: %s.", len(problems), strings.Join(problems[:min(most, len(problems))], ", ")))
	}
	isExample := func(f string) bool { return d.isPlain(path.Join(path.Dir(f), "task.yml")) }
	others := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return f == file || isExample(f) && !isExample(file) })
	if len(others) > 0 {
		p.Judged = append(p.Judged, "Other submissions here: "+strings.Join(others[:min(most, len(others))], ", ")+"; name the one that is meant.")
	}
	return p
}

// problemsFor lists the problems that a submission may be for: the one in whose folder it lies, else those with the
// name in its directive, else those whose names differ only in the version.
func problemsFor(d *folder, file string, problems []string) (found []string) {
	for _, dir := range problems {
		if dir == path.Dir(file) || dir != "." && strings.HasPrefix(file, dir+"/") {
			return []string{dir}
		}
	}
	wanted := kernelbot.ReadDirectives(d.read(file)).Leaderboard
	if wanted == "" {
		return nil
	}
	called := leaderboards(d, problems)
	// An exact name comes first: v1 and v2 of a problem often lie side by side.
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

// leaderboards maps problem folders to their names in the lists of problems (*.yaml) in the folders above them.
func leaderboards(d *folder, problems []string) map[string]string {
	out, seen := map[string]string{}, map[string]bool{}
	for _, dir := range problems {
		for above := path.Dir(dir); !seen[above]; above = path.Dir(above) {
			seen[above] = true
			lists, _ := filepath.Glob(filepath.Join(d.dir, filepath.FromSlash(above), "*.yaml"))
			for _, list := range lists {
				for _, p := range kernelbot.ParseProblems(d.read(path.Join(above, filepath.Base(list)))) {
					out[path.Join(above, p.Folder)] = p.Leaderboard
				}
			}
		}
	}
	return out
}

// directiveNotes describes what the submission asks of KernelBot's server.
func directiveNotes(words kernelbot.Directives) (notes []string) {
	if words.Leaderboard != "" {
		notes = append(notes, "The submission is for the leaderboard "+words.Leaderboard+".")
	}
	if len(words.GPUs) > 0 {
		notes = append(notes, "It is ranked on "+strings.Join(words.GPUs, ", ")+"; times on another device may differ.")
	}
	for _, w := range words.Unknown {
		notes = append(notes, "#!POPCORN "+w+": unknown directive, which KernelBot ignores.")
	}
	return notes
}

// problemProject is the project of a problem folder, "" if unknown, and a submission, "" for the one at the top or
// in the problem folder.
func problemProject(d *folder, dir, file string) project {
	p := project{Kind: kernels.KindKernelbot, What: "a submission to KernelBot", Task: config.TaskConfig{Problem: dir, Submission: file}}
	if dir != "" {
		p.What = "a KernelBot problem folder (" + path.Join(dir, "task.yml") + ")"
	}
	if file == "" {
		p.Task.Submission = submissionFor(d, dir)
	}
	words := kernelbot.ReadDirectives(d.read(p.Task.Submission))
	p.Judged = directiveNotes(words)
	if dir == "" {
		p.Judged = append(p.Judged, "No problem folder here is called "+words.Leaderboard+"; name the right one.",
			"It may lie outside the repository; the judge in it, which is the server's, runs here.")
	}
	if !d.isPlain(p.Task.Submission) {
		p.Judged = append(p.Judged, "FILL IN: "+p.Task.Submission+" does not exist; name yours.")
	}
	p.Paths = []string{p.Task.Submission} // the judge is the same for all commits
	return p
}

// submissionFor is the submission of a problem: a file at the top or in the problem's folder, or the name it should
// have.
func submissionFor(d *folder, dir string) string {
	name := "submission.py"
	if t, err := kernelbot.ParseTask(d.read(path.Join(dir, "task.yml"))); err == nil {
		name = t.Submission()
	}
	for _, file := range []string{name, "submission.py", besideProblem(d, dir)} {
		if file != "" && d.isPlain(file) {
			return file
		}
	}
	return name
}

// besideProblem is the submission in a problem folder; "" if there is none.
func besideProblem(d *folder, dir string) string {
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

// problemName is the form in which names of folders and directives are compared.
func problemName(s string) string {
	return strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(s), "_", "-"), "-py")
}

// unversioned is problemName without the version of a leaderboard.
func unversioned(s string) string {
	return versionSuffix().ReplaceAllString(problemName(s), "")
}

// findProblems lists the folders with a task.yml that has a place for a submission, nearest first.
func findProblems(d *folder) (out []string) {
	d.below(searchDepth, func(file string) {
		if path.Base(file) == "task.yml" && d.isPlain(file) && bytes.Contains(d.read(file), []byte(kernelbot.SubmissionMark)) {
			out = append(out, path.Dir(file))
		}
	})
	nearestFirst(out)
	return out
}

// findSubmissions lists the files that name a leaderboard in a directive, except templates: nearest first, and the
// examples in problem folders last.
func findSubmissions(d *folder) (out []string) {
	var examples []string
	d.below(searchDepth+1, func(file string) {
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

// nearestFirst sorts by depth and, in a folder, puts a file of the customary name first.
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
