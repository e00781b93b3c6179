package policy

import (
	"slices"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source"
)

// A header that no path names, and that a source includes, counts as an input of kind nvcc: the commit that
// changes it is not equal to its parent.
func TestHeadersCountAsPaths(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"src/k.cu": "#include <tile.cuh>\n#include \"near.h\"\n#include <vector>\n#include \"../../out.h\"\n", "src/near.h": "#include \"k.cu\"\n",
		"inc/tile.cuh": "#  include \"deep/shape.h\"\n", "inc/deep/shape.h": "", "tile.cuh": "not this one",
	}
	s := sourcesOf([]string{"src/k.cu"}, []string{"-O3", "-Iinc", "-I", "more", "-I/usr/include", "-I../up"})
	got := s.included(func(name string) ([]byte, bool) { text, ok := files[name]; return []byte(text), ok })
	if want := []string{"inc/tile.cuh", "src/near.h", "inc/deep/shape.h"}; !slices.Equal(got, want) || !slices.Equal(s.Folders, []string{"inc", "more"}) {
		t.Errorf("%q, in folders %q", got, s.Folders)
	}
	repo, dir := repoWith(t, map[string]string{"k.cu": "#include \"tile.h\"\n", "tile.h": "1", "other.h": ""})
	dir.Commit(t, "first")
	p := &Policy{Paths: []string{"k.cu"}, CUDA: sourcesOf([]string{"k.cu"}, nil)}
	head, err := source.Head(repo)
	if err != nil {
		t.Fatal(err)
	}
	EndsOf(p, repo).AddHeaders(head, "", head)
	if !slices.Equal(p.Paths, []string{"k.cu", "tile.h"}) || !slices.Equal(p.OwnPaths(), []string{"k.cu"}) {
		t.Errorf("%q, %q", p.Paths, p.OwnPaths())
	}
	everything := &Policy{CUDA: p.CUDA}
	if EndsOf(everything, repo).AddHeaders(head); everything.Paths != nil {
		t.Errorf("without paths all count, not %q", everything.Paths)
	}
}
