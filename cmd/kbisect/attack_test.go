package main

import (
	"fmt"
	"strings"
	"testing"
)

// A commit whose 30 objects name 10^9 files is set aside, and the search goes on to the culprit.
func TestTreeBomb(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	good := r.history(1, func(int) string { return "exit 0" })[0]
	kind, id := "100644 blob", r.git("rev-parse", "HEAD:n")
	for range 9 {
		var tree strings.Builder
		for i := range 10 {
			fmt.Fprintf(&tree, "%s %s\tn%d\n", kind, id, i)
		}
		kind, id = "040000 tree", r.pipe(tree.String(), "mktree")
	}
	root := r.pipe(r.git("ls-tree", "HEAD")+"\n"+kind+" "+id+"\tbomb\n", "mktree")
	bomb := r.pipe("bomb", "commit-tree", root, "-p", good)
	defused := r.pipe("defused", "commit-tree", good+"^{tree}", "-p", bomb)
	r.git("reset", "-q", "--soft", defused)
	r.write("test.sh", "#!/bin/sh\nexit 1\n")
	bad := r.commit("bad")
	d := r.finding(0, "--good", good, "--", "./test.sh")
	if len(d.Culprits) != 1 || d.Culprits[0].Commit != bad || !d.Culprits[0].Confirmed {
		t.Errorf("%+v", d.Culprits)
	}
}
