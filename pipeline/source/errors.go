package source

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// NotAncestorError says that the good end is not an ancestor of the bad one,
// so that there is no range between them.
type NotAncestorError struct {
	Good, Bad string // commit ids
	MergeBase string // the best common ancestor, "" when there is none
	Shallow   bool   // the history is cut, so the answer may be wrong
}

func (e *NotAncestorError) Error() string {
	msg := fmt.Sprintf("good commit %s is not an ancestor of bad commit %s", short(e.Good), short(e.Bad))
	switch {
	case e.Shallow:
		return msg + " in this shallow clone\nhint: git fetch --unshallow (or git fetch --deepen=1000), then try again"
	case e.MergeBase == e.Bad && e.Bad != "":
		return msg + "; it comes after it\nhint: are the two ends swapped?"
	case e.MergeBase != "":
		return fmt.Sprintf("%s\nhint: use their merge base as the good end: --good %s", msg, e.MergeBase)
	}
	return msg + "; they have no common history\nhint: choose two commits of one history"
}

// EmptyRangeError says that both ends are the same commit.
type EmptyRangeError struct {
	Commit string // commit id
}

func (e *EmptyRangeError) Error() string {
	return fmt.Sprintf("good and bad are the same commit %s\nhint: name an older commit that is still good", short(e.Commit))
}

// NotFoundError says that a revision names no commit of the repository.
type NotFoundError struct {
	Rev     string
	Near    []string // branches and tags with similar names
	Shallow bool     // the commit may lie beyond the border of a shallow clone
	Reason  string   // what is known besides, or ""
	Lacks   string   // the name that is there, and lacks the ancestor asked for, or ""
	Empty   bool     // HEAD leads to no commit: there is none yet
}

func (e *NotFoundError) Error() string {
	if e.Empty {
		return "this repository has no commit yet\nhint: git add and git commit make the first; a search needs at least two"
	}
	msg := fmt.Sprintf("revision %q names no commit here", e.Rev)
	if e.Reason != "" {
		msg = fmt.Sprintf("revision %q: %s", e.Rev, e.Reason)
	}
	if e.Lacks != "" && !e.Shallow {
		return fmt.Sprintf("%s: %s has no such ancestor\nhint: git log --oneline %[2]s lists those it has", msg, e.Lacks)
	}
	if len(e.Near) > 0 {
		msg += "\nhint: did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	if e.Reason == "" && len(e.Near) == 0 && !e.Shallow {
		msg += "\nhint: git log --oneline lists commits, git tag and git branch their names"
	}
	if e.Shallow {
		msg += "\nhint: this clone is shallow; git fetch --unshallow (or git fetch --deepen=1000) brings older commits"
	}
	return msg
}

// UnsupportedError says that a file of a commit cannot be written as Git
// would write it.
type UnsupportedError struct {
	Commit    string // commit id
	Path      string // relative to the root of the repository
	Attribute string // such as "filter=crypt", "ident", "submodule", "path"
	Reason    string
	Hint      string
}

func (e *UnsupportedError) Error() string {
	msg := fmt.Sprintf("commit %s: %q: %s (%s)", short(e.Commit), e.Path, e.Reason, e.Attribute)
	if e.Hint != "" {
		msg += "\nhint: " + e.Hint
	}
	return msg
}

// MissingError says that the repository lacks an object.
type MissingError struct{ id string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("object %s is missing\nhint: the repository is not whole: git fsck tells what it lacks, git fetch --refetch may bring it", e.id)
}

func isMissing(err error) bool {
	var m *MissingError
	return errors.As(err, &m)
}

// writeError wraps a failure to change the slot and says what to do about it.
func writeError(dir, what string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("export into %s: %s: %w\nhint: free space there, or choose another folder", dir, what, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("export into %s: %s: %w\nhint: make that folder writable, or choose another one", dir, what, err)
	}
	return fmt.Errorf("export into %s: %s: %w", dir, what, err)
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}
