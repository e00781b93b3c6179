// Package folder works in folders that programs under test have written in. Such a program may have left links that
// lead out, mounts, paths longer than the system allows, folders without permissions, files that root made
// immutable, and more names than anybody wants to wait for. So every step of a [Folder] goes from an open folder to
// one name in it and follows no link; permissions and attributes that forbid a step are changed first; and every
// walk ends with its context. The package must not know what the folders are for.
//
// Errors are those of the kernel ([syscall.Errno]) unless a function says otherwise. Linux only.
package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// window is how many folders of a path are kept open, so that descriptors do not limit the depth of a tree.
const window = 64

// Folder is an open folder. Paths are relative to it, clean and with slashes; their last name may be a link, and is
// not followed then. It serves one goroutine. The folders below that it keeps open must be closed with Rewind
// before other programs run in it, or they would work in folders that no longer have their names.
type Folder struct {
	dir  string
	open []level // folders on the way to the last path used; the first is the folder itself
	buf  []byte  // for writing
}

// level is one folder of a path; fd is -1 if it was closed to save descriptors.
type level struct {
	name string
	fd   int
}

// Open opens a folder, which may not be a link. The caller closes it.
func Open(dir string) (*Folder, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Folder{dir: dir, open: []level{{"", fd}}}, nil
}

