package source

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// leaf is one path to be held by a slot.
type leaf struct {
	mode   uint32
	id     string // blob, or the commit of a submodule
	prefix string // of the module it belongs to
	treat  treatment
}

// plan is what must change in a slot to go from its modules to those of
// another commit. Making one reads objects and writes nothing.
type plan struct {
	e     *Export
	paths []string
	mods  map[string]*module // of the wanted commit, by prefix
	puts  map[string]leaf
	dels  map[string]bool
	// report receives what cannot be written faithfully; returning an error
	// ends the plan.
	report   func(*UnsupportedError) error
	warnings []string
}

func (e *Export) newPlan(from map[string]*module, report func(*UnsupportedError) error) (*plan, error) {
	paths, err := parsePaths(e.Paths)
	if err != nil {
		return nil, err
	}
	p := &plan{e: e, paths: paths, mods: map[string]*module{}, puts: map[string]leaf{}, dels: map[string]bool{}, report: report}
	for prefix, m := range from {
		p.mods[prefix] = m
	}
	return p, nil
}

// to completes the plan for one commit of the user's repository.
func (p *plan) to(commit string) error {
	m, err := newModule(p.e.main, "", commit)
	if err != nil {
		return fmt.Errorf("commit %s: %w", short(commit), err)
	}
	if err := p.module(m); err != nil {
		var u *UnsupportedError
		if errors.As(err, &u) && u.Commit == "" {
			u.Commit = commit
			return u
		}
		return fmt.Errorf("commit %s: %w", short(commit), err)
	}
	return nil
}

// module plans one tree at its prefix, from whatever is there now.
func (p *plan) module(m *module) error {
	old := p.mods[m.prefix]
	if old != nil && old.handle != m.handle {
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
	err := diffTrees(m.objs, "", before, m.tree, func(ch leafChange) error { return p.change(m, ch) })
	if err != nil {
		return err
	}
	if old != nil {
		return p.retreat(old, m)
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
	return diffTrees(m.objs, "", m.tree, "", func(ch leafChange) error {
		full := path.Join(prefix, ch.path)
		p.dels[full] = true
		if ch.old.mode == modeGitlink {
			return p.drop(full)
		}
		return nil
	})
}

func (p *plan) change(m *module, ch leafChange) error {
	full := path.Join(m.prefix, ch.path)
	if ch.new == nil {
		if _, again := p.puts[full]; !again {
			p.dels[full] = true
		}
		return p.drop(full)
	}
	if ch.new.mode == modeGitlink {
		return p.submodule(m, ch.path, full, ch.new.id)
	}
	if err := p.drop(full); err != nil {
		return err
	}
	l := leaf{mode: ch.new.mode, id: ch.new.id, prefix: m.prefix}
	if l.mode != modeLink {
		l.treat = m.attrs.treat(ch.path)
	}
	return p.put(m, full, l)
}

// put plans one file, after a look at what its attributes ask for.
func (p *plan) put(m *module, full string, l leaf) error {
	if filter, ok := strings.CutPrefix(l.treat.refuse, "filter="); ok && !m.smudges(filter) {
		l.treat.refuse = ""
	}
	if l.treat.refuse != "" {
		if err := p.unsupported(full, l.treat.refuse, "the file would differ from what git checks out",
			"name paths (--path) that leave it out, or remove the attribute"); err != nil {
			return err
		}
	}
	if l.treat.lfs {
		if err := p.checkLFS(m, full, l.id); err != nil {
			return err
		}
	}
	delete(p.dels, full)
	p.puts[full] = l
	return nil
}

func (p *plan) checkLFS(m *module, full, id string) error {
	ptr, ok, err := readLFSPointer(m.objs, id)
	if isMissing(err) && p.spares(full) {
		return nil // and is left out
	}
	if err != nil || !ok || m.lfsFile(ptr) != "" {
		return err
	}
	return p.unsupported(full, "filter=lfs", "its Git LFS content is not here",
		"git lfs fetch --all, or git lfs fetch origin "+short(m.commit))
}

func readLFSPointer(o objects, id string) (lfsPointer, bool, error) {
	kind, size, r, err := o.open(id)
	if err != nil {
		return lfsPointer{}, false, err
	}
	r.Close()
	if kind != "blob" || size >= lfsPointerMax {
		return lfsPointer{}, false, nil
	}
	blob, err := readObject(o, id, "blob")
	if err != nil {
		return lfsPointer{}, false, err
	}
	ptr, ok := parseLFSPointer(blob)
	return ptr, ok, nil
}

// unsupported reports a path that matters; of others it only warns.
func (p *plan) unsupported(full, attribute, reason, hint string) error {
	u := &UnsupportedError{Path: full, Attribute: attribute, Reason: reason, Hint: hint}
	if covers(p.paths, full) {
		return p.report(u)
	}
	p.warnings = append(p.warnings, fmt.Sprintf("%s: %s (%s); it lies outside the chosen paths", full, reason, attribute))
	return nil
}

// spares reports a file that nobody has said the build reads.
func (p *plan) spares(full string) bool { return len(p.paths) == 0 || !covers(p.paths, full) }

// submodule plans the tree behind a pin, or an empty folder when its commit is
// not at hand and the paths do not need it.
func (p *plan) submodule(m *module, rel, full, commit string) error {
	delete(p.dels, full)
	p.puts[full] = leaf{mode: modeGitlink, id: commit, prefix: m.prefix}
	sub, err := p.e.openSubmodule(m, rel, full, commit)
	if err != nil {
		return err
	}
	if sub != nil {
		return p.module(sub)
	}
	if err := p.drop(full); err != nil {
		return err
	}
	return p.unsupported(full, "submodule", "the pinned commit "+short(commit)+" is not here", "git submodule update --init --recursive")
}

// retreat plans the files whose blobs stay but whose attributes have changed.
func (p *plan) retreat(old, m *module) error {
	if old.attrs == nil && m.attrs == nil || old.attrs != nil && m.attrs != nil && old.attrs.signature == m.attrs.signature {
		return nil
	}
	for full, t := range p.e.tracked {
		if t.prefix != m.prefix || t.mode == modeLink || t.mode == modeGitlink || p.dels[full] {
			continue
		}
		if _, planned := p.puts[full]; planned {
			continue
		}
		l := t.leaf
		l.treat = m.attrs.treat(strings.TrimPrefix(strings.TrimPrefix(full, m.prefix), "/"))
		if l.treat != t.treat {
			if err := p.put(m, full, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// clash returns two wanted paths that a file system without case would hold
// to be one, or "".
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
