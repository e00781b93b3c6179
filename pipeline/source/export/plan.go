package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gitdir"
	"github.com/kbisect/kbisect/pipeline/source/internal/attributes"
	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// leaf is one path to be held by a slot.
type leaf struct {
	objects.Entry
	prefix string // of the module it belongs to
	treat  attributes.Treatment
}

// plan is what must change in a slot to go from its modules to those of
// another commit. Making one reads objects and writes nothing.
type plan struct {
	e     *Export
	walk  *trees.Walk // over the trees of all modules
	paths source.Paths
	mods  map[string]*module // of the wanted commit, by prefix
	puts  map[string]leaf
	dels  map[string]bool
	room  atomic.Int64 // bytes that may still be written
	limit int64        // that it began with

	warnings []string
}

// newPlan returns an empty plan for a slot.
func newPlan(ctx context.Context, e *Export) (*plan, error) {
	paths, err := source.ParsePaths(e.Paths)
	if err != nil {
		return nil, err
	}
	return &plan{e: e, walk: trees.NewWalk(ctx, e.main.Layout, e.known.Get()), paths: paths, mods: maps.Clone(e.mods), puts: map[string]leaf{}, dels: map[string]bool{}}, nil
}

// to completes the plan for one commit of the user's repository.
func (p *plan) to(commit string) error {
	m, err := newModule(p.walk, p.e.main, "", commit)
	if err == nil {
		err = p.module(m)
	}
	if err != nil {
		var u *objects.UnsupportedError
		if errors.As(err, &u) && u.Commit == "" {
			u.Commit = commit
			return u
		}
		return fmt.Errorf("commit %s: %w", objects.Short(commit), err)
	}
	return nil
}

// module plans one tree at its prefix, from whatever is there now.
func (p *plan) module(m *module) error {
	old := p.mods[m.prefix]
	if old != nil && old.repo != m.repo {
		if err := p.drop(m.prefix); err != nil {
			return err
		}
		old = nil
	}
	before := ""
	if old != nil {
		before = old.tree
	}
	p.mods[m.prefix] = m
	err := p.walk.Diff(m.repo.Objects, "", before, m.tree, func(ch trees.Change) error { return p.change(m, ch) })
	if err != nil {
		return err
	}
	if old != nil {
		return p.reconvert(old, m)
	}
	return nil
}

// drop plans the removal of a module and of all modules inside it.
func (p *plan) drop(prefix string) error {
	m := p.mods[prefix]
	if m == nil {
		return nil
	}
	delete(p.mods, prefix)
	return p.walk.Diff(m.repo.Objects, "", m.tree, "", func(ch trees.Change) error {
		full := path.Join(prefix, ch.Path)
		p.dels[full] = true
		if ch.Old.Mode == objects.ModeGitlink {
			return p.drop(full)
		}
		return nil
	})
}

// change plans one path that differs.
func (p *plan) change(m *module, ch trees.Change) error {
	full := path.Join(m.prefix, ch.Path)
	if ch.New == nil {
		if _, again := p.puts[full]; !again {
			p.dels[full] = true
		}
		return p.drop(full)
	}
	if ch.New.Mode == objects.ModeGitlink {
		return p.submodule(m, ch.Path, full, ch.New.ID)
	}
	if err := p.drop(full); err != nil {
		return err
	}
	l := leaf{Entry: *ch.New, prefix: m.prefix}
	if l.Mode != objects.ModeLink {
		l.treat = m.attrs.Treat(ch.Path)
	}
	return p.put(m, full, l)
}

// put plans one file, if its attributes can be followed.
func (p *plan) put(m *module, full string, l leaf) error {
	if filter, ok := strings.CutPrefix(l.treat.Refuse, "filter="); ok && !m.repo.smudges(p.walk.Ctx, filter) {
		l.treat.Refuse = ""
	}
	if err := p.walk.Ctx.Err(); err != nil {
		return err
	}
	if l.treat.Refuse != "" {
		if err := p.unsupported(full, l.treat.Refuse, "the file would differ from what git checks out",
			"name paths (--path) that leave it out, or remove the attribute"); err != nil {
			return err
		}
	}
	if l.treat.LFS {
		if err := p.checkLFS(m, full, l.ID); err != nil {
			return err
		}
	}
	delete(p.dels, full)
	p.puts[full] = l
	return nil
}

// checkLFS reports a pointer without its content.
func (p *plan) checkLFS(m *module, full, id string) error {
	ptr, ok, err := readLFSPointer(m.repo.Objects, id)
	if objects.IsMissing(err) && p.optional(full) {
		return nil // and is left out
	}
	if err != nil || !ok || m.repo.lfsFile(ptr) != "" {
		return err
	}
	return p.unsupported(full, "filter=lfs", "its Git LFS content has not been fetched",
		"git lfs fetch --all, or git lfs fetch origin "+objects.Short(m.commit))
}

