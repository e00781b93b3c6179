// Package gitdir writes the git directory of an exported commit, so that scripts which ask git see the candidate:
// HEAD is its commit, the index lists its files as unchanged, and branches and tags are those of the repository.
//
// There are two kinds. A private one borrows the objects of the repository as alternates and has all else for
// itself: what a candidate commits, tags, stashes or configures goes with the export. A linked one is a work tree of the
// repository, as git worktree add makes it.
//
// The package runs no git and knows nothing of objects.
package gitdir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kbisect/kbisect/pipeline/folder"
)

// Repo is what git directories of exports take from a repository. It does not change.
type Repo struct {
	common     string
	extensions [][2]string
	refs       []byte            // as packed-refs
	symbolic   map[string]string // references to references: name and content of the file
	copied     map[string][]byte // further files, by name
}

// RefFormat is that of the references that Read takes, as git for-each-ref prints them.
const RefFormat = "--format=%(objectname) %(refname) %(symref)"

// Read reads the settings of the repository with this common git directory. The extensions are those of its
// configuration, refs its references.
func Read(common string, extensions [][2]string, refs string) *Repo {
	r := &Repo{common: common, symbolic: map[string]string{}, copied: map[string][]byte{}}
	for _, x := range extensions {
		switch strings.ToLower(x[0]) {
		case "objectformat", "partialclone", "noop":
			r.extensions = append(r.extensions, x)
		}
	}
	for _, name := range []string{"shallow", "info/exclude", "info/attributes", "info/grafts"} {
		if text, err := os.ReadFile(filepath.Join(common, filepath.FromSlash(name))); err == nil {
			r.copied[name] = text
		}
	}
	for ref := range strings.Lines(refs) {
		id, name, _ := strings.Cut(strings.TrimSuffix(ref, "\n"), " ")
		name, symbolic, _ := strings.Cut(name, " ")
		switch {
		case strings.HasPrefix(name, "refs/bisect/"): // of a bisection that is going on there
		case symbolic != "":
			r.symbolic[name] = "ref: " + symbolic + "\n"
		default:
			r.refs = fmt.Appendf(r.refs, "%s %s\n", id, name)
		}
	}
	return r
}

// Digest is equal where git directories of the same commit tell the same, except for branches, which move with every
// commit.
func (r *Repo) Digest() string {
	sum := sha256.New()
	for line := range bytes.Lines(r.refs) {
		if bytes.Contains(line, []byte(" refs/tags/")) {
			sum.Write(line)
		}
	}
	fmt.Fprintf(sum, "%q %q", r.extensions, r.copied) // fmt sorts by name
	return hex.EncodeToString(sum.Sum(nil))
}

// Dir is the git directory of one export.
type Dir struct {
	repo *Repo
	tree string
	name string // of a linked work tree; "" for a private directory
	head string
	seen map[string]stamp // how all that was written looked afterwards, by path
}

// stamp is how a file or folder looks.
type stamp struct {
	mode             fs.FileMode
	size             int64
	modified, change int64 // ns
	inode            uint64
}

// Dir returns the git directory of a work tree, which Write writes. With a name it is a linked work tree of the
// repository, by a folder of this name there.
func (r *Repo) Dir(tree, name string) *Dir { return &Dir{repo: r, tree: tree, name: name} }

// Of reports whether it belongs to a repository.
func (d *Dir) Of(r *Repo) bool { return d.repo == r }

