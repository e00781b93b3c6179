package source

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/source/internal/cachefile"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
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

const many = 500 // trees more are worth a file

// TestKeptKeys: fingerprints are the same the second time, when no tree is read; a file that is damaged is none, and one that
// lies is noticed.
func TestKeptKeys(t *testing.T) {
	r := keptHistory(t, 2*many)
	ranged := func() (*Repo, *Range, int) {
		repo := open(t, r.Dir)
		trees := countedTrees{Reader: repo.read.Objects}
		repo.read.Objects = &trees
		rng, err := repo.Range(t.Context(), "first", "main", RangeOptions{Paths: []string{"f"}})
		if err != nil {
			t.Fatal(err)
		}
		return repo, rng, trees.opened
	}
	_, want, opened := ranged()
	files, err := filepath.Glob(filepath.Join(r.Dir, ".git/kbisect/keys-*"))
	if opened < many || err != nil || len(files) != 1 {
		t.Fatal(opened, files, err)
	}
	honest, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, got, opened := ranged(); opened != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("the second time %d trees were read", opened)
	}
	if err := os.WriteFile(files[0], honest[:len(honest)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	if _, got, opened := ranged(); opened < many || !reflect.DeepEqual(got, want) {
		t.Errorf("a damaged file: %d trees were read", opened)
	}
	culprit := want.Commits[len(want.Commits)-5]
	parent := want.Commits[culprit.InRange[0]]
	cachefile.Write(files[0], []byte(strings.Replace(cachefile.Read(files[0]), culprit.Key, parent.Key, 1)))
	repo, got, _ := ranged()
	if reflect.DeepEqual(got, want) {
		t.Fatal("there is no lie")
	}
	if err := Vouch(t.Context(), repo, got, culprit.ID); err != nil || !Misled(repo) {
		t.Error("the lie was not noticed", err)
	}
	if got, err := repo.Range(t.Context(), "first", "main", RangeOptions{Paths: []string{"f"}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Error("it was not made again", err)
	}
}

type countedTrees struct {
	objects.Reader
	opened int
}

func (c *countedTrees) Open(id string) (string, int64, io.ReadCloser, error) {
	kind, size, r, err := c.Reader.Open(id)
	if kind == "tree" {
		c.opened++
	}
	return kind, size, r, err
}