// readLFSPointer reads a blob if it is small enough to be a pointer.
func readLFSPointer(o objects.Reader, id string) (attributes.LFSPointer, bool, error) {
	kind, size, r, err := o.Open(id)
	if err != nil {
		return attributes.LFSPointer{}, false, err
	}
	r.Close()
	if kind != "blob" || size >= attributes.LFSPointerMax {
		return attributes.LFSPointer{}, false, nil
	}
	blob, err := objects.Read(o, id, "blob")
	if err != nil {
		return attributes.LFSPointer{}, false, err
	}
	ptr, ok := attributes.ParseLFSPointer(blob)
	return ptr, ok, nil
}

// lfsFile returns the path of the content of a pointer, "" when it is absent or
// truncated.
func (h *handle) lfsFile(p attributes.LFSPointer) string {
	file := filepath.Join(h.CommonDir, "lfs", "objects", p.ID[:2], p.ID[2:4], p.ID)
	if fi, err := os.Stat(file); err != nil || !fi.Mode().IsRegular() || fi.Size() != p.Size {
		return ""
	}
	return file
}

// unsupported reports a path that matters; of others it only warns.
func (p *plan) unsupported(full, attribute, reason, hint string) error {
	u := &objects.UnsupportedError{Path: full, Attribute: attribute, Reason: reason, Hint: hint}
	if p.paths.Cover(full) {
		return u
	}
	p.warnings = append(p.warnings, fmt.Sprintf("%s: %s (%s); it is outside the chosen paths", full, reason, attribute))
	return nil
}

// optional reports whether a file may be left out: no path says that the build
// reads it.
func (p *plan) optional(full string) bool { return len(p.paths) == 0 || !p.paths.Cover(full) }

// leavesOut reports that the slot goes without a file, whose content the repository lacks.
func (p *plan) leavesOut(full string, err error) bool {
	return objects.IsMissing(err) && p.optional(full)
}

// writers is how many goroutines are to write a number of files. Where objects are read one at a time, it is one.
func (p *plan) writers(files int) int {
	for _, m := range p.mods {
		if !m.repo.Objects.Parallel() {
			return 1
		}
	}
	return max(1, min(runtime.GOMAXPROCS(0), writers, files/chunk))
}

// submodule plans the tree behind a pin, or an empty folder when its commit is
// not at hand and the paths do not need it.
func (p *plan) submodule(m *module, rel, full, commit string) error {
	delete(p.dels, full)
	p.puts[full] = leaf{Entry: objects.Entry{Mode: objects.ModeGitlink, ID: commit}, prefix: m.prefix}
	sub, err := p.openSubmodule(m, rel, full, commit)
	if err != nil {
		return err
	}
	if sub != nil {
		return p.module(sub)
	}
	if err := p.drop(full); err != nil {
		return err
	}
	return p.unsupported(full, "submodule", "the pinned commit "+objects.Short(commit)+" has not been fetched", "git submodule update --init --recursive")
}

