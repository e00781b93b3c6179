package hunks

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Bounds of Split.
const (
	maxParts       = 64      // parts of one division
	maxLinePairs   = 1 << 14 // pairs of a removed and an added line that are compared
	maxLineBytes   = 400     // bytes of a line that are compared
	minSimilarLine = 0.5     // share of common words from which two lines are versions of one
)

// Split divides hunk i and returns a Diff in which its n parts, i to i+n-1,
// have taken its place; with n = 0 it cannot be divided. A block is divided into
// its lines, a removed line together with the added one that replaces it, or
// into runs of lines if there are many, which can be divided again. An added
// file becomes an empty file and the lines that go into it.
//
// All parts together change what the hunk changed. Other hunks move by n-1
// places if they come after it; see [refine].
func (d *Diff) Split(i int) (parts *Diff, n int) {
	h := d.Hunks[i]
	f := h.file
	var into []Hunk
	switch {
	case h.Kind == Block:
		for _, s := range f.divide(h.span) {
			part := f.block(s)
			part.Requires = slices.Clone(h.Requires)
			into = append(into, part)
		}
	case h.Kind == Added && f.text && !h.divided && len(f.newLines) > 1:
		empty := Hunk{ID: "created " + h.File, Kind: Added, File: h.File, Requires: slices.Clone(h.Requires),
			Text: "the file, without its lines\n", file: f, divided: true}
		into = append(into, empty)
		for _, s := range f.divide(h.span) {
			part := f.block(s)
			part.Requires = []int{i}
			into = append(into, part)
		}
	}
	if len(into) < 2 {
		return d, 0
	}
	out := *d
	out.Hunks = slices.Concat(d.Hunks[:i], into, d.Hunks[i+1:])
	for k := i + len(into); k < len(out.Hunks); k++ {
		out.Hunks[k].Requires = refine(out.Hunks[k].Requires, i, len(into))
	}
	return &out, len(into)
}

// refine translates a set of hunks of a Diff into one of the Diff that
// Split(i) has made of it: i becomes its n parts.
func refine(set []int, i, n int) []int {
	if n == 0 {
		return slices.Clone(set)
	}
	var out []int
	for _, k := range set {
		switch {
		case k < i:
			out = append(out, k)
		case k > i:
			out = append(out, k+n-1)
		default:
			for part := range n {
				out = append(out, i+part)
			}
		}
	}
	return out
}

// divide cuts a block into parts that follow each other on both sides.
func (f *changedFile) divide(s span) []span {
	var lines []span
	// Lines that differ only in white space belong together, then those that are similar.
	for _, gap := range f.pairUp(s, &lines, f.equalLines(s)) {
		for _, rest := range f.pairUp(gap, &lines, f.similarLines(gap)) {
			lines = append(lines, rest.inStep()...)
		}
	}
	slices.SortFunc(lines, func(a, b span) int {
		return cmp.Or(a.oldStart-b.oldStart, a.newStart-b.newStart)
	})
	return f.gather(lines)
}

// pairUp appends the pairs that differ as blocks of one line to one line, and
// returns the gaps before, between and after all pairs.
func (f *changedFile) pairUp(s span, out *[]span, pairs [][2]int) (gaps []span) {
	at := s
	for _, p := range pairs {
		gaps = append(gaps, span{at.oldStart, p[0], at.newStart, p[1]})
		if f.oldLines[p[0]] != f.newLines[p[1]] {
			*out = append(*out, span{p[0], p[0] + 1, p[1], p[1] + 1})
		}
		at.oldStart, at.newStart = p[0]+1, p[1]+1
	}
	return append(gaps, at)
}

// inStep cuts a block of lines that are not similar: both sides advance evenly,
// and no part has more than one line of either.
func (s span) inStep() (out []span) {
	n, m := s.old(), s.new()
	parts := max(n, m)
	for k := range parts {
		out = append(out, span{s.oldStart + k*n/parts, s.oldStart + (k+1)*n/parts, s.newStart + k*m/parts, s.newStart + (k+1)*m/parts})
	}
	return out
}

