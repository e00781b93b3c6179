package main

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
	if want := []string{"inc/tile.cuh", "src/near.h", "inc/deep/shape.h"}; !slices.Equal(got, want) || !slices.Equal(s.folders, []string{"inc", "more"}) {
		t.Errorf("%q, in folders %q", got, s.folders)
	}
	r := newRepo(t)
	r.write("k.cu", "#include \"tile.h\"\n")
	r.write("tile.h", "1")
	r.write("other.h", "")
	r.commit("first")
	repo, err := source.Open(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	p := &policy{Paths: []string{"k.cu"}, CUDA: sourcesOf([]string{"k.cu"}, nil)}
	head, err := repo.Resolve("HEAD")
	if err != nil {
		t.Fatal(err)
	}
	p.addHeaders(repo, head, "", head)
	if !slices.Equal(p.Paths, []string{"k.cu", "tile.h"}) || !slices.Equal(p.ownPaths(), []string{"k.cu"}) {
		t.Errorf("%q, %q", p.Paths, p.ownPaths())
	}
	everything := &policy{CUDA: p.CUDA}
	if everything.addHeaders(repo, head); everything.Paths != nil {
		t.Errorf("without paths all count, not %q", everything.Paths)
	}
}