// reconvert plans the files that keep their blob but not their attributes.
func (p *plan) reconvert(old, m *module) error {
	if old.attrs == nil && m.attrs == nil || old.attrs != nil && m.attrs != nil && old.attrs.Signature == m.attrs.Signature {
		return nil
	}
	for full, t := range p.e.held.tracked {
		if err := p.walk.Ctx.Err(); err != nil {
			return err
		}
		if t.prefix != m.prefix || t.Mode == objects.ModeLink || t.Mode == objects.ModeGitlink || p.dels[full] {
			continue
		}
		if _, planned := p.puts[full]; planned {
			continue
		}
		l := t.leaf
		l.treat = m.attrs.Treat(strings.TrimPrefix(strings.TrimPrefix(full, m.prefix), "/"))
		if l.treat != t.treat {
			if err := p.put(m, full, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// blame tells what is wrong with the commit, names and amounts that no machine
// takes, from what is wrong with the machine.
func (p *plan) blame(full string, err error) error {
	commit := p.mods[""].commit
	var u *objects.UnsupportedError
	switch {
	case errors.As(err, &u):
		u.Commit, u.Path = commit, full
		return u
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EILSEQ):
		return &objects.UnsupportedError{Commit: commit, Path: full, Attribute: "path", Reason: err.Error()}
	}
	return fmt.Errorf("commit %s: %s: %w", objects.Short(commit), full, err)
}

// limited reads no more than the disk has room for.
func (p *plan) limited(r io.Reader) io.Reader { return &limitedReader{r, p} }

type limitedReader struct {
	io.Reader
	p *plan
}

func (l *limitedReader) Read(buf []byte) (int, error) {
	if err := l.p.walk.Ctx.Err(); err != nil {
		return 0, err
	}
	n, err := l.Reader.Read(buf)
	if l.p.room.Add(-int64(n)) < 0 {
		return 0, &objects.UnsupportedError{Attribute: "size", Reason: fmt.Sprintf("the files up to this one take more than %d bytes", l.p.limit),
			Hint: trees.MoreThanOthers + ", and half of the free disk"}
	}
	return n, err
}

// clash returns two paths that are one on a file system that ignores case, or
// "".
func clash(paths []string) (string, string) {
	seen := map[string]string{}
	for _, full := range paths {
		for at := full; at != "." && at != ""; at = path.Dir(at) {
			folded := strings.ToLower(at)
			if first, ok := seen[folded]; ok && first != at {
				return first, at
			}
			seen[folded] = at
		}
	}
	return "", ""
}

// handle is one open repository: the user's, or that of a submodule.
type handle struct {
	objects.Repo
	list     *commits.List     // what is known of its commits; nil for a submodule
	git      *gitdir.Repo      // what git directories of exports take from it; nil until one is written
	surveyed map[string]survey // by tree id
	drivers  map[string]bool   // filters that change what is checked out, by name
}

// smudges reports whether a filter changes what git checks out: without a driver in the
// configuration git writes the plain content.
func (h *handle) smudges(ctx context.Context, filter string) bool {
	if known, ok := h.drivers[filter]; ok {
		return known
	}
	yes := false
	for _, key := range []string{"smudge", "process", "required"} {
		out, err := h.Command(ctx, "config", "--get", "filter."+filter+"."+key).Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			yes = true // no git to ask
		}
		yes = yes || strings.TrimSpace(string(out)) != ""
	}
	if ctx.Err() != nil {
		return false // git was not asked
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
	repo   *handle
	prefix string
	commit string
	tree   string
	attrs  *attributes.Attributes
	names  map[string]string // submodule names by path, read when needed
}

// newModule reads the tree of a commit and its attributes.
func newModule(w *trees.Walk, h *handle, prefix, commit string) (*module, error) {
	c, _, err := objects.ReadCommit(h.Objects, commit)
	if err == nil {
		err = h.list.Check(c.ID, c.Tree, c.Parents)
	}
	if err != nil {
		return nil, err
	}
	m := &module{repo: h, prefix: prefix, commit: commit, tree: c.Tree}
	all, err := h.survey(w, "", c.Tree)
	if err != nil {
		return nil, err
	}
	files := slices.Clone(all.attrs)
	if text, err := os.ReadFile(filepath.Join(h.CommonDir, "info", "attributes")); err == nil {
		f := attributes.Parse(string(text))
		f.Info, f.ID = true, string(text)
		files = append(files, f)
	}
	m.attrs = attributes.New(files)
	return m, nil
}

// survey is what must be known of a whole tree before any of it is written.
type survey struct {
	attrs []attributes.File // its .gitattributes files, their folders relative to it
	trees.Size
}

// survey reads every tree below one once, however often it occurs: what a
// subtree holds is remembered by its id.
func (h *handle) survey(w *trees.Walk, dir, tree string) (survey, error) {
	if all, ok := h.surveyed[tree]; ok {
		return all, nil
	}
	entries, err := objects.ReadTree(h.Objects, tree)
	if err != nil {
		return survey{}, err
	}
	all := survey{Size: trees.Size{Entries: len(entries)}}
	for _, e := range entries {
		all.Paths += len(e.Name) + 1
		switch {
		case e.IsTree():
			if err := errors.Join(trees.CheckName(dir, e.Name), w.Ctx.Err()); err != nil {
				return survey{}, err
			}
			below, err := h.survey(w, path.Join(dir, e.Name), e.ID)
			if err != nil {
				return survey{}, err
			}
			all.Entries += below.Entries
			all.Paths += below.Paths + below.Entries*(len(e.Name)+1)
			all.Rules += below.Rules
			if err := all.Within(w.Most); err != nil {
				return survey{}, err
			}
			for _, f := range below.attrs {
				f.Dir = path.Join(e.Name, f.Dir)
				all.attrs = append(all.attrs, f)
			}
		case e.Name == ".gitattributes" && (e.Mode == objects.ModeFile || e.Mode == objects.ModeExec):
			text, err := objects.Read(h.Objects, e.ID, "blob")
			if err != nil {
				return survey{}, fmt.Errorf("read %s: %w", path.Join(dir, e.Name), err)
			}
			all.Rules += 1 + bytes.Count(text, []byte("\n"))
			if err := all.Within(w.Most); err != nil {
				return survey{}, err
			}
			f := attributes.Parse(string(text))
			f.ID = e.ID
			all.attrs = append(all.attrs, f)
		}
	}
	h.surveyed[tree] = all
	return all, nil
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