// equalLines pairs the lines of a block that differ in white space only.
func (f *changedFile) equalLines(s span) (pairs [][2]int) {
	if s.old() == 0 || s.new() == 0 {
		return nil
	}
	bare := func(lines []string) []string {
		out := make([]string, len(lines))
		for i, line := range lines {
			out[i] = strings.Join(strings.Fields(line), " ")
		}
		return out
	}
	old, new := bare(f.oldLines[s.oldStart:s.oldEnd]), bare(f.newLines[s.newStart:s.newEnd])
	i, j := 0, 0
	for _, gap := range append(diffLines(old, new), span{oldStart: len(old), newStart: len(new)}) {
		for ; i < gap.oldStart; i, j = i+1, j+1 {
			pairs = append(pairs, [2]int{s.oldStart + i, s.newStart + j})
		}
		i, j = gap.oldEnd, gap.newEnd
	}
	return pairs
}

// similarLines pairs removed and added lines that share most of their words, in
// order, so that the total similarity is greatest.
func (f *changedFile) similarLines(s span) (pairs [][2]int) {
	n, m := s.old(), s.new()
	if n == 0 || m == 0 || n*m > maxLinePairs {
		return nil
	}
	old, new := words(f.oldLines[s.oldStart:s.oldEnd]), words(f.newLines[s.newStart:s.newEnd])
	like := make([]float64, n*m)
	best := make([]float64, (n+1)*(m+1)) // over the lines from i and j on
	at := func(i, j int) *float64 { return &best[i*(m+1)+j] }
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			l := lineSimilarity(old[i], new[j])
			like[i*m+j] = l
			*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			if l >= minSimilarLine {
				*at(i, j) = max(*at(i, j), *at(i+1, j+1)+l)
			}
		}
	}
	for i, j := 0, 0; i < n && j < m; {
		switch l := like[i*m+j]; {
		case l >= minSimilarLine && *at(i, j) == *at(i+1, j+1)+l:
			pairs = append(pairs, [2]int{s.oldStart + i, s.newStart + j})
			i, j = i+1, j+1
		case *at(i, j) == *at(i+1, j):
			i++
		default:
			j++
		}
	}
	return pairs
}

// words returns the words and signs of each line, sorted.
func words(lines []string) [][]string {
	out := make([][]string, len(lines))
	for i, line := range lines {
		line = line[:min(len(line), maxLineBytes)]
		start := -1
		for at, c := range line {
			if c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) {
				if start < 0 {
					start = at
				}
				continue
			}
			if start >= 0 {
				out[i] = append(out[i], line[start:at])
				start = -1
			}
			if !unicode.IsSpace(c) {
				out[i] = append(out[i], string(c))
			}
		}
		if start >= 0 {
			out[i] = append(out[i], line[start:])
		}
		slices.Sort(out[i])
	}
	return out
}

// lineSimilarity is the share of words that two sorted lists have in common.
func lineSimilarity(a, b []string) float64 {
	common := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch c := strings.Compare(a[i], b[j]); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			common, i, j = common+1, i+1, j+1
		}
	}
	if len(a)+len(b) == 0 {
		return 0
	}
	return 2 * float64(common) / float64(len(a)+len(b))
}

// gather joins parts that are too many into runs of about equal length, each
// beginning where the indentation is least.
func (f *changedFile) gather(parts []span) []span {
	if len(parts) <= maxParts {
		return parts
	}
	var out []span
	size := (len(parts) + maxParts/2 - 1) / (maxParts / 2)
	for len(parts) > 0 {
		n := min(size, len(parts))
		if len(parts) > 2*size {
			least := 1 << 30
			for k := size; k < 2*size; k++ {
				if width := indent(f.firstLine(parts[k])); width < least {
					n, least = k, width
				}
			}
		} else if len(parts) < 2*size {
			n = len(parts)
		}
		first, last := parts[0], parts[n-1]
		out = append(out, span{first.oldStart, last.oldEnd, first.newStart, last.newEnd})
		parts = parts[n:]
	}
	return out
}

// firstLine is the line that a part begins with in the new file, or in the
// old one where it only removes.
func (f *changedFile) firstLine(s span) string {
	if s.new() > 0 {
		return f.newLines[s.newStart]
	}
	return f.oldLines[s.oldStart]
}
