package hunks

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// BenchmarkHunks splits a large change: 60 files of 2,000 lines edited, 20 of
// them renamed besides.
func BenchmarkHunks(b *testing.B) {
	r := gittest.New(b)
	rng := rand.New(rand.NewPCG(1, 9))
	texts := make([]string, 60)
	for i := range texts {
		texts[i] = randomText(rng, 2000, 500)
		r.Write(b, fmt.Sprintf("old/f%d.cu", i), texts[i])
	}
	from := r.Commit(b, "from")
	for i, text := range texts {
		name := fmt.Sprintf("old/f%d.cu", i)
		if i < 20 {
			r.Git(b, "mv", name, fmt.Sprintf("new%d.cu", i))
			name = fmt.Sprintf("new%d.cu", i)
		}
		r.Write(b, name, strings.ReplaceAll(editText(rng, text, 200), "\r", ""))
	}
	to := r.Commit(b, "to")
	repo := open(b, r.Dir)
	b.Run("compare", func(b *testing.B) {
		for b.Loop() {
			hunks(b, repo, from, to)
		}
	})
	d := hunks(b, repo, from, to)
	b.Run("apply", func(b *testing.B) {
		for b.Loop() {
			apply(b, d, randomSet(rng, d)...)
		}
	})
}
