package commits

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// written is a commit-graph of git of a history with an octopus and dates that do not fit into 31 bits, and its ends.
func written(t testing.TB) (data []byte, first, last string) {
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q")
	commit := "commit refs/heads/x\nmark :%\ncommitter C <c@example.com> @ +0000\ndata 1\nx\n"
	var s strings.Builder
	for _, c := range [][3]string{{"1", "9000000000"}, {"2", "1600000000", "from :1\n"}, {"3", "1600000001", "from :1\n"}, {"4", "1600000002", "from :1\n"}, {"5", "1600000003", "from :2\nmerge :3\nmerge :4\n"}, {"6", "1600000004", "from :5\n"}} {
		s.WriteString(strings.NewReplacer("%", c[0], "@", c[1]).Replace(commit) + c[2] + "\n")
	}
	git(s.String(), "fast-import", "--quiet")
	git("", "commit-graph", "write", "--reachable")
	data, err := os.ReadFile(filepath.Join(dir, ".git/objects/info/commit-graph"))
	if err != nil {
		t.Fatal(err)
	}
	return data, git("", "rev-list", "--max-parents=0", "x"), git("", "rev-parse", "x")
}

// FuzzGraph: a commit-graph that is damaged, and has the right checksum for it, is refused or leads to commits of the graph.
func FuzzGraph(f *testing.F) {
	data, first, last := written(f)
	whole := &Graph{idLen: 20, dates: true}
	if err := whole.add(data, nil); err != nil || whole.Len() != 6 {
		f.Fatal("the graph that git has written is refused", err)
	}
	if nodes, err := whole.Between(first, last, false, 0, nil); err != nil || len(nodes) != 5 {
		f.Fatal(len(nodes), "commits", err)
	}
	f.Add(uint16(0), []byte{})
	for at := 0; at < len(data)-20; at += 7 {
		f.Add(uint16(at), []byte{0xff})
		f.Add(uint16(at), []byte{0, 0, 0, 0x7f})
	}
	f.Fuzz(func(t *testing.T, at uint16, with []byte) {
		wrong := slices.Clone(data[:len(data)-20])
		copy(wrong[min(int(at), len(wrong)):], with)
		sum := sha1.Sum(wrong)
		g := &Graph{idLen: 20, dates: true}
		if g.add(append(wrong, sum[:]...), nil) != nil {
			return
		}
		for i := range g.Len() {
			id := hex.EncodeToString(g.ID(i))
			g.Node(id)
			for k := range g.Len() {
				for _, firstParent := range []bool{false, true} {
					nodes, err := g.Between(id, hex.EncodeToString(g.ID(k)), firstParent, 0, func(id string) (*Node, error) { return nil, errDamaged })
					if err == nil && len(nodes) >= g.Len() {
						t.Errorf("%d commits between two of %d", len(nodes), g.Len())
					}
				}
			}
		}
	})
}
