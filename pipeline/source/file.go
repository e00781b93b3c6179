package source

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// File reads one file of a commit; found is false where the commit has no file at that path. A link gives
// its target.
func (r *Repo) File(id, name string) (data []byte, found bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.commit(id)
	if err != nil {
		return nil, false, err
	}
	at := entry{mode: modeTree, id: c.Tree}
	for _, part := range strings.Split(path.Clean(name), "/") {
		if !at.isTree() {
			return nil, false, nil
		}
		entries, err := readTree(r.objs, at.id)
		if err != nil {
			return nil, false, fmt.Errorf("read %s of commit %s: %w", name, short(id), err)
		}
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == part })
		if i < 0 {
			return nil, false, nil
		}
		at = entries[i]
	}
	if at.isTree() || at.mode == modeGitlink {
		return nil, false, nil
	}
	data, err = readObject(r.objs, at.id, "blob")
	if err != nil {
		return nil, false, fmt.Errorf("read %s of commit %s: %w", name, short(id), err)
	}
	return data, true, nil
}
