package source

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// BenchmarkRange reports how many times as long as git's own listing, without contents, a range takes.
func BenchmarkRange(b *testing.B) {
	r := gittest.LongHistory(b, 4000)
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

func BenchmarkChanges(b *testing.B) {
	r := gittest.LongHistory(b, 2000)
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
