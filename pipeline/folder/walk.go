package folder

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Visitor takes one name in a folder, and its stat. Its error ends the listing.
type Visitor func(name string, st *unix.Stat_t) error

// List calls visit for every name in a folder, "" for the top, in no particular order. The Folder must not be used
// meanwhile.
func (f *Folder) List(ctx context.Context, full string, visit Visitor) error {
	at, _, err := f.parent(filepath.Join(full, "x"), false)
	if err != nil {
		return err
	}
	return list(ctx, at, func(at int, name string) error {
		var st unix.Stat_t
		err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			err = visit(name, &st)
		}
		return except(err, unix.ENOENT)
	})
}

// Names are the names in a folder, "" for the top.
func Names(ctx context.Context, f *Folder, full string) (map[string]bool, error) {
	names := map[string]bool{}
	at, _, err := f.parent(filepath.Join(full, "x"), false)
	if err == nil {
		err = list(ctx, at, func(_ int, name string) error { names[name] = true; return nil })
	}
	return names, err
}

// Newest is the latest time of change of anything below a folder, or before if nothing is later.
func (f *Folder) Newest(ctx context.Context, full string, before time.Time) (newest time.Time, err error) {
	newest = before
	at, name, err := f.parent(full, false)
	if err != nil {
		return newest, err
	}
	return newest, walk(ctx, at, name, func(at int, name string) (bool, error) {
		var st unix.Stat_t
		err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if t := time.Unix(st.Mtim.Unix()); err == nil && t.After(newest) {
			newest = t
		}
		return IsDir(&st), except(err, unix.ENOENT)
	}, func(int, string) error { return nil })
}

// IsDir reports whether a stat is that of a folder.
func IsDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// RemoveAll removes a path with everything below it, whatever forbids it. A path that does not exist is not an error.
func (f *Folder) RemoveAll(ctx context.Context, full string) error {
	at, name, err := f.parent(full, false)
	if err == nil {
		err = remove(ctx, at, name)
	}
	return except(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP)
}

// RemoveAll removes a path of the file system with everything below it, whatever forbids it. Its error is an
// *os.PathError.
func RemoveAll(ctx context.Context, path string) error {
	at, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return except(err, unix.ENOENT)
	}
	defer unix.Close(at)
	if err := remove(ctx, at, filepath.Base(path)); err != nil {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// remove removes a name in an open folder, with everything below it. It tries to unlink first and asks what the
// name is only by the error, which saves a call for every file.
func remove(ctx context.Context, at int, name string) error {
	return walk(ctx, at, name, func(at int, name string) (bool, error) {
		err := allowed(at, name, func() error { return unix.Unlinkat(at, name, 0) })
		return err == unix.EISDIR, except(err, unix.ENOENT, unix.EISDIR)
	}, func(at int, name string) error {
		return except(allowed(at, name, func() error { return unix.Unlinkat(at, name, unix.AT_REMOVEDIR) }), unix.ENOENT)
	})
}

// except returns err unless it is one of fine.
func except(err error, fine ...error) error {
	for _, f := range fine {
		if err == f {
			return nil
		}
	}
	return err
}

// list calls visit for every name in an open folder. It reads 8 KiB of names at a time: a program may have left
// millions.
func list(ctx context.Context, at int, visit func(at int, name string) error) error {
	var fd int
	if err := allowed(at, ".", func() (err error) { fd, err = descend(at, ".", unix.O_RDONLY); return err }); err != nil {
		return err
	}
	defer unix.Close(fd)
	var buf [8 << 10]byte
	for {
		n, err := unix.ReadDirent(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := visit(fd, name); err != nil {
				return err
			}
		}
	}
}

// place is a folder in a walk, with the names of the folders in it that are still to be walked.
type place struct {
	fd     int
	st     unix.Stat_t
	within []string
}

// walk calls enter for a name and for everything below it, which reports whether that is a folder, and leave for
// each folder after everything in it. It goes up through "..", so that any depth needs only two descriptors and no
// long path.
func walk(ctx context.Context, at int, top string, enter func(at int, name string) (bool, error), leave func(at int, name string) error) error {
	isDir, err := enter(at, top)
	if err != nil || !isDir {
		return err
	}
	here := place{fd: at, within: []string{top}}
	if err := unix.Fstat(at, &here.st); err != nil {
		return err
	}
	var above []place // their descriptors are closed, but for the first, which is the caller's
	defer func() {
		if len(above) > 0 {
			unix.Close(here.fd)
		}
	}()
	for {
		if n := len(here.within); n > 0 {
			next := place{}
			name := here.within[n-1]
			err := allowed(here.fd, name, func() (err error) { next.fd, err = descend(here.fd, name, unix.O_PATH); return err })
			if err == unix.ENOENT { // another process removed it
				here.within = here.within[:n-1]
				continue
			}
			if err != nil {
				return err
			}
			if len(above) > 0 {
				unix.Close(here.fd)
			}
			above, here = append(above, here), next
			if err := unix.Fstat(here.fd, &here.st); err != nil {
				return err
			}
			err = list(ctx, here.fd, func(at int, name string) error {
				isDir, err := enter(at, name)
				if isDir {
					here.within = append(here.within, name)
				}
				return err
			})
			if except(err, unix.ENOENT) != nil {
				return err
			}
			continue
		}
		last := len(above) - 1
		if last < 0 {
			return nil
		}
		if err := here.up(above[last], last == 0); err != nil {
			return err
		}
		above = above[:last]
		n := len(here.within) - 1
		if err := leave(here.fd, here.within[n]); err != nil {
			return err
		}
		here.within = here.within[:n]
	}
}

// up goes back to the folder above and checks that it is the one it was (ESTALE if not): a program that moves
// folders about could otherwise lead the walk elsewhere.
func (p *place) up(above place, open bool) error {
	if !open {
		fd, err := unix.Openat(p.fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		above.fd = fd
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || !same(&st, &above.st) {
			unix.Close(fd)
			return unix.ESTALE
		}
	}
	unix.Close(p.fd)
	*p = above
	return nil
}
