package hunks

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// Renames are found here, and not by go-git's object.DetectRenames: its ids
// have no room for SHA-256, it drops an added file when two deleted files of
// another mode had its content, and of equally similar files it chose three
// different pairs in 200 runs. A hunk must have the same name in every session.

// Bounds of the search for renamed files.
const (
	maxPairs      = 4096 // pairs of a deleted and an added file that are compared
	minSimilarity = 0.5  // share of the larger file's bytes in lines of both
)

// pairRenamed joins files that were deleted in one place and added in another:
// those with equal content, and texts of which at least half is equal.
func pairRenamed(files []*changedFile) []*changedFile {
	var gone, came []*changedFile
	for _, f := range files {
		switch {
		case f.new == nil && f.old.Mode != source.ModeGitlink && f.old.Mode != source.ModeLink:
			gone = append(gone, f)
		case f.old == nil && f.new.Mode != source.ModeGitlink && f.new.Mode != source.ModeLink:
			came = append(came, f)
		}
	}
	blocked := blockedNames(files)
	joined := map[*changedFile]*changedFile{} // added and deleted file to the renamed one
	for _, p := range rankPairs(gone, came) {
		if joined[p.gone] != nil || joined[p.came] != nil || blocked(p.gone, p.came) {
			continue
		}
		f := &changedFile{oldPath: p.gone.oldPath, newPath: p.came.newPath, old: p.gone.old, new: p.came.new,
			text: p.gone.text && p.came.text, binary: p.gone.binary || p.came.binary, oldLines: p.gone.oldLines, newLines: p.came.newLines,
			size: [2]int{p.gone.size[0], p.came.size[1]}}
		joined[p.gone], joined[p.came] = f, f
	}
	out := slices.DeleteFunc(slices.Clone(files), func(f *changedFile) bool { return joined[f] != nil })
	for _, f := range came {
		if joined[f] != nil {
			out = append(out, joined[f])
		}
	}
	return out
}

// blockedNames returns a test whether a file cannot move as one hunk because
// its new name is taken until another file is deleted.
func blockedNames(files []*changedFile) func(gone, came *changedFile) bool {
	at, below := map[string]int{}, map[string]int{} // removed files by name, and by folder above
	for _, f := range files {
		if f.new == nil {
			name := f.oldPath
			at[name]++
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				below[dir]++
			}
		}
	}
	return func(gone, came *changedFile) bool {
		own, name := gone.oldPath, came.newPath
		inWay := at[name] + below[name]
		if own == name || strings.HasPrefix(own, name+"/") {
			inWay--
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			inWay += at[dir]
			if own == dir {
				inWay--
			}
		}
		return inWay > 0
	}
}

// renamePair is a file that went and one that came, which may be the same under another name.
type renamePair struct {
	gone, came *changedFile
	score      float64 // 0 to 1; 2 for equal content
}

// rankPairs lists the pairs that may be renames, the likeliest first.
func rankPairs(gone, came []*changedFile) []renamePair {
	byID := map[string][]*changedFile{}
	for _, g := range gone {
		byID[g.old.ID] = append(byID[g.old.ID], g)
	}
	// Beyond that only files of the same name are compared, as git does with too many candidates.
	all := len(gone)*len(came) <= maxPairs
	var out []renamePair
	texts := newTextBags()
	compared := 0
	for _, c := range came {
		candidates := byID[c.new.ID]
		if c.size[1] == 0 && c.text {
			continue // all empty files are alike
		}
		for _, g := range candidates[:min(len(candidates), 16)] {
			out = append(out, renamePair{g, c, 2})
		}
		if len(candidates) > 0 || !c.text {
			continue
		}
		for _, g := range gone {
			near := g.text && 2*min(g.size[0], c.size[1]) >= max(g.size[0], c.size[1])
			if !near || !all && (path.Base(g.oldPath) != path.Base(c.newPath) || compared >= maxPairs) {
				continue
			}
			compared++
			if s := texts.similarity(g, c); s >= minSimilarity {
				out = append(out, renamePair{g, c, s})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b renamePair) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(nameDistance(a), nameDistance(b)))
	})
	return out
}

// nameDistance is 0 for files that keep their name and 1 for others.
func nameDistance(p renamePair) int {
	if path.Base(p.gone.oldPath) == path.Base(p.came.newPath) {
		return 0
	}
	return 1
}

// textBags holds files as sorted lists of line numbers.
type textBags struct {
	ids  map[string]int32
	bags map[*changedFile][]int32
	size []int // of a line in bytes, by number
}

func newTextBags() *textBags {
	return &textBags{ids: map[string]int32{}, bags: map[*changedFile][]int32{}}
}

// bag is the lines of one side of a file, as sorted numbers. Equal lines have equal numbers in all files, so that two bags
// are compared in one pass.
func (t *textBags) bag(f *changedFile, lines []string) []int32 {
	if bag, ok := t.bags[f]; ok {
		return bag
	}
	bag := intern(t.ids, lines)
	for i, id := range bag {
		if int(id) == len(t.size) {
			t.size = append(t.size, len(lines[i]))
		}
	}
	slices.Sort(bag)
	t.bags[f] = bag
	return bag
}

// similarity is the share of the larger file that both have.
func (t *textBags) similarity(g, c *changedFile) float64 {
	a, b := t.bag(g, g.oldLines), t.bag(c, c.newLines)
	common := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] < b[j]:
			i++
		case a[i] > b[j]:
			j++
		default:
			common += t.size[a[i]]
			i, j = i+1, j+1
		}
	}
	return float64(common) / float64(max(g.size[0], c.size[1], 1))
}
