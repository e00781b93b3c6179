package main

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// cuSources are what kind nvcc compiles, and where it looks for headers.
type cuSources struct{ sources, folders []string }

// sourcesOf reads them off the options of a configuration.
func sourcesOf(sources, options []string) (s cuSources) {
	s.sources = sources
	for i, o := range options {
		folder, glued := strings.CutPrefix(o, "-I")
		if glued && folder == "" && i+1 < len(options) {
			folder = options[i+1]
		}
		if glued && filepath.IsLocal(folder) {
			s.folders = append(s.folders, folder)
		}
	}
	return s
}

// addHeaders puts what the sources of a commit include beside the paths: a header that nobody named would
// make the commits that change it equal to their parents.
func (p *policy) addHeaders(repo *source.Repo, commits ...string) {
	if len(p.Paths) == 0 {
		return
	}
	for _, commit := range commits {
		read := func(name string) ([]byte, bool) {
			if !filepath.IsLocal(name) {
				return nil, false
			}
			data, found, err := repo.File(commit, name)
			return data, found && err == nil
		}
		for _, h := range p.CUDA.included(read) {
			if !p.inPaths(h) {
				p.Paths, p.Headers = append(slices.Clone(p.Paths), h), append(p.Headers, h)
			}
		}
	}
}

// ownPaths are the paths as they were named.
func (p *policy) ownPaths() []string {
	return slices.DeleteFunc(slices.Clone(p.Paths), func(name string) bool { return slices.Contains(p.Headers, name) })
}

// inPaths reports whether a file is in the paths.
func (p *policy) inPaths(file string) bool {
	return slices.ContainsFunc(p.Paths, func(q string) bool {
		q = path.Clean(q)
		return q == "." || q == file || strings.HasPrefix(file, q+"/")
	})
}

// included lists the headers of the project that the sources include, directly or not.
func (s cuSources) included(read func(name string) ([]byte, bool)) []string {
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
		for _, folder := range append([]string{path.Dir(from)}, s.folders...) {
			if header := path.Join(folder, name); there(header) {
				return []string{header}
			}
		}
		return nil
	})
	return all[len(s.sources):]
}
