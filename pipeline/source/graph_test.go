package source

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
)

// keptHistory is a repository of so many commits with a merge every ten, and a store's folder.
func keptHistory(t *testing.T, n int) *gittest.Repo {
	t.Helper()
	r := gittest.New(t)
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "commit refs/heads/main\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata 1\nx\n", i, 1700000000+i)
		switch {
		case i > 1 && i%10 == 3:
			fmt.Fprintf(&b, "from :%d\n", i-2) // a branch beside the one before it
		case i%10 == 4:
			fmt.Fprintf(&b, "from :%d\nmerge :%d\n", i-2, i-1)
		case i > 1:
			fmt.Fprintf(&b, "from :%d\n", i-1)
		}
		fmt.Fprintf(&b, "M 100644 inline f\ndata <<E\n%d\nE\n\n", i)
	}
	r.Pipe(t, b.String(), "fast-import", "--quiet")
	r.Git(t, "tag", "first", r.Git(t, "rev-list", "--max-parents=0", "main"))
	if err := os.Mkdir(filepath.Join(r.Dir, ".git/kbisect"), 0o777); err != nil {
		t.Fatal(err)
	}
	return r
}

// wholeRange reads it, and says how many commits were read one by one.
func wholeRange(t *testing.T, dir string, alone bool) (rng *Range, read int) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.read.haveGit = r.read.haveGit && !alone
	if rng, err = r.Range(t.Context(), "first", "main", RangeOptions{}); err != nil {
		t.Fatal(err)
	}
	return rng, r.read.alone
}

// TestGraph: a long history is the same whether its commits are read one by one, listed by git or kept by an earlier
// process, which reads none; a damaged list is none.
func TestGraph(t *testing.T) {
	const n = 3 * many
	r := keptHistory(t, n)
	file := filepath.Join(r.Dir, ".git/kbisect/commits")
	want, read := wholeRange(t, r.Dir, true)
	if read != n || len(want.Commits) != n-1 {
		t.Fatalf("%d commits, %d read", len(want.Commits), read)
	}
	check := func(what string, fewest, most int) {
		t.Helper()
		got, read := wholeRange(t, r.Dir, false)
		if !reflect.DeepEqual(got, want) || read < fewest || read > most {
			t.Errorf("%s: another range, or %d commits read", what, read)
		}
	}
	check("kept", 0, 1)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("listed", many, many+20)
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kept[len(kept)/2] ^= 1
	if err := os.WriteFile(file, kept, 0o666); err != nil {
		t.Fatal(err)
	}
	check("damaged", many, many+20)
	check("kept again", 0, 1)
	r.Git(t, "replace", "--graft", "main~5", "first")
	if got, _ := wholeRange(t, r.Dir, false); len(got.Commits) == len(want.Commits) {
		t.Error("a replaced commit is kept as it was")
	}
}

// TestGraphThatLies: a commit that is not what the list says is not exported, and the list is gone.
func TestGraphThatLies(t *testing.T) {
	r := keptHistory(t, 2*many)
	file := filepath.Join(r.Dir, ".git/kbisect/commits")
	wholeRange(t, r.Dir, false)
	tip, old := r.Git(t, "rev-parse", "main"), r.Git(t, "rev-parse", "main~20")
	for name, lie := range map[string]func(n *commits.Node){
		"parents": func(n *commits.Node) { n.Parents = []string{old} },
		"tree":    func(n *commits.Node) { n.Tree = r.Git(t, "rev-parse", "main~20^{tree}") },
	} {
		list := commits.NewList(file, 0)
		lie(list.Get(tip))
		list.Keep()
		repo, err := Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := repo.read.node(tip); err != nil {
			t.Fatal(err)
		}
		e := export(t, repo)
		if _, err := e.Switch(t.Context(), old, true); err != nil {
			t.Errorf("%s: a commit that was not lied about: %v", name, err)
		}
		if _, err := e.Switch(t.Context(), tip, true); err == nil || !strings.Contains(err.Error(), "is not what the commit-graph or the kept list of commits says") {
			t.Errorf("%s: exported: %v", name, err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s: the list is still there", name)
		}
		repo.Close()
		wholeRange(t, r.Dir, false) // it is made anew
		if repo, err = Open(r.Dir); err != nil {
			t.Fatal(err)
		}
		if _, err := repo.Commit(tip); err != nil {
			t.Errorf("%s: made anew: %v", name, err)
		}
		repo.Close()
	}
}
