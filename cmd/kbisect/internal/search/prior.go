package search

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source"
)

// What is known of a commit before anything is launched: one that changes a file of the kernels is the
// likelier culprit of a slow metric. The ratio is small enough for a wrong guess to cost little.
const (
	kernelWeight = 20
	otherWeight  = 1
	mostWeighed  = 2000 // commits; a comparison of two trees takes about a millisecond
)

// Weights are the prior weights of the commits of a range, nil where they would say nothing or take
// long to find out.
func (j *Search) Weights(commits []bisect.Commit) []float64 {
	if len(commits) > mostWeighed {
		return nil
	}
	out := make([]float64, len(commits))
	kernel, other := 0, 0
	for i, c := range commits {
		out[i] = otherWeight
		if c.Neutral || len(c.Parents) > 1 { // what a merge brings, its branch has brought
			continue
		}
		files, err := j.session.Repo.ChangedFiles(c.ID)
		if err != nil { // the search does without
			return nil
		}
		if slices.ContainsFunc(files, func(f source.FileChange) bool { return OfKernel(f.Path, j.session.Policy.Paths) }) {
			out[i] = kernelWeight
			kernel++
		} else {
			other++
		}
	}
	if kernel == 0 || other == 0 {
		return nil
	}
	if j.session.Display.Verbose {
		j.session.Display.Say(fmt.Sprintf("%d commits change files of the kernels and are suspected %d times as much as the %d others", kernel, kernelWeight, other))
	}
	return out
}

// OfKernel reports a file that goes into a kernel: by its name, and where paths are given it must lie
// there, which then holds for the build's files too.
func OfKernel(name string, paths []string) bool {
	sources := []string{".cu", ".cuh", ".py", ".cpp", ".c", ".h", ".ptx"}
	builds := []string{"Makefile", "CMakeLists.txt", "setup.py", "pyproject.toml"}
	if len(paths) == 0 {
		return slices.Contains(sources, path.Ext(name))
	}
	inside := slices.ContainsFunc(paths, func(p string) bool {
		p = path.Clean(p)
		return p == "." || name == p || strings.HasPrefix(name, p+"/")
	})
	return inside && (slices.Contains(sources, path.Ext(name)) || path.Ext(name) == ".cmake" || slices.Contains(builds, path.Base(name)))
}
