package kernels

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDeps(t *testing.T) {
	got, err := Deps([]byte("k : k.cu \\\n    /usr/include/stdc-predef.h \\\r\n    h.cuh \\\n    sp\\ ace/h#2.cuh a\\#b.h c$$d.h back\\slash.h k.cu\n\nh.cuh:\n# a comment\n\tC:/win.h:\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/usr/include/stdc-predef.h", "a#b.h", "back\\slash.h", "c$d.h", "h.cuh", "k.cu", "sp ace/h#2.cuh"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	inside := Inputs("/x/tree", "/x/tree", append(got, "../other/x.h", "/x/tree/sub/../y.h"))
	if d := cmp.Diff([]string{"a#b.h", "back\\slash.h", "c$d.h", "h.cuh", "k.cu", "sp ace/h#2.cuh", "y.h"}, inside); d != "" {
		t.Error(d)
	}
	if got := Inputs("/x/tree", "/x/tree/sub", []string{"a.h", "../b.h", "../../c.h"}); !slices.Equal(got, []string{"sub/a.h", "b.h"}) {
		t.Errorf("of a build in a folder: %q", got)
	}
	for _, bad := range []string{"no rule here", "a b c\nd: e"} {
		if _, err := Deps([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if _, err := Deps([]byte("a: " + strings.Repeat("b ", maxDeps+1))); err == nil {
		t.Error("any number of paths is kept")
	}
}

func FuzzDeps(f *testing.F) {
	f.Add([]byte("k : k.cu \\\n  h.cuh\n"))
	f.Add([]byte("a\\ b: c\\#d $$ \\"))
	f.Fuzz(func(t *testing.T, data []byte) {
		deps, err := Deps(data)
		if err != nil {
			return
		}
		if !slices.IsSorted(deps) || slices.Contains(deps, "") {
			t.Errorf("%q", deps)
		}
		inside := Inputs("/r", "/r", deps)
		for _, p := range inside {
			if strings.HasPrefix(p, "/") || p == ".." || strings.HasPrefix(p, "../") {
				t.Errorf("%q is not inside", p)
			}
		}
	})
}
