package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/cuda"
)

// notices are what a user should know about the whole job, each once.
type notices struct {
	texts     []string
	unwritten map[string]bool     // paths that were reported because they could not be exported
	others    map[string][]string // by metric: cases that were sent and do not count
}

// once adds a text unless it is there: many trials have the same to say.
func (n *notices) once(text string) {
	if !slices.Contains(n.texts, text) {
		n.texts = append(n.texts, text)
	}
}

// again takes in what a trial had reported that was made before.
func (n *notices) again(texts []string) {
	for _, text := range texts {
		n.once(text)
		n.unread(text)
	}
}

// unread reports that no warning about the path with which this one begins was taken in before.
func (n *notices) unread(warning string) bool {
	path, _, _ := strings.Cut(warning, ": ")
	if n.unwritten[path] {
		return false
	}
	if n.unwritten == nil {
		n.unwritten = map[string]bool{}
	}
	n.unwritten[path] = true
	return true
}

// exports takes in what of a commit could not be exported as it is, each path once: the next commit has another
// version of the same submodule.
func (n *notices) exports(warnings []string) {
	const most = 3
	var fresh []string
	for _, w := range warnings {
		if n.unread(w) {
			fresh = append(fresh, w)
		}
	}
	for _, w := range fresh[:min(most, len(fresh))] {
		n.once(w)
	}
	if more := len(fresh) - most; more > 0 {
		n.once("not exported as in the commit either: " + files(more) + " more")
	}
}

// outside warns about files that a build reads and the paths do not cover.
func (n *notices) outside(names []string) {
	const most = 3
	for _, name := range names[:min(most, len(names))] {
		n.once(fmt.Sprintf("the build reads %s, which is outside of the paths: commits that change only that are taken for equal\nhint: add it to paths (--path)", name))
	}
	if more := len(names) - most; more > 0 {
		n.once("outside of the paths as well: " + files(more) + " more that the build reads")
	}
}

// cases takes in which cases there are of metrics of which some were asked for.
func (n *notices) cases(all []bisect.Series, wanted Cases) {
	const most = 200
	for _, s := range all {
		if len(wanted[s.Metric]) == 0 || len(s.Values) == 0 || len(n.others[s.Metric]) >= most {
			continue
		}
		if n.others == nil {
			n.others = map[string][]string{}
		}
		name := s.Case
		if slices.Contains(cuda.StaticMetrics(), s.Metric) {
			name = kernelNames(s)[0]
		}
		if !slices.Contains(n.others[s.Metric], name) {
			n.others[s.Metric] = append(n.others[s.Metric], name)
		}
	}
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}
