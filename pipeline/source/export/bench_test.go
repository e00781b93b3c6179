package export

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func BenchmarkSwitch(b *testing.B) {
	r := gittest.LongHistory(b, 400)
	ids := strings.Fields(r.Git(b, "rev-list", "--first-parent", "main"))
	e := export(b, open(b, r.Dir))
	hop(b, e, ids[0], true)
	n := 0
	for b.Loop() {
		n += 37
		hop(b, e, ids[n%len(ids)], n%2 == 0)
	}
}

// BenchmarkLargeTrees fills and empties a slot, and reports how many times as long as git that takes.
func BenchmarkLargeTrees(b *testing.B) {
	r := gittest.New(b)
	r.Write(b, "ok", "1")
	first := r.Commit(b, "first")
	blob := r.Git(b, "rev-parse", "HEAD:ok")
	deep := r.Pipe(b, "100644 blob "+blob+"\tf\n", "mktree")
	for i := range 1200 {
		deep = r.Pipe(b, fmt.Sprintf("040000 tree %s\td%d\n100644 blob %s\tg\n", deep, i%10, blob), "mktree")
	}
	var s strings.Builder
	s.WriteString("commit refs/heads/wide\ncommitter C <c@example.com> 1700000001 +0000\ndata 1\nx\n")
	for i := range 200_000 {
		fmt.Fprintf(&s, "M 100644 inline d%d/e%d/f%d\ndata %d\n%d\n", i%40, i/40%50, i, len(fmt.Sprint(i)), i)
	}
	r.Pipe(b, s.String(), "fast-import", "--quiet")
	for name, tree := range map[string]string{"1200 deep": deep, "200000 files": r.Git(b, "rev-parse", "wide^{tree}")} {
		b.Run(name, func(b *testing.B) {
			commit := r.CommitTree(b, tree, r.Date, first)
			e := export(b, open(b, r.Dir))
			hop(b, e, first, true)
			var ours, gits time.Duration
			for b.Loop() {
				at := time.Now()
				hop(b, e, commit, true)
				hop(b, e, first, true)
				ours += time.Since(at)
				at = time.Now()
				out := b.TempDir()
				r.Git(b, "--work-tree="+out, "read-tree", "-u", "--reset", commit)
				r.Git(b, "--work-tree="+out, "read-tree", "-u", "--reset", first)
				gits += time.Since(at)
			}
			b.ReportMetric(float64(ours)/float64(gits), "×git")
		})
	}
}
