package policy

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Bounds on what is overlaid: scripts and sources that a person wrote.
const (
	maxOverlay     = 64
	MaxOverlaySize = 1 << 20 // bytes of one file
)

// overlayUncommitted adds to the plan what its commands name and the user's work tree holds, but HEAD does not: a
// benchmark that is younger than the commits it measures, with what lies beside it and is not committed
// either. It goes into the export, not the export to it: a Python script imports what lies in its own
// folder, and that has to be the candidate's. A command after -- may be committed as well: commits
// before that one lack it.
func overlayUncommitted(p *Policy, repo *source.Repo) {
	root := repo.WorkDir()
	head, err := repo.Resolve("HEAD")
	if root == "" || err != nil || p.Plan.Dir != "" {
		return
	}
	committed := func(name string) bool {
		has, err := repo.Has(head, name)
		return err != nil || has
	}
	var names, strange []string
	for _, name := range namedFiles(p.Plan) {
		if p.OwnScripts || !committed(name) {
			names = append(names, name)
			names = append(names, slices.DeleteFunc(beside(root, name), committed)...)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		file, ok := readOverlay(root, name)
		if !ok || len(p.Plan.Files) >= maxOverlay {
			continue
		}
		p.Plan.Files = append(p.Plan.Files, file)
		if !committed(name) {
			strange = append(strange, name)
		}
	}
	if len(strange) > 0 {
		p.Paths = slices.DeleteFunc(slices.Clone(p.Paths), func(name string) bool { // they differ between no two commits
			return slices.Contains(strange, path.Clean(filepath.ToSlash(name)))
		})
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s: not committed at HEAD; what is in the work tree now goes into every commit that has no such file", strings.Join(strange, ", ")))
	}
}

// namedFiles are the paths that commands may mean: words of the run, and of the build those that are
// sources. What the build makes is the candidate's.
func namedFiles(plan kernels.Plan) (names []string) {
	add := func(word string) {
		word = path.Clean(filepath.ToSlash(word))
		if filepath.IsLocal(filepath.FromSlash(word)) && word != "." && !slices.Contains(plan.Outputs, word) {
			names = append(names, word)
		}
	}
	for i, word := range plan.Run {
		if i > 0 || len(plan.Build) == 0 && strings.Contains(word, "/") {
			add(word)
		}
	}
	for _, word := range plan.Build {
		for _, w := range strings.Fields(word) {
			if slices.Contains(sourceSuffixes(), path.Ext(w)) {
				add(w)
			}
		}
	}
	return names
}

func sourceSuffixes() []string {
	return []string{".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".py", ".sh"}
}

// beside are the files that a script or a source may use from its own folder.
func beside(root, name string) (names []string) {
	suffixes := []string{".cu", ".cuh", ".h", ".hpp"}
	switch path.Ext(name) {
	case ".py":
		suffixes = []string{".py"}
	case ".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx":
	default:
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(path.Dir(name))))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() && slices.Contains(suffixes, path.Ext(e.Name())) && len(names) < maxOverlay {
			names = append(names, path.Join(path.Dir(name), e.Name()))
		}
	}
	return names
}

// readOverlay reads a file of the work tree: a text of bounded size, since a program was built there.
func readOverlay(root, name string) (kernels.File, bool) {
	f, err := kernels.ReadFile(root, name)
	f.Overlay = true
	return f, err == nil && len(f.Text) <= MaxOverlaySize && strings.IndexByte(f.Text, 0) < 0
}