// Another opens the same folder once more, for another goroutine. The caller closes it.
func Another(f *Folder) (*Folder, error) {
	fd, err := unix.FcntlInt(uintptr(f.open[0].fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Folder{dir: f.dir, open: []level{{"", fd}}}, nil
}

// Close closes everything that is open. The Folder must not be used after it.
func (f *Folder) Close() { f.cut(0) }

// Rewind closes the folders below, and keeps the folder itself open.
func (f *Folder) Rewind() { f.cut(1) }

// Intact reports whether the folder's name still leads to it: nobody has removed or replaced it.
func (f *Folder) Intact() bool {
	var here, opened unix.Stat_t
	return unix.Lstat(f.dir, &here) == nil && unix.Fstat(f.open[0].fd, &opened) == nil && same(&here, &opened)
}

// same reports whether two results of stat are about the same file.
func same(a, b *unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// cut closes all folders but the first n.
func (f *Folder) cut(n int) {
	for _, l := range f.open[n:] {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
	}
	f.open = f.open[:n]
}

// parent opens the folder that holds a path and returns it with the path's last name. The folders in common with
// the last path stay open, so that files in the order of a tree cost one step each. With build, missing folders are
// made, and whatever else has their names is removed. fd belongs to f and is valid until its next method.
func (f *Folder) parent(full string, build bool) (fd int, name string, err error) {
	depth, rest := 1, full
	for {
		next, below, more := strings.Cut(rest, "/")
		if !more || depth == len(f.open) || f.open[depth].name != next {
			break
		}
		depth, rest = depth+1, below
	}
	if f.open[depth-1].fd < 0 {
		depth, rest = 1, full
	}
	f.cut(depth)
	for {
		next, below, more := strings.Cut(rest, "/")
		at := f.open[len(f.open)-1].fd
		if !more {
			return at, next, nil
		}
		fd, err := enter(at, next, build)
		if err != nil {
			return 0, "", err
		}
		f.open, rest = append(f.open, level{next, fd}), below
		if old := len(f.open) - window; old > 0 && f.open[old].fd >= 0 {
			unix.Close(f.open[old].fd)
			f.open[old].fd = -1
		}
	}
}

// enter opens a folder in a folder and, with build, makes it in place of whatever is there.
func enter(at int, name string, build bool) (int, error) {
	var fd int
	err := allowed(at, ".", func() (err error) { fd, err = descend(at, name, unix.O_PATH); return err })
	if err == nil || !build || err != unix.ENOENT && err != unix.ENOTDIR && err != unix.ELOOP {
		return fd, err
	}
	if err != unix.ENOENT {
		if err := allowed(at, name, func() error { return unix.Unlinkat(at, name, 0) }); err != nil {
			return -1, err
		}
	}
	if err := allowed(at, ".", func() error { return unix.Mkdirat(at, name, 0o777) }); err != nil {
		return -1, err
	}
	return descend(at, name, unix.O_PATH)
}

// descend opens a folder in a folder. It follows no link and enters no mount, as there are other people's files
// behind it.
func descend(at int, name string, flags uint64) (int, error) {
	flags |= unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat2(at, name, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV})
	if err == unix.ENOSYS { // before Linux 5.6
		return unix.Openat(at, name, int(flags), 0)
	}
	return fd, err
}

// do makes a change to a path, in its folder, after changing what forbids it.
func (f *Folder) do(full string, build bool, change func(at int, name string) error) error {
	at, name, err := f.parent(full, build)
	if err != nil {
		return err
	}
	return allowed(at, name, func() error { return change(at, name) })
}

// replace makes a path with create, which must fail with EEXIST if the path exists; that is then removed first.
func (f *Folder) replace(ctx context.Context, full string, create func(at int, name string) error) error {
	return f.do(full, true, func(at int, name string) error {
		err := create(at, name)
		if err != unix.EEXIST {
			return err
		}
		if err := remove(ctx, at, name); err != nil {
			return err
		}
		return create(at, name)
	})
}

// File is what a plain file shall be.
type File struct {
	Perm    os.FileMode // of a new file, before the umask
	Time    time.Time   // when it was last changed
	Content io.Reader

	// Own says that there is such a file already, of this many bytes, which has no other name and which only Write has
	// written: another content is written into it, which costs the file system less than a new file.
	Own  bool
	Size int64
}

// Write makes a file, and the folders above it, and returns its stat. What is there already is removed and never
// written into, because it may share its content with others by a hard link; only the folder's own file (File.Own)
// is overwritten.
func (f *Folder) Write(ctx context.Context, full string, file File) (st unix.Stat_t, err error) {
	const flags = unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	at, name, err := f.parent(full, true)
	fd := -1
	if file.Own && err == nil {
		fd, _ = unix.Openat(at, name, flags, 0) // else it is made anew
	}
	if fd < 0 {
		file.Size = 0
		err = f.replace(ctx, full, func(at int, name string) (err error) {
			fd, err = unix.Openat(at, name, flags|unix.O_CREAT|unix.O_EXCL, uint32(file.Perm))
			return err
		})
	}
	if err != nil {
		return st, err
	}
	err = fill(f, fd, file)
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if closed := unix.Close(fd); err == nil {
		err = closed
	}
	return st, err
}

// fill writes the content of an open file and then sets its time, which writing would change.
func fill(f *Folder, fd int, file File) error {
	stamp, err := unix.TimeToTimespec(file.Time)
	if err != nil {
		return err
	}
	if f.buf == nil {
		f.buf = make([]byte, 64<<10)
	}
	size, err := io.CopyBuffer(descriptor(fd), struct{ io.Reader }{file.Content}, f.buf)
	if err == nil && size < file.Size {
		err = unix.Ftruncate(fd, size)
	}
	if err != nil {
		return err
	}
	return futimens(fd, &[2]unix.Timespec{stamp, stamp})
}

// futimens sets the times, of access and of change, of an open file.
func futimens(fd int, times *[2]unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// descriptor is a plain file that is open for writing.
type descriptor int

// Write implements io.Writer. No signal interrupts writing to a plain file, but a full disk may cut it short.
func (d descriptor) Write(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := unix.Write(int(d), p[n:])
		if err != nil && err != unix.EINTR {
			return n, err
		}
		n += max(m, 0)
	}
	return n, nil
}

// Symlink makes a symbolic link in place of whatever is there.
func (f *Folder) Symlink(ctx context.Context, target, full string) error {
	return f.replace(ctx, full, func(at int, name string) error { return unix.Symlinkat(target, at, name) })
}

// Mkdir makes a path a folder, and those above it, in place of whatever is there.
func (f *Folder) Mkdir(full string) error {
	_, _, err := f.parent(full+"/x", true)
	return err
}

// Readlink returns the target of a link.
func (f *Folder) Readlink(full string) (target string, err error) {
	buf := make([]byte, 1<<16)
	err = f.do(full, false, func(at int, name string) error {
		n, err := unix.Readlinkat(at, name, buf)
		target = string(buf[:max(n, 0)])
		return err
	})
	return target, err
}

// Read opens a plain file for reading.
func (f *Folder) Read(full string) (file *os.File, err error) {
	err = f.do(full, false, func(at int, name string) error {
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			file = os.NewFile(uintptr(fd), full)
		}
		return err
	})
	return file, err
}

// Stat returns the stat of a path itself, even if that is a link.
func (f *Folder) Stat(full string) (st unix.Stat_t, err error) {
	err = f.do(full, false, func(at int, name string) error { return unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// Look is Stat in one system call, "" for the top. Links in the path are followed, except for the last name, so
// that it is for paths whose folders are known. Several goroutines may look at once while nothing else uses the
// Folder.
func Look(f *Folder, full string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(f.open[0].fd, full, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	return st, err
}

// SetTime sets the time of change of a file, or of a link itself.
func (f *Folder) SetTime(full string, t time.Time) error {
	stamp, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	return f.do(full, false, func(at int, name string) error {
		return unix.UtimesNanoAt(at, name, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Chmod sets the mode of a folder; "." is the top.
func (f *Folder) Chmod(full string, mode uint32) error {
	return f.do(full, false, func(at int, name string) error { return unix.Fchmodat(at, name, mode&0o7777, 0) })
}

// Remove removes a path that is not a folder. A folder, a path that does not exist, and one below a link are left
// alone without an error.
func (f *Folder) Remove(full string) error { return unlink(f, full, 0, unix.EISDIR) }

// RemoveEmpty removes a folder that is empty. Any other path is left alone without an error.
func (f *Folder) RemoveEmpty(full string) error {
	return unlink(f, full, unix.AT_REMOVEDIR, unix.ENOTEMPTY)
}

// unlink removes a name. The error fine, and those of a path that does not exist, are none.
func unlink(f *Folder, full string, flags int, fine error) error {
	err := f.do(full, false, func(at int, name string) error { return unix.Unlinkat(at, name, flags) })
	return except(err, fine, unix.ENOENT, unix.ENOTDIR, unix.ELOOP)
}

// allowed makes a change to a name in a folder and, if permissions or attributes forbid that, once more after unlocking
// both.
func allowed(at int, name string, change func() error) error {
	err := change()
	if errors.Is(err, fs.ErrPermission) && allow(at, ".", name) {
		err = change()
	}
	return err
}

// allow takes away what forbids the owner to change names in a folder: modes of folders and, as root, the
// attributes that chattr sets. It reports whether it changed anything, so that a retry makes sense.
func allow(at int, names ...string) (changed bool) {
	const locked = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND // the same bits as in FS_IOC_GETFLAGS
	for _, name := range names {
		var st unix.Stat_t
		file := fmt.Sprintf("/proc/self/fd/%d", at) // a way to it that needs no permission in the folder
		err := unix.Fstat(at, &st)
		if name != "." {
			err, file = unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW), file+"/"+name
		}
		if err != nil || !IsDir(&st) && st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
			if err == nil && flags&locked != 0 && unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags&^locked) == nil {
				changed = true
			}
			unix.Close(fd)
		}
		const owner = 0o700
		if IsDir(&st) && st.Mode&owner != owner && unix.Chmod(file, st.Mode&0o7777|owner) == nil {
			changed = true
		}
	}
	return changed
}
