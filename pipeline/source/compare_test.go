package source

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// TestCompose edits a tree in memory and compares it with the tree that git
// writes for the same files.
func TestCompose(t *testing.T) {
	r := gittest.New(t)
	for _, name := range []string{"a", "d/x", "d/y", "d.c", "gone/only", "swap"} {
		r.Write(t, name, name+"\n")
	}
	from := r.Commit(t, "from")
	r.Git(t, "rm", "-rq", "gone", "swap", "d/y")
	r.Write(t, "a", "new a\n")
	r.Write(t, "swap/in", "now a folder\n")
	r.Write(t, "new/deep/file", "new\n")
	to := r.Commit(t, "to")
	repo := open(t, r.Dir)
	c, err := repo.Compare(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	var edits []Edit
	for _, ch := range c.Changes {
		paths = append(paths, ch.Path)
		edits = append(edits, Edit{Path: ch.Path, New: ch.New})
	}
	if want := []string{"a", "d/y", "gone/only", "new/deep/file", "swap", "swap/in"}; !slices.Equal(paths, want) {
		t.Fatalf("changed paths %q, want %q", paths, want)
	}
	tree := func(edits ...Edit) string {
		t.Helper()
		id, err := c.Compose(edits)
		if err != nil {
			t.Fatal(err)
		}
		made, err := repo.Commit(id)
		if err != nil || !slices.Equal(made.Parents, []string{from}) {
			t.Fatalf("composed commit %+v, %v", made, err)
		}
		return made.Tree
	}
	if got, want := tree(edits...), r.Git(t, "rev-parse", to+"^{tree}"); got != want {
		t.Errorf("all edits give tree %s, want %s", got, want)
	}
	if got, want := tree(), r.Git(t, "rev-parse", from+"^{tree}"); got != want {
		t.Errorf("no edits give tree %s, want %s", got, want)
	}
	written := Edit{Path: "a", New: &Entry{Mode: ModeFile}, Content: func() string { return "new a\n" }}
	if got, want := tree(written), tree(edits[0]); got != want {
		t.Errorf("the same content as a function gives tree %s, want %s", got, want)
	}
	if _, err := c.Compose(edits[5:]); err == nil || !strings.Contains(err.Error(), "both a file and a folder") {
		t.Errorf("swap/in beside the file swap: %v", err)
	}
	if data, ok, err := c.Blob(edits[0].New.ID, 100); string(data) != "new a\n" || !ok || err != nil {
		t.Errorf("blob %q, %t, %v", data, ok, err)
	}
	if _, ok, err := c.Blob(edits[0].New.ID, 3); ok || err != nil {
		t.Errorf("a blob above the limit: %t, %v", ok, err)
	}
	if _, _, err := c.Blob(strings.Repeat("1", 40), 100); !errors.As(err, new(*MissingError)) {
		t.Errorf("an object that is not there: %v", err)
	}
}
