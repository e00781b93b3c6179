package main

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
)

// A commit-graph that hides commits, the culprit among them, is noticed when a commit is read that it lies about. The
// search goes on in the true range, with the launches that were made.
func TestCommitGraphThatLies(t *testing.T) {
	t.Parallel()
	x := lesson{
		base: map[string]string{"t.sh": reads + "grep -q fine value\n", "value": "fine\n"},
		at:   map[int]map[string]string{7: {"value": "broken\n"}},
	}
	r, ids := x.make(t)
	r.git("commit-graph", "write", "--reachable")
	file := filepath.Join(r.dir, ".git/objects/info/commit-graph")
	graph, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := hex.DecodeString(r.git("rev-parse", ids[8]+"^{tree}"))
	if err != nil {
		t.Fatal(err)
	}
	parent := slices.Index(slices.Sorted(slices.Values(ids)), ids[5]) // of commit 8, whose parent is 7
	binary.BigEndian.PutUint32(graph[bytes.LastIndex(graph, tree)+20:], uint32(parent))
	sum := sha1.Sum(graph[:len(graph)-20])
	if err := errors.Join(os.Remove(file), os.WriteFile(file, append(graph[:len(graph)-20], sum[:]...), 0o444)); err != nil {
		t.Fatal(err)
	}
	d := r.finding(0, "--no-hunks", "--good", ids[0], "--", "sh", "t.sh")
	if d.Result != bisect.Found || d.Culprits[0].Commit != ids[7] || d.Range != 12 || !strings.Contains(strings.Join(d.Warnings, "\n"), "the range was made again") {
		t.Errorf("%s: found %v in %d commits: %q", d.Result, d.Culprits, d.Range, d.Warnings)
	}
}
