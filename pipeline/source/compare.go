package source

import "fmt"

// Key is the input fingerprint of one commit, as RangeCommit.Key.
func (r *Repo) Key(id string, paths []string) (string, error) {
	clean, err := parsePaths(paths)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.commit(id)
	if err != nil {
		return "", err
	}
	key, err := newKeyer(r.objs, clean).key(c.Tree)
	if err != nil {
		return "", fmt.Errorf("fingerprint of commit %s: %w", short(id), err)
	}
	return key, nil
}

// Changes lists the files that differ between any two commits, sorted by path.
func (r *Repo) Changes(from, to string) ([]FileChange, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, err := r.commit(from)
	if err != nil {
		return nil, err
	}
	b, err := r.commit(to)
	if err != nil {
		return nil, err
	}
	var changes []leafChange
	err = diffTrees(r.objs, "", a.Tree, b.Tree, func(ch leafChange) error {
		changes = append(changes, ch)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("changes from %s to %s: %w", short(from), short(to), err)
	}
	return fileChanges(changes), nil
}

// Has reports whether a commit holds anything at a path.
func (r *Repo) Has(id, path string) (bool, error) {
	key, err := r.Key(id, []string{path})
	if err != nil {
		return false, err
	}
	nothing := newKeyer(nil, []string{path}).empty(len(id))
	return key != nothing, nil
}
