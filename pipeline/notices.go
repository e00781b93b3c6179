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
	unwritten map[string]bool     // paths with a warning: they could not be exported as in the commit
	others    map[string][]string // by metric of which some cases were asked for: the cases that trials sent
}

// once adds a text unless it is there: many trials have the same to say.
func (n *notices) once(text string) {
	if !slices.Contains(n.texts, text) {
		n.texts = append(n.texts, text)
	}
}

// again takes in what a trial reported in an earlier attempt, so that its paths are not reported again.
func (n *notices) again(texts []string) {
	for _, text := range texts {
		n.once(text)
		n.unread(text)
	}
}

// unread reports that no warning about the same path came before, and notes the path, with which a warning begins.
func (n *notices) unread(warning string) bool {
	path, _, _ := strings.Cut(warning, ": ")
	if n.unwritten[path] {
		return false
	}
	n.unwritten[path] = true
	return true
}

// exports takes in warnings about what could not be exported as it is in a commit. Each path is reported once, although
// the next commit may have another version of the same submodule, for example.
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
		n.once(files(more) + " more could not be exported as in the commit")
	}
}

// outside warns about files that a build reads and that --path leaves out: a commit that changes only such files is not
// tried, and could be the one that is looked for.
func (n *notices) outside(names []string) {
	const most = 3
	for _, name := range names[:min(most, len(names))] {
		n.once(fmt.Sprintf("the build reads %s, which is outside the paths: commits that change only that file are not tested\nhint: add it to paths (--path)", name))
	}
	if more := len(names) - most; more > 0 {
		n.once("the build reads " + files(more) + " more outside the paths")
	}
}

// cases notes which cases a program has sent, of metrics of which some were asked for. Those of kernels are noted by
// the name of their function alone.
func (n *notices) cases(all []bisect.Series, wanted Cases) {
	const most = 200
	for _, s := range all {
		if len(wanted[s.Metric]) == 0 || len(s.Values) == 0 || len(n.others[s.Metric]) >= most {
			continue
		}
		name := s.Case
		if slices.Contains(cuda.StaticMetrics(), s.Metric) {
			name = cuda.Names(s.Case)[0]
		}
		if !slices.Contains(n.others[s.Metric], name) {
			n.others[s.Metric] = append(n.others[s.Metric], name)
		}
	}
}

// files is "1 file" or "2 files".
func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}
