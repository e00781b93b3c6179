package hook

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/pipeline/source"
)

// pushedRef is one line that git writes to a pre-push hook: one ref of the remote that the push would change.
type pushedRef struct {
	local             string // id of the object that is pushed; zeros for a deletion
	remoteRef, remote string // its name there, and the id of the object there now; zeros if it is new
}

// zero reports the object id that stands for none.
func zero(id string) bool { return strings.Trim(id, "0") == "" }

// name is the ref for people.
func (p pushedRef) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.remoteRef, "refs/heads/"), "refs/tags/")
}

// readPushed reads git's lines to their end:
//
//	LOCAL-REF SP LOCAL-ID SP REMOTE-REF SP REMOTE-ID LF
//
// LOCAL-REF is whatever the user typed and may contain spaces, so that the fields are counted from the end.
func readPushed(r io.Reader) ([]pushedRef, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading what is pushed: %w", err)
	}
	var out []pushedRef
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			continue
		}
		f := strings.Split(line, " ")
		n := len(f)
		if n < 4 || !baseline.ObjectID(f[n-3]) || !baseline.ObjectID(f[n-1]) || !strings.HasPrefix(f[n-2], "refs/") {
			return nil, fmt.Errorf("reading what is pushed: unexpected line %q (git writes local ref, id, remote ref, id)", words.Printable(line[:min(len(line), 200)]))
		}
		out = append(out, pushedRef{f[n-3], f[n-2], f[n-1]})
	}
	return out, nil
}

// skipReason says why a ref is not checked; "" if it is.
func (p pushedRef) skipReason() string {
	switch {
	case zero(p.local):
		return "deleted"
	case strings.HasPrefix(p.remoteRef, "refs/tags/"):
		return "tag"
	case strings.HasPrefix(p.remoteRef, "refs/heads/"), strings.HasPrefix(p.remoteRef, "refs/for/"): // refs/for: Gerrit
		return ""
	}
	return "not a branch"
}

// baseOf finds the commit that a pushed one is compared with, and its name for people: what the remote has at the
// ref or, for a new branch, the nearest first parent that the remote has on any branch. Both are "" if there is
// none.
func baseOf(ctx context.Context, repo *source.Repo, remote string, p pushedRef, commit string) (base, name string) {
	note := ""
	if !zero(p.remote) {
		if id, err := repo.Resolve(ctx, p.remote); err == nil {
			return id, p.name() + " on " + remote
		}
		note = "; its " + p.name() + " is not fetched"
	}
	for _, refs := range []string{"--remotes=" + remote, "--remotes"} {
		if base = nearestPushed(ctx, repo, refs, commit); base != "" {
			return base, "the nearest commit on " + remote + note
		}
	}
	return "", ""
}

// nearestPushed is the first commit on the first-parent line that one of the remote-tracking refs contains; "" if
// none. git walks a long history faster than we would; with --boundary it prints, after a dash, where the new
// commits begin.
func nearestPushed(ctx context.Context, repo *source.Repo, refs, commit string) string {
	if strings.ContainsAny(refs, ":*?[\\ ") { // a push to a URL has no refs of its own
		return ""
	}
	known, err := gitOutput(ctx, repo, "rev-list", "--max-count=1", refs)
	if err != nil || known == "" {
		return ""
	}
	out, err := gitOutput(ctx, repo, "rev-list", "--first-parent", "--boundary", commit, "--not", refs)
	if err != nil {
		return ""
	}
	if out == "" {
		return commit
	}
	for line := range strings.Lines(out) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "-"); ok {
			return id
		}
	}
	return ""
}
