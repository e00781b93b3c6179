package source

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/config"
)

// infoAttributes stands in for the folder of $GIT_DIR/info/attributes. It is
// longer than any folder name allowed in a tree, so that it is the strongest.
var infoAttributes = strings.Repeat("/", 8192)

// handle is one open repository: the user's, or that of a submodule.
type handle struct {
	layout
	objs      objects
	attrFiles map[string][]attrFile // by tree id
	drivers   map[string]bool       // filters that change what is checked out, by name
}

// smudges reports whether a filter changes what git checks out: without a driver in the
// configuration git writes the plain content.
func (h *handle) smudges(filter string) bool {
	if known, ok := h.drivers[filter]; ok {
		return known
	}
	yes := false
	for _, key := range []string{"smudge", "process", "required"} {
		out, err := h.command("config", "--get", "filter."+filter+"."+key).Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			yes = true // no git to ask
		}
		yes = yes || strings.TrimSpace(string(out)) != ""
	}
	if h.drivers == nil {
		h.drivers = map[string]bool{}
	}
	h.drivers[filter] = yes
	return yes
}

// module is one tree laid out in a slot: the candidate's own, with prefix
// "", or that of a submodule.
type module struct {
	*handle
	prefix string
	commit string
	tree   string
	attrs  *attributes
	names  map[string]string // submodule names by path, read when needed
}

func newModule(h *handle, prefix, commit string) (*module, error) {
	c, err := readCommit(h.objs, commit)
	if err != nil {
		return nil, err
	}
	m := &module{handle: h, prefix: prefix, commit: commit, tree: c.Tree}
	files, err := h.attributeFiles("", c.Tree)
	if err != nil {
		return nil, err
	}
	files = append([]attrFile(nil), files...)
	if text, err := os.ReadFile(filepath.Join(h.commonDir, "info", "attributes")); err == nil {
		f := parseAttributes(string(text))
		f.dir, f.id = infoAttributes, string(text)
		files = append(files, f)
	}
	m.attrs = newAttributes(files)
	return m, nil
}

// attributeFiles lists the .gitattributes files in a tree, their folders
// relative to it. What a subtree holds is remembered by its id.
func (h *handle) attributeFiles(dir, tree string) ([]attrFile, error) {
	if files, ok := h.attrFiles[tree]; ok {
		return files, nil
	}
	entries, err := readTree(h.objs, tree)
	if err != nil {
		return nil, err
	}
	var files []attrFile
	for _, e := range entries {
		switch {
		case e.isTree():
			below, err := h.attributeFiles(path.Join(dir, e.name), e.id)
			if err != nil {
				return nil, err
			}
			for _, f := range below {
				f.dir = path.Join(e.name, f.dir)
				files = append(files, f)
			}
		case e.name == ".gitattributes" && (e.mode == modeFile || e.mode == modeExec):
			text, err := readObject(h.objs, e.id, "blob")
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", path.Join(dir, e.name), err)
			}
			f := parseAttributes(string(text))
			f.id = e.id
			files = append(files, f)
		}
	}
	h.attrFiles[tree] = files
	return files, nil
}

// submoduleName looks a path up in the tree's .gitmodules, "" when it is not
// there.
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

func (m *module) readGitmodules() (map[string]string, error) {
	names := map[string]string{}
	entries, err := readTree(m.objs, m.tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.name != ".gitmodules" || e.mode != modeFile && e.mode != modeExec {
			continue
		}
		text, err := readObject(m.objs, e.id, "blob")
		if err != nil {
			return nil, err
		}
		cfg := config.New()
		if err := config.NewDecoder(bytes.NewReader(text)).Decode(cfg); err != nil {
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

// safeSubmoduleName refuses names that lead out of the folder "modules".
func safeSubmoduleName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.ContainsAny(name, "\\\x00")
}

// submoduleDirs lists where the repository of the submodule at rel may lie.
func (m *module) submoduleDirs(rel, name string) []layout {
	var out []layout
	try := func(dir string) {
		if l, ok, err := layoutAt(dir); err == nil && ok {
			l.workDir = ""
			if m.workDir != "" {
				l.workDir = filepath.Join(m.workDir, filepath.FromSlash(rel))
			}
			out = append(out, l)
		}
	}
	if name != "" {
		try(filepath.Join(m.gitDir, "modules", filepath.FromSlash(name)))
		if m.commonDir != m.gitDir {
			try(filepath.Join(m.commonDir, "modules", filepath.FromSlash(name)))
		}
	}
	if m.workDir != "" {
		checkout := filepath.Join(m.workDir, filepath.FromSlash(rel))
		if _, err := os.Lstat(filepath.Join(checkout, ".git")); err == nil {
			try(checkout)
		}
	}
	return out
}
