package hunks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// randomText makes lines over a few words, so that many are equal.
func randomText(rng *rand.Rand, lines, words int) string {
	var b strings.Builder
	for range lines {
		fmt.Fprintf(&b, "%*s%d", rng.IntN(3), "", rng.IntN(words))
		b.WriteString([]string{"\n", "\n", "\n", "\r\n"}[rng.IntN(4)])
	}
	text := b.String()
	if rng.IntN(3) == 0 {
		text = strings.TrimRight(text, "\r\n")
	}
	return text
}

// editText changes some lines of a text.
func editText(rng *rand.Rand, text string, edits int) string {
	lines := splitLines(text)
	for range edits {
		at := rng.IntN(len(lines) + 1)
		end := min(len(lines), at+rng.IntN(3))
		with := splitLines(randomText(rng, rng.IntN(3), 9))
		lines = slices.Concat(lines[:at], with, lines[end:])
	}
	for i := range max(len(lines)-1, 0) { // only the last may lack its end
		if !strings.HasSuffix(lines[i], "\n") {
			lines[i] += "\n"
		}
	}
	return strings.Join(lines, "")
}

// checkSpans verifies that spans are the maximal blocks between two texts.
func checkSpans(t gittest.Failer, old, new []string, spans []span) {
	t.Helper()
	i, j := 0, 0
	for n, s := range append(slices.Clone(spans), span{len(old), len(old), len(new), len(new)}) {
		gap := s.oldStart - i
		if gap < 0 || gap != s.newStart-j || !slices.Equal(old[i:s.oldStart], new[j:s.newStart]) {
			t.Fatalf("block %d %v: what stands before it is not equal", n, s)
		}
		if n > 0 && n < len(spans) && gap == 0 || n < len(spans) && s.old() == 0 && s.new() == 0 {
			t.Fatalf("block %d %v of %v is not maximal, or empty", n, s, spans)
		}
		i, j = s.oldEnd, s.newEnd
	}
}

// checkHunks verifies what holds for any two texts and any subset.
func checkHunks(t gittest.Failer, a, b string, pick uint64) {
	t.Helper()
	old, new := splitLines(a), splitLines(b)
	spans := diffLines(old, new)
	checkSpans(t, old, new, spans)
	if got := compose(old, new, spans); got != b {
		t.Fatalf("all: got %q, want %q", got, b)
	}
	if got := compose(old, new, nil); got != a {
		t.Fatalf("none: got %q, want %q", got, a)
	}
	var on []span
	var want []string
	at := 0
	for i, s := range spans {
		want = append(want, old[at:s.oldStart]...)
		if pick>>(i%64)&1 == 1 {
			on = append(on, s)
			want = append(want, new[s.newStart:s.newEnd]...)
		} else {
			want = append(want, old[s.oldStart:s.oldEnd]...)
		}
		at = s.oldEnd
	}
	want = append(want, old[at:]...)
	mixed := compose(old, new, on)
	if mixed != strings.Join(want, "") {
		t.Fatalf("subset %x: got %q, want %q", pick, mixed, want)
	}
	f := &changedFile{oldLines: old, newLines: new}
	for i, s := range spans {
		checkParts(t, f, s, pick>>(i%64))
	}
}

// checkParts verifies the division of a block.
func checkParts(t gittest.Failer, f *changedFile, s span, pick uint64) {
	t.Helper()
	parts := f.divide(s)
	i, j := s.oldStart, s.newStart
	for n, p := range parts {
		if p.oldStart-i != p.newStart-j || !slices.Equal(f.oldLines[i:p.oldStart], f.newLines[j:p.newStart]) {
			t.Fatalf("%v in parts %v: something is left out before part %d", s, parts, n)
		}
		if len(parts) > maxParts || p.old() == 0 && p.new() == 0 {
			t.Fatalf("%v in parts %v", s, parts)
		}
		i, j = p.oldEnd, p.newEnd
	}
	if !slices.Equal(f.oldLines[i:s.oldEnd], f.newLines[j:s.newEnd]) {
		t.Fatalf("%v in parts %v: the end is left out", s, parts)
	}
	if got, want := compose(f.oldLines, f.newLines, parts), compose(f.oldLines, f.newLines, []span{s}); got != want {
		t.Fatalf("all parts of %v: got %q, want %q", s, got, want)
	}
	if len(parts) == 1 {
		if s.old() > 1 || s.new() > 1 {
			// Only where all but one line of each side are in truth equal.
			if p := parts[0]; p.old() > 1 || p.new() > 1 {
				t.Fatalf("%v is not divided: %v", s, parts)
			}
		}
		return
	}
	var on []span
	for n, p := range parts {
		if pick>>(n%64)&1 == 1 {
			on = append(on, p)
		}
		if p.old()+p.new() >= s.old()+s.new() {
			t.Fatalf("part %v of %v is no smaller", p, s)
		}
	}
	compose(f.oldLines, f.newLines, on)
}

func TestDiffLinesRandom(t *testing.T) {
	for seed := range uint64(2500) {
		rng := rand.New(rand.NewPCG(seed, 7))
		a := randomText(rng, rng.IntN(30), 1+rng.IntN(12))
		b := randomText(rng, rng.IntN(30), 1+rng.IntN(12))
		if seed%3 > 0 {
			b = editText(rng, a, rng.IntN(6))
		}
		checkHunks(t, a, b, rng.Uint64())
	}
}

