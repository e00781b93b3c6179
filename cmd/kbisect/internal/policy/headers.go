package policy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
)

// nvccSources is what kind nvcc compiles, and the folders in which it looks for headers, relative to the top.
type nvccSources struct{ sources, Folders []string }

// sourcesOf finds the folders in the options of nvcc, "-I folder" and "-Ifolder". Folders outside of the project
// hold nothing that a commit could change.
func sourcesOf(sources, options []string) (s nvccSources) {
	s.sources = sources
	for i, o := range options {
		folder, glued := strings.CutPrefix(o, "-I")
		if glued && folder == "" && i+1 < len(options) {
			folder = options[i+1]
		}
		if glued && filepath.IsLocal(folder) {
			s.Folders = append(s.Folders, folder)
		}
	}
	return s
}

// AddHeaders adds what the sources of the commits include to the paths, and notes it in Headers. Otherwise a commit
// that changes only such a header would look equal to its parent. Without paths every file counts already. A header
// that only a commit between the ends includes is not found.
func (e Ends) AddHeaders(commits ...string) {
	if len(e.p.Paths) == 0 {
		return
	}
	for _, commit := range commits {
		read := func(name string) ([]byte, bool) {
			if !filepath.IsLocal(name) {
				return nil, false
			}
			data, found, err := e.repo.File(commit, name)
			return data, found && err == nil
		}
		for _, h := range e.p.CUDA.included(read) {
			if !Covers(e.p.Paths, h) {
				e.p.Paths, e.p.Headers = append(slices.Clone(e.p.Paths), h), append(e.p.Headers, h)
			}
		}
	}
}

// Covers reports whether one of the paths is the file or a folder that holds it. All are relative to the top of the
// repository; the file is written with slashes.
func Covers(paths []string, file string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		p = path.Clean(filepath.ToSlash(p))
		return p == "." || p == file || strings.HasPrefix(file, p+"/")
	})
}

// included lists the headers of the project that the sources include, directly or not. Conditions are not
// evaluated, so that it lists too many rather than too few. read returns a file of a commit, by its path from the
// top.
func (s nvccSources) included(read func(name string) ([]byte, bool)) []string {
	texts := map[string][]byte{}
	there := func(name string) bool {
		if _, known := texts[name]; known {
			return true
		}
		text, ok := read(name)
		if ok {
			texts[name] = text
		}
		return ok
	}
	all := kernels.FollowIncludes(s.sources, func(name string) []byte { there(name); return texts[name] }, func(from, name string, _ bool) []string {
		for _, folder := range append([]string{path.Dir(from)}, s.Folders...) {
			if header := path.Join(folder, name); there(header) {
				return []string{header}
			}
		}
		return nil
	})
	return all[len(s.sources):]
}
