package fileaccess

import (
	"path"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Opened is what builds and launches have opened: files and folders of their exports, relative to the root, which is
// ".". What a build made itself is among it.
type Opened struct {
	files map[string]bool
	near  map[string]bool // folders in or below which something was opened
	names map[string]bool // the last elements of the paths
}

// NewOpened gathers what several processes have opened.
func NewOpened(paths ...[]string) Opened {
	o := Opened{files: map[string]bool{}, near: map[string]bool{".": true}, names: map[string]bool{}}
	for _, list := range paths {
		for _, at := range list {
			o.files[at], o.names[path.Base(at)] = true, true
			// The path may be that of a folder, which was listed.
			for dir := at; !o.near[dir]; dir = path.Dir(dir) {
				o.near[dir] = true
			}
		}
	}
	return o
}

// Difference says whether a process which opened all this may notice a change. It says so too often rather than too
// seldom:
//
//   - A file that was opened counts with its content. So does anything that is not a plain file, a file that becomes
//     executable or ceases to be, and what tells git how to write files: a process sees these without opening them.
//   - A path that comes or goes counts where it is named like something that was opened, which it may shadow.
//   - Another one is nearby in a folder in or below which something was opened, as its name may have been looked for or
//     listed there.
func (o Opened) Difference(c source.TreeChange) bisect.Difference {
	switch path.Base(c.Path) {
	case ".gitattributes", ".gitmodules":
		return bisect.Different
	}
	for _, e := range []*source.Entry{c.Old, c.New} {
		if e != nil && e.Mode != source.ModeFile && e.Mode != source.ModeExec {
			return bisect.Different
		}
	}
	there := c.Old != nil && c.New != nil // on both sides
	switch {
	case there && (c.Old.Mode != c.New.Mode || o.files[c.Path]), !there && o.names[path.Base(c.Path)]:
		return bisect.Different
	case !there && o.near[c.Folder]:
		return bisect.Nearby
	}
	return bisect.Same
}

// Listed reports that a folder was opened: what comes and goes in it may have been noticed.
func (o Opened) Listed(folder string) bool { return o.files[folder] }
