package source

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xrash/smetrics"

	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// splitRev cuts "v1^2~3" into "v1" and "^2~3".
func splitRev(rev string) (base, steps string) {
	if at := strings.IndexAny(rev, "^~"); at >= 0 {
		return rev[:at], rev[at:]
	}
	return rev, ""
}

// nearNames picks up to three names that a mistyped one may have meant.
func nearNames(rev string, names []string) []string {
	base, _ := splitRev(rev)
	if base == "" || len(base) > 200 {
		return nil
	}
	type scored struct {
		name string
		dist int
	}
	var near []scored
	seen := map[string]bool{}
	for _, name := range names {
		d := smetrics.WagnerFischer(strings.ToLower(base), strings.ToLower(name), 1, 1, 1)
		if len(base) >= 3 && strings.Contains(strings.ToLower(name), strings.ToLower(base)) {
			d = min(d, 1)
		}
		if d <= max(1, len(base)/3) && !seen[name] {
			seen[name] = true
			near = append(near, scored{name, d})
		}
	}
	slices.SortFunc(near, func(a, b scored) int { return cmp.Or(a.dist-b.dist, strings.Compare(a.name, b.name)) })
	var out []string
	for _, s := range near[:min(3, len(near))] {
		out = append(out, s.name)
	}
	return out
}

// notFoundError says that a revision is not a commit of the repository.
type notFoundError struct {
	Rev     string
	Near    []string // branches and tags with similar names
	Shallow bool     // the commit may lie beyond the border of a shallow clone
	Reason  string   // more about it, or ""
	Lacks   string   // the name that exists without the ancestor asked for, or ""
	Empty   bool     // there are no commits yet
}

func (e *notFoundError) Error() string {
	if e.Empty {
		return "this repository has no commits yet\nhint: a search needs at least two"
	}
	msg := fmt.Sprintf("unknown revision %q", e.Rev)
	if e.Reason != "" {
		msg = fmt.Sprintf("revision %q: %s", e.Rev, e.Reason)
	}
	if e.Lacks != "" && !e.Shallow {
		return fmt.Sprintf("%s: %s has no such ancestor\nhint: git log --oneline %[2]s lists its ancestors", msg, e.Lacks)
	}
	if len(e.Near) > 0 {
		msg += "\nhint: did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	if e.Reason == "" && len(e.Near) == 0 && !e.Shallow {
		msg += "\nhint: git log --oneline lists commits; git tag and git branch list names"
	}
	if e.Shallow {
		msg += "\nhint: this clone is shallow; git fetch --unshallow (or git fetch --deepen=1000) brings older commits"
	}
	return msg
}

// notAncestorError says that the good end is not an ancestor of the bad one, so that there is no
// range between them.
type notAncestorError struct {
	Good, Bad string // commit ids
	MergeBase string // the best common ancestor, "" when there is none
	Shallow   bool   // the history is cut, so the answer may be wrong
}

func (e *notAncestorError) Error() string {
	msg := fmt.Sprintf("good commit %s is not an ancestor of bad commit %s", objects.Short(e.Good), objects.Short(e.Bad))
	switch {
	case e.Shallow:
		return msg + " in this shallow clone\nhint: git fetch --unshallow (or git fetch --deepen=1000), then try again"
	case e.MergeBase == e.Bad && e.Bad != "":
		return msg + "; it is a descendant of it\nhint: are the two ends swapped?"
	case e.MergeBase != "":
		return fmt.Sprintf("%s\nhint: use their merge base as the good end: --good %s", msg, e.MergeBase)
	}
	return msg + "; they have no common history\nhint: choose two commits of one history"
}

// emptyRangeError says that both ends are the same commit.
type emptyRangeError struct {
	Commit string // commit id
}

func (e *emptyRangeError) Error() string {
	return fmt.Sprintf("good and bad are the same commit %s\nhint: name an older commit that is still good",
		objects.Short(e.Commit))
}
