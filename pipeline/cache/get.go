package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/kbisect/kbisect/pipeline/folder"
)

// errTrimmed marks an entry that is not there, or not all of it any more.
var errTrimmed = errors.New("trimmed")

// errDamaged marks an entry that cannot be restored as it was stored.
var errDamaged = errors.New("damaged entry")

// Get restores the outputs of the build under key below intoDir, returns the facts that were put with them, and reports
// whether there is such a build. What the outputs name in intoDir is replaced: stale files in an output directory go
// away. All restored files carry one modification time, not before the present nor before that of any file in intoDir,
// so that make takes them for newer than the sources. No other call may work in intoDir meanwhile.
//
// A damaged entry is a miss; intoDir is then left as it was, unless the entry is trimmed at this very moment. An error
// means that intoDir cannot be written or the cache cannot be read; then nothing that the outputs name is there.
func (c *Cache) Get(ctx context.Context, key, intoDir string) (meta map[string]string, ok bool, err error) {
	if err := checkKey(key); err != nil {
		return nil, false, err
	}
	m, err := c.load(key)
	if err == nil {
		err = c.restore(ctx, m, intoDir)
	}
	switch {
	case errors.Is(err, errTrimmed):
		return nil, false, nil
	case errors.Is(err, errManifest), errors.Is(err, errDamaged):
		c.damaged.Add(1)
		os.Remove(c.entryPath(key))
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("restore the build %.12s: %w", key, err)
	}
	return m.Meta, true, nil
}

// load reads the manifest of key and verifies every object that it names. What is missing gives errTrimmed, a damaged
// manifest errManifest, a damaged object errDamaged.
func (c *Cache) load(key string) (*manifest, error) {
	data, err := os.ReadFile(c.entryPath(key))
	if err != nil {
		return nil, trimmed(err)
	}
	used(time.Now(), c.entryPath(key)) // before its objects are, see trim
	m, err := decode(data, key)
	if err != nil {
		return nil, err
	}
	for _, it := range m.Items {
		if it.Type != typeFile {
			continue
		}
		used(time.Now(), c.objectPath(it.SHA256))
		if err := c.verify(it); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", it.Path, errDamaged, err)
		}
	}
	return m, nil
}

// verify compares an object with its digest, and removes one that is damaged.
func (c *Cache) verify(it item) error {
	object := c.objectPath(it.SHA256)
	f, err := os.Open(object)
	if err != nil {
		return trimmed(err)
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return err
	}
	if size != it.Size || hex.EncodeToString(h.Sum(nil)) != it.SHA256 {
		os.Remove(object)
		return errors.New("an object does not match its digest")
	}
	return nil
}

// trimmed is err, or errTrimmed where a file of the cache is not there.
func trimmed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errTrimmed
	}
	return err
}

// restore puts the items of a build in the place of what its outputs name now.
func (c *Cache) restore(ctx context.Context, m *manifest, intoDir string) error {
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
		err = clear(ctx, root, into, m.Outputs)
	}
	if err == nil {
		err = c.place(ctx, into, m.Items, stamp)
	}
	if err != nil { // half a build is worse than none
		err = errors.Join(err, clear(context.WithoutCancel(ctx), root, into, m.Outputs))
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
func (c *Cache) place(ctx context.Context, into *folder.Folder, items []item, stamp time.Time) error {
	for _, it := range items {
		var err error
		switch it.Type {
		case typeFile:
			err = c.write(ctx, into, it, stamp)
		case typeLink:
			err = into.Symlink(ctx, it.Target, it.Path)
		default:
			err = into.Mkdir(it.Path)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", it.Path, err)
		}
	}
	for _, it := range slices.Backward(items) { // sorted: children come after their directory
		if it.Type != typeDir {
			continue
		}
		if err := errors.Join(into.SetTime(it.Path, stamp), into.Chmod(it.Path, uint32(it.Mode))); err != nil {
			return fmt.Errorf("%s: %w", it.Path, err)
		}
	}
	return nil
}

// write copies the content of one file.
func (c *Cache) write(ctx context.Context, into *folder.Folder, it item, stamp time.Time) error {
	object, err := os.Open(c.objectPath(it.SHA256))
	if err != nil {
		return trimmed(err)
	}
	defer object.Close()
	if _, err := into.Write(ctx, it.Path, folder.File{Perm: it.Mode, Time: stamp, Content: object}); err != nil {
		return err
	}
	return into.Chmod(it.Path, uint32(it.Mode)) // whatever the umask
}
