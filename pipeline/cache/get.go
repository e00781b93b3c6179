package cache

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/kbisect/kbisect/pipeline/folder"
)

// Get restores the outputs of the build under key below intoDir, returns the facts that
// were put with them, and reports whether there is such a build. What the outputs name in intoDir is replaced: stale files in
// an output directory go away. All restored files carry one modification time, not
// before the present nor before that of any file in intoDir, so that make takes them
// for newer than the sources. No other call may work in intoDir meanwhile.
//
// A damaged entry is a miss; intoDir is then left as it was. An error means that
// intoDir cannot be written or the cache cannot be read; then nothing that the outputs
// name is there.
func (c *Cache) Get(ctx context.Context, key, intoDir string) (meta map[string]string, ok bool, err error) {
	if err := checkKey(key); err != nil {
		return nil, false, err
	}
	b, err := openBuild(c.path(key), key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if errors.Is(err, errDamaged) {
		c.damaged.Add(1)
		os.Remove(c.path(key))
		return nil, false, nil
	}
	if err == nil {
		defer b.file.Close()
		err = b.restore(ctx, intoDir)
	}
	if err != nil {
		return nil, false, fmt.Errorf("restore the build %.12s: %w", key, err)
	}
	now := time.Now()
	os.Chtimes(c.path(key), now, now) // the last use; in a cache that is read-only it stays
	return b.Meta, true, nil
}

// restore puts a build in the place of what its outputs name now.
func (b *build) restore(ctx context.Context, intoDir string) error {
	root, err := os.OpenRoot(intoDir)
	if err != nil {
		return err
	}
	defer root.Close()
	into, err := folder.Open(intoDir)
	if err != nil {
		return err
	}
	defer into.Close()
	stamp, err := into.Newest(ctx, ".", time.Now())
	if err == nil {
		err = clear(ctx, root, into, b.Outputs)
	}
	if err == nil {
		err = b.place(ctx, into, stamp)
	}
	if err != nil { // half a build is worse than none
		err = errors.Join(err, clear(context.WithoutCancel(ctx), root, into, b.Outputs))
	}
	return err
}

// clear removes what the outputs name now. The whole directory as an output is only written over.
func clear(ctx context.Context, root *os.Root, into *folder.Folder, outputs []string) error {
	for _, out := range outputs {
		if out == "." {
			continue
		}
		names, err := expand(root, out)
		if err != nil && !errors.Is(err, errEscape) {
			return err
		}
		for _, name := range names {
			if err := into.RemoveAll(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// place makes the items: first all that is in them, then the modes of directories, which may forbid writing.
func (b *build) place(ctx context.Context, into *folder.Folder, stamp time.Time) error {
	var dirs []*tar.Header
	err := b.each(func(it *tar.Header, content io.Reader) error {
		mode := it.FileInfo().Mode().Perm()
		switch it.Typeflag {
		case tar.TypeSymlink:
			return into.Symlink(ctx, it.Linkname, it.Name)
		case tar.TypeDir:
			dirs = append(dirs, it)
			return into.Mkdir(it.Name)
		}
		_, err := into.Write(ctx, it.Name, folder.File{Perm: mode, Time: stamp, Content: content})
		if err == nil {
			err = into.Chmod(it.Name, uint32(mode)) // whatever the umask
		}
		return err
	})
	for _, it := range slices.Backward(dirs) { // children come after their directory
		if err == nil {
			err = errors.Join(into.SetTime(it.Name, stamp), into.Chmod(it.Name, uint32(it.Mode)))
		}
	}
	return err
}
