package detect

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// cuMain matches the definition of a main function at the beginning of a line.
var cuMain = lazy.Pattern(`(?m)^[ \t]*(?:int|auto)[ \t]+main[ \t]*\(`)

// cuInclude matches the inclusion of a file of the project.
var cuInclude = lazy.Pattern(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"]+)"`)

// findNvcc recognises CUDA sources without build rules as one program. Files with a main function of their own
// belong to other programs, and files that another one includes are compiled with it.
func findNvcc(d *folder) (project, bool) {
	var all, mains []string
	included := map[string]bool{}
	for _, f := range d.files {
		if filepath.Ext(f) != ".cu" {
			continue
		}
		text := d.read(f)
		all = append(all, f)
		if cuMain().Match(text) {
			mains = append(mains, f)
		}
		for _, m := range cuInclude().FindAllSubmatch(text, -1) {
			included[filepath.Base(string(m[1]))] = true
		}
	}
	if len(all) == 0 {
		return project{}, false
	}
	var notes []string
	if len(mains) == 0 {
		if bench := benchScript(d); bench != "" { // an extension that Python loads
			return project{Kind: kernels.KindCommand, What: "CUDA sources that " + bench + " times", Run: []string{"python3", bench}}, true
		}
		mains = all[:1]
		notes = []string{"FILL IN: no .cu file here has a main function; name the sources of a program, or run what loads them."}
	}
	main := benchLike(mains)
	program := strings.TrimSuffix(main, ".cu")
	p := project{Kind: kernels.KindNvcc, What: "CUDA sources without build rules", Outputs: []string{program}, Run: []string{"./" + program}, Sources: []string{main}, Notes: notes}
	for _, f := range all {
		if f != main && !slices.Contains(mains, f) && !included[f] {
			p.Sources = append(p.Sources, f)
		}
	}
	return p, true
}
