package export

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/internal/attributes"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// leaf is one path to be held by a slot.
type leaf struct {
	objects.Entry
	prefix string // of the module it belongs to
	treat  attributes.Treatment
}

// plan is what must change in a slot to go from its modules to those of another commit. Making one
// reads objects and writes nothing.
type plan struct {
	e     *Export
	walk  *trees.Walk // over the trees of all modules
	paths source.Paths
	mods  map[string]*module // of the wanted commit, by prefix
	puts  map[string]leaf
	dels  map[string]bool

	warnings []string
}

// newPlan returns an empty plan for a slot.
func newPlan(ctx context.Context, e *Export) (*plan, error) {
	paths, err := source.ParsePaths(e.Paths)
	if err != nil {
		return nil, err
	}
	walk := trees.NewWalk(ctx, e.main.Layout, e.known.Get())
	p := &plan{e: e, walk: walk, paths: paths, mods: maps.Clone(e.mods), puts: map[string]leaf{}, dels: map[string]bool{}}
	return p, nil
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

// module plans one tree at its prefix, from whatever is there now. Trees of two repositories are
// never compared: a submodule that comes from elsewhere is removed and written as a whole.
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

// drop plans the removal of a module and of all modules inside it. It does nothing at a path
// without one, so callers need not ask what was there.
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

// change plans one path that differs. A path can come twice, once as gone from a module and once as
// new in another; whichever comes first, the new one stays.
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

// put plans one file, if its attributes can be followed. To build something else than git checks
// out would blame the wrong commit, so the file is refused; outside of the paths that the build
// reads, it is only warned of.
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

// unsupported reports a path that matters; of others it only warns.
func (p *plan) unsupported(full, attribute, reason, hint string) error {
	u := &objects.UnsupportedError{Path: full, Attribute: attribute, Reason: reason, Hint: hint}
	if p.paths.Cover(full) {
		return u
	}
	p.warnings = append(p.warnings, fmt.Sprintf("%s: %s (%s); it is outside the chosen paths", full, reason, attribute))
	return nil
}

// optional reports whether a file may be left out: no path says that the build reads it.
func (p *plan) optional(full string) bool { return len(p.paths) == 0 || !p.paths.Cover(full) }

// submodule plans the tree behind a pin, or an empty folder when its commit is not at hand and the
// paths do not need it.
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
	return p.unsupported(full, "submodule", "the pinned commit "+objects.Short(commit)+" has not been fetched",
		"git submodule update --init --recursive")
}

// openSubmodule finds the repository that has a pinned commit; nil means that none has. One that
// cannot be opened is passed over, for another may have it.
func (p *plan) openSubmodule(m *module, rel, full, commit string) (*module, error) {
	name, err := m.submoduleName(rel)
	if err != nil {
		return nil, err
	}
	for _, l := range m.submoduleDirs(rel, name) {
		h := p.e.subs[l.GitDir]
		if h == nil {
			from, _, err := objects.Open(l)
			if err != nil {
				continue
			}
			h = newHandle(from, nil)
			p.e.subs[l.GitDir] = h
		}
		if kind, err := objects.Kind(h.Objects, commit); err == nil && kind == "commit" {
			return newModule(p.walk, h, full, commit)
		}
	}
	return nil, nil
}

// reconvert plans the files that keep their blob but not their attributes. A comparison of trees
// does not find them, but their line ends or their LFS content change.
func (p *plan) reconvert(old, m *module) error {
	a, b := old.attrs, m.attrs
	if a == nil && b == nil || a != nil && b != nil && a.Signature == b.Signature {
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

// restore plans to write the tracked files that the build has changed. They count as touched from
// now on: a hard link may lead to them from elsewhere, and what is written into one of its names
// shows in all.
func (p *plan) restore(changed []*tracked) {
	for _, t := range changed {
		t.touched = true
		if _, planned := p.puts[t.full]; !planned && !p.dels[t.full] {
			p.puts[t.full] = t.leaf
		}
	}
}
