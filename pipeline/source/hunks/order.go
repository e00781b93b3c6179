package hunks

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// order sorts hunks and finds out which require which.
func order(hunks []Hunk) []Hunk {
	slices.SortStableFunc(hunks, func(a, b Hunk) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.File, b.File)) // within a file they are in order
	})
	require(hunks)
	var order []int
	place := make([]int, len(hunks)) // 1 + index in order
	var visit func(i int)
	visit = func(i int) {
		if place[i] > 0 {
			return
		}
		for _, k := range hunks[i].Requires {
			visit(k)
		}
		order = append(order, i)
		place[i] = len(order)
	}
	for i := range hunks {
		visit(i)
	}
	sorted := make([]Hunk, len(order))
	for to, from := range order {
		sorted[to] = hunks[from]
		for n, k := range sorted[to].Requires {
			sorted[to].Requires[n] = place[k] - 1
		}
	}
	return sorted
}

// rank orders hunks by what is likely to need what. A new file does no harm
// before something uses it; a file can go once nothing uses it.
func (h Hunk) rank() int {
	header := isHeader(h.File)
	switch {
	case h.Kind == Deleted:
		return 5
	case h.Kind == Added && header:
		return 0
	case header:
		return 1
	case isBuildDescription(h.File):
		return 3
	case h.Kind == Added:
		return 2
	}
	return 4
}

// isHeader reports files that others include: their hunks come before those of sources.
func isHeader(file string) bool {
	switch strings.ToLower(path.Ext(file)) {
	case ".h", ".hh", ".hpp", ".hxx", ".h++", ".cuh", ".inc", ".inl", ".ipp", ".tpp", ".def", ".pxd", ".pyi":
		return true
	}
	return false
}

// isBuildDescription reports files that builds are described in: what they name must be there before they do.
func isBuildDescription(file string) bool {
	base := strings.ToLower(path.Base(file))
	switch base {
	case "makefile", "gnumakefile", "cmakelists.txt", "meson.build", "build.ninja", "build", "build.bazel", "configure",
		"setup.py", "setup.cfg", "pyproject.toml", "requirements.txt", ".gitmodules", ".gitattributes":
		return true
	}
	switch path.Ext(base) {
	case ".cmake", ".mk", ".mak", ".bzl", ".ac", ".am":
		return true
	}
	return false
}

// require sets what each hunk requires: the lines of a renamed file need its
// new name, a new name must be free, and a new submodule needs .gitmodules.
func require(hunks []Hunk) {
	renames := map[*changedFile]int{}
	at, below := map[string][]int{}, map[string][]int{} // hunks that free a name, by name and by folder above
	var modules []int
	for i, h := range hunks {
		if h.Kind == Renamed {
			renames[h.file] = i
		}
		if h.Kind == Renamed || h.Kind == Deleted {
			name := h.file.oldPath
			at[name] = append(at[name], i)
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				below[dir] = append(below[dir], i)
			}
		}
		if h.File == ".gitmodules" && h.Kind != Deleted {
			modules = append(modules, i)
		}
	}
	for i := range hunks {
		h := &hunks[i]
		var needs []int
		if k, ok := renames[h.file]; ok && k != i {
			needs = append(needs, k)
		}
		if h.Kind == Added {
			name := h.File
			needs = slices.Concat(needs, at[name], below[name])
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				needs = append(needs, at[dir]...)
			}
		}
		if h.newSubmodule() {
			needs = append(needs, modules...)
		}
		slices.Sort(needs)
		h.Requires = slices.Compact(needs)
	}
}

// newSubmodule reports whether a hunk puts a submodule where none was.
func (h Hunk) newSubmodule() bool {
	return (h.Kind == Added || h.Kind == Type) && h.file.new.Mode == source.ModeGitlink && h.File != ".gitmodules"
}
