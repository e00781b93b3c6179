package export

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gitdir"
	"github.com/kbisect/kbisect/pipeline/source/internal/synthetic"
)

// writeGit gives the slot, and every submodule in it, the git directory of a fresh checkout: HEAD
// is the commit, and the index lists its files as unchanged. Builds ask git for their version, and
// one that sees a change calls itself dirty. An index is written only when files have changed or
// somebody has touched the old one, because it lists every file.
func (e *Export) writeGit(ctx context.Context, commit string, changed bool) error {
	stale := changed
	for prefix, m := range e.mods {
		if d := e.git[prefix]; d == nil || !d.Of(m.repo.git) {
			if m.repo.git == nil {
				var err error
				if m.repo.git, err = m.repo.readGit(ctx); err != nil {
					return err
				}
			}
			linked := e.Linked
			if prefix != "" {
				linked = ""
			}
			e.git[prefix] = m.repo.git.Dir(filepath.Join(e.dir, filepath.FromSlash(prefix)), linked)
		}
		stale = stale || e.git[prefix].Touched()
	}
	entries := map[string][]gitdir.Entry{}
	if stale {
		entries[""] = make([]gitdir.Entry, 0, len(e.held.order))
		for _, t := range e.held.order {
			rel := strings.TrimPrefix(strings.TrimPrefix(t.full, t.prefix), "/")
			entries[t.prefix] = append(entries[t.prefix], gitdir.Entry{Path: rel, Mode: t.Mode, ID: t.ID,
				Size: t.seen.size, Mtime: t.seen.mtime, Changed: t.seen.changed, Inode: t.seen.inode})
		}
	}
	for prefix, m := range e.mods {
		// A commit that exists in memory alone is not one that git finds: HEAD is the one it was
		// made from.
		head := m.commit
		if o, ok := m.repo.Objects.(synthetic.Overlay); ok {
			head = o.Base(commit)
		}
		var index []byte
		if stale {
			index = gitdir.Index(entries[prefix])
		}
		if err := e.git[prefix].Write(ctx, head, index); err != nil {
			return err
		}
	}
	return nil
}

// readGit reads what git directories of exports take from the repository.
func (h *handle) readGit(ctx context.Context) (*gitdir.Repo, error) {
	refs, err := h.Command(ctx, "for-each-ref", gitdir.RefFormat).Output()
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("read the references of %s: %w", h.CommonDir, err)
	}
	return gitdir.Read(h.CommonDir, h.Features.Extensions, string(refs)), nil
}

// Digest is equal for two moments in which an export of the same commit holds the same: tags,
// attributes and the configuration of filters are. Branches and remotes do not count.
func Digest(ctx context.Context, r *source.Repo) (string, error) {
	from, _, _ := source.Inside(r)
	dir, err := newHandle(from, nil).readGit(ctx)
	if err != nil {
		return "", fmt.Errorf("read the settings of %s: %w", from.CommonDir, err)
	}
	sum, counts := sha256.New(), true
	config, _ := os.ReadFile(filepath.Join(from.CommonDir, "config")) // it was read when the repository was opened
	for line := range bytes.Lines(config) {
		if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("[")) {
			counts = !bytes.HasPrefix(line, []byte("[branch ")) && !bytes.HasPrefix(line, []byte("[remote "))
		}
		if counts {
			fmt.Fprintf(sum, "%s\n", line)
		}
	}
	fmt.Fprintln(sum, dir.Digest())
	return hex.EncodeToString(sum.Sum(nil)), nil
}
