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

// Bounds on what is overlaid, which is meant for hand-written scripts and sources.
const (
	maxOverlay     = 64
	maxOverlaySize = 1 << 20 // bytes of one file
)

// overlayUncommitted adds to the plan the files that its commands name and that are in
// the work tree but not at HEAD: a benchmark that is newer than the commits it
// measures, with the uncommitted files beside it. They are copied into the export
// rather than run from the work tree, because a Python script imports from its own
// folder, which has to be the candidate's. The files of a command after -- are added
// even if committed, since commits before that one lack them.
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
	var names, uncommitted []string
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
			uncommitted = append(uncommitted, name)
		}
	}
	if len(uncommitted) > 0 {
		p.Paths = slices.DeleteFunc(slices.Clone(p.Paths), func(name string) bool { // the same in every commit
			return slices.Contains(uncommitted, path.Clean(filepath.ToSlash(name)))
		})
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s: not committed at HEAD; the version in the work tree is added to every commit that lacks it", strings.Join(uncommitted, ", ")))
	}
}

// namedFiles lists the words of the commands that may be paths: all of the run, and
// those of the build that look like sources. What the build makes is left out.
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

// beside lists the files that a script or a source may use from its own folder.
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

// readOverlay reads a file of the work tree. It refuses large and binary files: those
// were built there.
func readOverlay(root, name string) (kernels.File, bool) {
	f, err := kernels.ReadFile(root, name)
	f.Overlay = true
	return f, err == nil && len(f.Text) <= maxOverlaySize && strings.IndexByte(f.Text, 0) < 0
}
