package policy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
)

// cuSources are what kind nvcc compiles, and where it looks for headers.
type cuSources struct{ sources, Folders []string }

// SourcesOf reads them off the options of a configuration.
func SourcesOf(sources, options []string) (s cuSources) {
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

// AddHeaders puts what the sources of a commit include beside the paths: a header that nobody named would
// make the commits that change it equal to their parents.
func (r ends) AddHeaders(commits ...string) {
	if len(r.p.Paths) == 0 {
		return
	}
	for _, commit := range commits {
		read := func(name string) ([]byte, bool) {
			if !filepath.IsLocal(name) {
				return nil, false
			}
			data, found, err := r.repo.File(commit, name)
			return data, found && err == nil
		}
		for _, h := range r.p.CUDA.Included(read) {
			if !r.inPaths(h) {
				r.p.Paths, r.p.Headers = append(slices.Clone(r.p.Paths), h), append(r.p.Headers, h)
			}
		}
	}
}

// OwnPaths are the paths as they were named.
func (p *Policy) OwnPaths() []string {
	return slices.DeleteFunc(slices.Clone(p.Paths), func(name string) bool { return slices.Contains(p.Headers, name) })
}

// inPaths reports whether a file is in the paths.
func (r ends) inPaths(file string) bool {
	return slices.ContainsFunc(r.p.Paths, func(q string) bool {
		q = path.Clean(q)
		return q == "." || q == file || strings.HasPrefix(file, q+"/")
	})
}

// Included lists the headers of the project that the sources include, directly or not.
func (s cuSources) Included(read func(name string) ([]byte, bool)) []string {
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
