package search

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// The prior weights of commits, before anything is launched: one that changes a kernel's source is more likely to
// slow a metric down. The ratio is small enough for a wrong guess to cost little: log2(20), about four halvings.
const (
	kernelWeight = 20
	otherWeight  = 1
	mostWeighed  = 2000 // commits; a comparison of two trees takes about a millisecond
)

// priors are the prior weights of the commits of a range, in its order and not normalised; nil if they would all be
// equal or would take long to find out.
func priors(ctx context.Context, s *session.Session, commits []bisect.Commit) []float64 {
	if len(commits) > mostWeighed {
		return nil
	}
	out := make([]float64, len(commits))
	kernel, other := 0, 0
	for i, c := range commits {
		out[i] = otherWeight
		if c.Neutral || len(c.Parents) > 1 { // a merge repeats the changes of its branch
			continue
		}
		files, err := s.Repo.ChangedFiles(ctx, c.ID)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil { // its files are not known; it keeps the smaller weight
			other++
			continue
		}
		if slices.ContainsFunc(files, func(f source.FileChange) bool { return isKernelSource(f.Path, s.Policy.Paths, s.Policy.Plan) }) {
			out[i] = kernelWeight
			kernel++
		} else {
			other++
		}
	}
	// Weights are relative: with one kind of commit they say nothing.
	if kernel == 0 || other == 0 {
		return nil
	}
	if s.Display.Verbose {
		s.Display.Say(fmt.Sprintf("%d commits change kernel sources: %d times the prior weight of the other %d", kernel, kernelWeight, other))
	}
	return out
}

// isKernelSource reports a file that is compiled into a kernel, judged by its name. If there are paths it must lie
// below one of them, and files that steer the build count, too. C++ sources and headers count, since host and
// device code share them.
func isKernelSource(name string, paths []string, plan kernels.Plan) bool {
	source := slices.Contains([]string{".cu", ".cuh", ".py", ".cpp", ".c", ".h", ".ptx"}, path.Ext(name))
	if len(paths) == 0 {
		return source
	}
	builds := []string{"Makefile", "CMakeLists.txt", "setup.py", "pyproject.toml"}
	return policy.Covers(paths, name) && (source || path.Ext(name) == ".cmake" || slices.Contains(builds, path.Base(name)) || plan.IsBuildFile(name))
}