// Write makes the git directory one of a commit, with this index and nothing that was left in it. A nil index is
// that of the last Write. If the directory was not touched since, only what differs is written.
func (d *Dir) Write(ctx context.Context, head string, index []byte) error {
	at := filepath.Join(d.tree, ".git")
	if d.name != "" {
		at = d.linked()
	}
	if d.untouched() {
		if head != d.head {
			if err := d.write(filepath.Join(at, "HEAD"), []byte(head+"\n")); err != nil {
				return err
			}
			d.head = head
		}
		if index == nil {
			return nil
		}
		return d.write(filepath.Join(at, "index"), index)
	}
	if index == nil {
		return errTouched
	}
	d.seen, d.head = map[string]stamp{}, head
	if err := errors.Join(folder.RemoveAll(ctx, filepath.Join(d.tree, ".git")), folder.RemoveAll(ctx, at), os.MkdirAll(at, 0o777)); err != nil {
		return err
	}
	files := d.repo.private(d.tree)
	if d.name != "" {
		link := filepath.Join(d.tree, ".git")
		files = map[string][]byte{"commondir": []byte("../..\n"), "gitdir": []byte(link + "\n")}
		if err := d.write(link, []byte("gitdir: "+at+"\n")); err != nil {
			return err
		}
	} else if err := os.MkdirAll(filepath.Join(at, "refs"), 0o777); err != nil {
		return err
	}
	files["HEAD"], files["index"] = []byte(head+"\n"), index
	folders := map[string]bool{at: true}
	for name, text := range files {
		file := filepath.Join(at, filepath.FromSlash(name))
		if dir := filepath.Dir(file); !folders[dir] {
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return err
			}
			for ; !folders[dir]; dir = filepath.Dir(dir) {
				folders[dir] = true
			}
		}
		if err := d.write(file, text); err != nil {
			return err
		}
	}
	folders[filepath.Join(at, "refs")] = d.name == ""
	for dir, ours := range folders {
		if ours {
			d.note(dir)
		}
	}
	return nil
}

// errTouched says that the whole directory has to be written, with its index.
var errTouched = errors.New("the git directory was changed")

// Touched reports that somebody has changed the directory, so that Write needs an index.
func (d *Dir) Touched() bool { return !d.untouched() }

// untouched reports that all that was written looks as it did then, the folders of references too.
func (d *Dir) untouched() bool {
	for path, was := range d.seen {
		if now, ok := look(path); !ok || now != was {
			return false
		}
	}
	return len(d.seen) > 0
}

// Removed returns a path of the directory that no longer exists, or "".
func (d *Dir) Removed() string {
	for path := range d.seen {
		if _, ok := look(path); !ok {
			return path
		}
	}
	return ""
}

func (d *Dir) write(file string, text []byte) error {
	err := os.WriteFile(file, text, 0o666)
	d.note(file)
	return err
}

func (d *Dir) note(path string) { d.seen[path], _ = look(path) }

// look is how a file looks now. The time of its last change cannot be set by a program, so that a file which was written
// and given its old time is noticed too.
func look(path string) (stamp, bool) {
	fi, err := os.Lstat(path)
	if err != nil {
		return stamp{}, false
	}
	s := stamp{mode: fi.Mode(), size: fi.Size(), modified: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.change, s.inode = st.Ctim.Nano(), st.Ino
	}
	return s, true
}

// Unlink takes a linked work tree out of the repository.
func (d *Dir) Unlink() error {
	if d.name == "" {
		return nil
	}
	err := os.RemoveAll(d.linked())
	os.Remove(filepath.Dir(d.linked())) // fails while there are other work trees
	return err
}

func (d *Dir) linked() string { return filepath.Join(d.repo.common, "worktrees", d.name) }

// private lists the files of a private directory except HEAD and the index.
func (r *Repo) private(tree string) map[string][]byte {
	files := map[string][]byte{
		"config": r.config(tree), "packed-refs": r.refs, "objects/info/alternates": []byte(line(filepath.Join(r.common, "objects")) + "\n"),
	}
	for name, text := range r.copied {
		files[name] = text
	}
	for name, text := range r.symbolic {
		files[name] = []byte(text)
	}
	return files
}

// config includes the configuration of the repository, for its remotes, filters and aliases. What would lead back
// into the user's files, or run for long, is turned off behind it.
func (r *Repo) config(tree string) []byte {
	var b bytes.Buffer
	version := 0
	if len(r.extensions) > 0 {
		version = 1
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %d\n", version)
	if version > 0 {
		b.WriteString("[extensions]\n")
	}
	for _, x := range r.extensions {
		fmt.Fprintf(&b, "\t%s = %s\n", x[0], quote(x[1]))
	}
	fmt.Fprintf(&b, "[include]\n\tpath = %s\n", quote(filepath.Join(r.common, "config")))
	fmt.Fprintf(&b, "[core]\n\tbare = false\n\tworktree = %s\n\thooksPath = /dev/null\n\tfsmonitor = false\n\tsparseCheckout = false\n\tautocrlf = false\n", quote(tree))
	b.WriteString("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
	return b.Bytes()
}

// line is a path as one line of git's list of alternates, which quotes what it must.
func line(path string) string {
	if strings.Contains(path, "\n") {
		return quote(path)
	}
	return path
}

func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}
