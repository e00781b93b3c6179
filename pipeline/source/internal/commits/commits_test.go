package commits

import (
	"strings"
	"testing"
)

// FuzzTake: whatever a list holds, its nodes have valid ids.
func FuzzTake(f *testing.F) {
	id := strings.Repeat("a1", 20)
	f.Add(id + " " + id + " 17 " + id + "\n" + id + " " + id + " -1")
	f.Add(id + " x 17\n\n \x00 \n" + id)
	f.Fuzz(func(t *testing.T, text string) {
		l := NewList("", 0)
		l.Take(text)
		for key, n := range l.nodes {
			for _, id := range append([]string{key, n.ID, n.Tree}, n.Parents...) {
				if invalid(id) {
					t.Fatalf("%q in %+v", id, n)
				}
			}
		}
		if len(l.nodes) != l.added {
			t.Fatalf("%d nodes, %d added", len(l.nodes), l.added)
		}
	})
}
