package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each path is reported once, the first few by name and the others as a number.
func TestNotices(t *testing.T) {
	n := notices{unwritten: map[string]bool{}}
	n.exports([]string{"lib: submodule without its commit", "a: LFS", "b: LFS", "c: LFS"})
	n.exports([]string{"lib: submodule without another commit", "d: LFS"})
	n.outside([]string{"x.h", "y.h"})
	n.outside([]string{"x.h", "y.h", "z.h", "v.h", "w.h"})
	var firsts []string
	for _, text := range n.texts {
		first, _, _ := strings.Cut(text, "\nhint: ")
		firsts = append(firsts, first)
	}
	outside := func(name string) string {
		return "the build reads " + name + ", which is outside the paths: commits that change only that file are not tested"
	}
	want := []string{
		"lib: submodule without its commit", "a: LFS", "b: LFS", "1 file more could not be exported as in the commit", "d: LFS",
		outside("x.h"), outside("y.h"), outside("z.h"), "the build reads 2 files more outside the paths",
	}
	if d := cmp.Diff(want, firsts); d != "" {
		t.Error(d)
	}
	before := slices.Clone(n.texts)
	if n.once(before[0]); !slices.Equal(before, n.texts) {
		t.Error("a notice came twice")
	}
}
