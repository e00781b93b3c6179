package source

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// longHistory makes n commits, every fifth a merge, over 200 files in folders,
// and packs them as a clone has them. Each commit changes one file; a tenth of
// them that below k.
func longHistory(b *testing.B, n int) *gittest.Repo {
	b.Helper()
	r := gittest.New(b)
	var s strings.Builder
	data := func(text string) { fmt.Fprintf(&s, "data %d\n%s\n", len(text), text) }
	for i := range n {
		fmt.Fprintf(&s, "commit refs/heads/main\nmark :%d\ncommitter C <c@example.com> %d +0000\n", i+1, 1600000000+i)
		data(fmt.Sprint("commit ", i))
		if i > 0 {
			fmt.Fprintf(&s, "from :%d\n", i)
		}
		if i%5 == 4 {
			fmt.Fprintf(&s, "merge :%d\n", i-2)
		}
		if i == 0 {
			for f := range 200 {
				fmt.Fprintf(&s, "M 100644 inline d%d/sub/f%d\n", f%10, f)
				data(strings.Repeat(fmt.Sprintf("line of %d\n", f), 50))
			}
		}
		name := fmt.Sprintf("d%d/sub/f%d", i%10, i%200)
		if i%10 == 0 {
			name = "k/kern.cu"
		}
		fmt.Fprintf(&s, "M 100644 inline %s\n", name)
		data(fmt.Sprintf("version %d\n%s", i, strings.Repeat("more\n", 50)))
	}
	r.Pipe(b, s.String(), "fast-import", "--quiet")
	r.Git(b, "reset", "-q", "--hard", "main")
	return r
}

// BenchmarkRange reports how many times as long as git's own listing, without contents, a range takes.
func BenchmarkRange(b *testing.B) {
	r := longHistory(b, 4000)
	for _, graph := range []bool{false, true} {
		if graph {
			r.Git(b, "commit-graph", "write", "--reachable")
		}
		b.Run(fmt.Sprintf("graph=%v", graph), func(b *testing.B) {
			var ours, gits time.Duration
			for b.Loop() {
				at := time.Now()
				r.Git(b, "rev-list", "--topo-order", "--parents", "main~3000..main")
				gits += time.Since(at)
				at = time.Now()
				repo := open(b, r.Dir)
				rng, err := repo.Range(b.Context(), "main~3000", "main", RangeOptions{Paths: []string{"k", "d3/sub/f3"}})
				if err != nil || len(rng.Commits) < 3000 {
					b.Fatal(err)
				}
				repo.Close()
				ours += time.Since(at)
			}
			b.ReportMetric(float64(ours)/float64(gits), "×git")
		})
	}
}

func BenchmarkSwitch(b *testing.B) {
	r := longHistory(b, 400)
	ids := strings.Fields(r.Git(b, "rev-list", "--first-parent", "main"))
	repo := open(b, r.Dir)
	e, err := repo.Export(b.Context(), filepath.Join(b.TempDir(), "slot"))
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	hop(b, e, ids[0], true)
	n := 0
	for b.Loop() {
		n += 37
		hop(b, e, ids[n%len(ids)], n%2 == 0)
	}
}

func BenchmarkChanges(b *testing.B) {
	r := longHistory(b, 2000)
	ids := strings.Fields(r.Git(b, "rev-list", "main"))
	repo := open(b, r.Dir)
	for b.Loop() {
		for _, id := range ids[:500] {
			if _, err := repo.ChangedFiles(b.Context(), id); err != nil {
				b.Fatal(err)
			}
		}
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
