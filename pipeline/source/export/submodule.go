package export

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// submoduleName looks a path up in the tree's .gitmodules, "" when it is not there. The repository
// of a submodule lies under its name, which stays when the submodule is moved.
func (m *module) submoduleName(rel string) (string, error) {
	if m.names == nil {
		names, err := m.readGitmodules()
		if err != nil {
			return "", err
		}
		m.names = names
	}
	return m.names[rel], nil
}

// readGitmodules returns the names of submodules by path.
func (m *module) readGitmodules() (map[string]string, error) {
	names := map[string]string{}
	entries, err := objects.ReadTree(m.repo.Objects, m.tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name != ".gitmodules" || e.Mode != objects.ModeFile && e.Mode != objects.ModeExec {
			continue
		}
		text, err := objects.Read(m.repo.Objects, e.ID, "blob")
		if err != nil {
			return nil, err
		}
		cfg, err := objects.ParseConfig(text)
		if err != nil {
			return names, nil // no names; the submodules count as unresolved
		}
		for _, s := range cfg.Section("submodule").Subsections {
			if safeSubmoduleName(s.Name) {
				names[path.Clean(s.Option("path"))] = s.Name
			}
		}
	}
	return names, nil
}

// safeSubmoduleName refuses names that lead out of the folder "modules": a commit says them, and
// anybody can write a commit.
func safeSubmoduleName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.ContainsAny(name, "\\\x00")
}

// submoduleDirs lists where the repository of the submodule at rel may lie: in the git directory of
// the work tree, in the common one where the work tree is a linked one, or in the checkout itself,
// as old versions of git had it.
func (m *module) submoduleDirs(rel, name string) []objects.Layout {
	var out []objects.Layout
	try := func(dir string) {
		if l, ok, err := objects.At(dir); err == nil && ok {
			l.WorkDir = ""
			if m.repo.WorkDir != "" {
				l.WorkDir = filepath.Join(m.repo.WorkDir, filepath.FromSlash(rel))
			}
			out = append(out, l)
		}
	}
	if name != "" {
		try(filepath.Join(m.repo.GitDir, "modules", filepath.FromSlash(name)))
		if m.repo.CommonDir != m.repo.GitDir {
			try(filepath.Join(m.repo.CommonDir, "modules", filepath.FromSlash(name)))
		}
	}
	if m.repo.WorkDir != "" {
		checkout := filepath.Join(m.repo.WorkDir, filepath.FromSlash(rel))
		if _, err := os.Lstat(filepath.Join(checkout, ".git")); err == nil {
			try(checkout)
		}
	}
	return out
}
