package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
)

// Bring makes files and folders in the export what they are below root, in the user's work tree: what a candidate
// changed or added in them is undone. What the commit itself holds there stays. Files are taken for equal where
// size and time are.
func (w *Workspace) Bring(ctx context.Context, root string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	from, err := os.OpenRoot(root)
	if err != nil {
		return &bisect.InfraError{What: "reading " + root, Err: err}
	}
	defer from.Close()
	to, err := os.OpenRoot(w.Dir) // nothing that a candidate left can lead out of it
	if err != nil {
		return &bisect.InfraError{What: "opening " + w.Dir, Err: err}
	}
	defer to.Close()
	ctx, end := w.root.bounded(ctx)
	defer end()
	k := keeper{w, from, to}
	for _, name := range names {
		err := to.MkdirAll(path.Dir(name), 0o777)
		if err == nil {
			err = k.bring(ctx, name)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return cmp.Or(w.Check(), error(&bisect.InfraError{What: "copying " + name + " of the work tree into " + w.Dir, Err: err}))
		}
	}
	return nil
}

// keeper copies from one tree into another.
type keeper struct {
	w        *Workspace
	from, to *os.Root
}

// bring makes one name what it is in the work tree, unless the commit holds it. Whatever a candidate has put in its place
// goes first: a link there must not be written through.
func (k keeper) bring(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	source, err := k.from.Lstat(name)
	if err != nil {
		return err
	}
	there, err := k.to.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, folder := k.w.export.Holds(name)
	if file || folder && !source.IsDir() || k.same(name, source, there) {
		return nil
	}
	if there != nil && (!source.IsDir() || !there.IsDir()) {
		if err := k.to.RemoveAll(name); err != nil {
			return err
		}
		there = nil
	}
	switch source.Mode().Type() {
	case 0:
		return k.copy(name, source)
	case fs.ModeSymlink:
		target, err := k.from.Readlink(name)
		if err != nil {
			return err
		}
		return k.to.Symlink(target, name)
	case fs.ModeDir:
		return k.folder(ctx, name, there)
	}
	return nil // a socket, a pipe or a device
}

// same reports that nothing need be copied.
func (k keeper) same(name string, a, b fs.FileInfo) bool {
	if b == nil || a.Mode() != b.Mode() {
		return false
	}
	if a.Mode().Type() == fs.ModeSymlink {
		x, errX := k.from.Readlink(name)
		y, errY := k.to.Readlink(name)
		return errX == nil && errY == nil && x == y
	}
	return a.Mode().IsRegular() && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// folder brings all that is in a folder, and removes what is not.
func (k keeper) folder(ctx context.Context, name string, there fs.FileInfo) error {
	if there == nil {
		if err := k.to.Mkdir(name, 0o777); err != nil {
			return err
		}
	}
	wanted, err := fs.ReadDir(k.from.FS(), name)
	if err != nil {
		return err
	}
	have, err := fs.ReadDir(k.to.FS(), name)
	if err != nil {
		return err
	}
	in := func(d fs.DirEntry) bool {
		_, found := slices.BinarySearchFunc(wanted, d.Name(), func(w fs.DirEntry, n string) int { return cmp.Compare(w.Name(), n) })
		return found
	}
	for _, d := range have {
		full := path.Join(name, d.Name())
		file, folder := k.w.export.Holds(full)
		if file || folder || in(d) {
			continue
		}
		if err := k.to.RemoveAll(full); err != nil {
			return err
		}
	}
	for _, d := range wanted {
		if err := k.bring(ctx, path.Join(name, d.Name())); err != nil {
			return err
		}
	}
	return nil
}

// copy copies a file, sharing its blocks where the file system can.
func (k keeper) copy(name string, source fs.FileInfo) (err error) {
	in, err := k.from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := k.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, source.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, out.Close()) }()
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
	if err := out.Chmod(source.Mode().Perm()); err != nil {
		return err
	}
	return k.to.Chtimes(filepath.ToSlash(name), source.ModTime(), source.ModTime())
}