func FuzzHunks(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nB\nc\nd", uint64(1))
	f.Add("a\r\nb", "a\nb\n", uint64(2))
	f.Add("", "x\n\ny\n", uint64(3))
	f.Add("a\na\na\na\n", "a\nb\na\n", uint64(5))
	f.Add("}\n\n}\n\n", "}\n\n}\n\n}\n\n", uint64(1))
	f.Fuzz(func(t *testing.T, a, b string, pick uint64) { checkHunks(t, a, b, pick) })
}

// distance is the length of a shortest edit script, by the table.
func distance(a, b []int32) int {
	best := make([][]int, len(a)+1)
	for i := range best {
		best[i] = make([]int, len(b)+1)
		for j := range best[i] {
			switch {
			case i == 0 || j == 0:
				best[i][j] = i + j
			case a[i-1] == b[j-1]:
				best[i][j] = best[i-1][j-1]
			default:
				best[i][j] = 1 + min(best[i-1][j], best[i][j-1])
			}
		}
	}
	return best[len(a)][len(b)]
}

func TestScriptIsShortest(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 8))
		side := func() []int32 {
			out := make([]int32, rng.IntN(40))
			for i := range out {
				out[i] = int32(rng.IntN(1 + int(seed%9)))
			}
			return out
		}
		d := &lineDiff{a: side(), b: side()}
		d.oldGone, d.newCame = make([]bool, len(d.a)), make([]bool, len(d.b))
		d.region(span{0, len(d.a), 0, len(d.b)}, maxDepth)
		got := 0
		for _, s := range blocks(d.oldGone, d.newCame) {
			got += s.old() + s.new()
		}
		if want := distance(d.a, d.b); got != want {
			t.Fatalf("seed %d: %v to %v in %d edits, want %d", seed, d.a, d.b, got, want)
		}
	}
}

func TestSlide(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"f {\n  a\n}\n\ng {\n  b\n}\n", "f {\n  a\n}\n\nh {\n  c\n}\n\ng {\n  b\n}\n", "h {\n  c\n}\n\n"},
		{"f {\n  a\n}\n", "f {\n  a\n}\n\ng {\n  a\n}\n", "\ng {\n  a\n}\n"},
		{"{\n  // doc\n  int c;\n}\n", "{\n  // doc\n  int b;\n\n  // doc\n  int c;\n}\n", "  // doc\n  int b;\n\n"},
		{"{\n  if (a) {\n    x;\n  }\n}\n", "{\n  if (a) {\n    x;\n  }\n  if (b) {\n    y;\n  }\n}\n", "  if (b) {\n    y;\n  }\n"},
	} {
		for _, back := range []bool{false, true} {
			old, new := splitLines(c.old), splitLines(c.new)
			if back {
				old, new = new, old
			}
			spans := diffLines(old, new)
			if len(spans) != 1 {
				t.Errorf("%q: got %v", c.want, spans)
				continue
			}
			got := strings.Join(new[spans[0].newStart:spans[0].newEnd], "")
			if back {
				got = strings.Join(old[spans[0].oldStart:spans[0].oldEnd], "")
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		}
	}
}

// TestLongFiles bounds the effort on long files by a wide margin: the
// quadratic methods would need minutes.
func TestLongFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	unique := make([]string, 100000)
	for i := range unique {
		unique[i] = fmt.Sprintf("  x[%d] = y;\n", i)
	}
	edited := slices.Clone(unique)
	for range 2000 {
		edited[rng.IntN(len(edited))] = "  changed;\n"
	}
	few := func(words int) []string {
		out := make([]string, 12000)
		for i := range out {
			out[i] = fmt.Sprintf("%d\n", rng.IntN(words))
		}
		return out
	}
	shuffled := slices.Clone(unique[:30000])
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	reversed := slices.Clone(unique)
	slices.Reverse(reversed)
	long := strings.Repeat("z", 8<<20)
	for _, c := range []struct {
		name     string
		old, new []string
	}{
		{"edited", unique, edited}, {"shuffled", unique[:30000], shuffled}, {"few words", few(40), few(40)},
		{"two words", few(2), few(2)}, {"other", unique, few(1 << 30)}, {"reversed", unique, reversed},
		{"long lines", []string{long + "\n", "a\n"}, []string{long + "!\n", "a\n"}},
	} {
		start := time.Now()
		spans := diffLines(c.old, c.new)
		t.Logf("%s: %d blocks in %v", c.name, len(spans), time.Since(start))
		checkSpans(t, c.old, c.new, spans)
		if got := compose(c.old, c.new, spans); got != strings.Join(c.new, "") {
			t.Errorf("%s: all hunks do not give the new text", c.name)
		}
		if c.name == "edited" {
			start = time.Now()
			checkParts(t, &changedFile{oldLines: c.old, newLines: c.new}, span{0, len(c.old), 0, len(c.new)}, rng.Uint64())
			t.Logf("%s: divided as one block in %v", c.name, time.Since(start))
		}
	}
}
