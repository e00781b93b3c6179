package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/gitdir"
	"github.com/kbisect/kbisect/pipeline/source/internal/attributes"
	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// handle is one open repository: the user's, or that of a submodule.
type handle struct {
	objects.Repo
	list     *commits.List     // what is known of its commits; nil for a submodule
	git      *gitdir.Repo      // what git directories of exports take from it; nil until one is written
	surveyed map[string]survey // by tree id
	drivers  map[string]bool   // filters that change what is checked out, by name
}

func newHandle(r objects.Repo, list *commits.List) *handle {
	return &handle{Repo: r, list: list, surveyed: map[string]survey{}}
}

// smudges reports whether a filter changes what git checks out: without a driver in the
// configuration git writes the plain content. Where git cannot be asked the filter is taken to
// change something: a file is rather refused than built from wrongly.
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

// module is one tree laid out in a slot: the candidate's own, with prefix "", or that of a
// submodule.
type module struct {
	repo   *handle
	prefix string
	commit string
	tree   string
	attrs  *attributes.Attributes
	names  map[string]string // submodule names by path, read when needed
}

// newModule reads the tree of a commit and its attributes. The commit is compared with what the
// range was made from before anything of it is believed.
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

// survey is what must be known of a whole tree before any of it is written: attributes of a folder
// decide about files far below it, and how much there is decides whether to begin.
type survey struct {
	attrs []attributes.File // its .gitattributes files, their folders relative to it
	trees.Size
}

// survey reads every tree below one once, however often it occurs: what a subtree holds is
// remembered by its id. So a commit that differs in one folder costs the trees on the way to it,
// and one that repeats a tree a million times is found to be too large without walking through all
// of it.
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
