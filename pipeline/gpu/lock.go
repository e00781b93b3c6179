//go:build unix

package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockDir is the same for every user of a machine: TMPDIR or a directory that
// only some may write would give two users two locks for one device.
const lockDir = "/tmp"

// errLocked is wrapped by the error of TryLock, and by that of lock when its
// context ends first, while another process holds the device.
var errLocked = errors.New("device is in use by another kbisect")

// lock takes the device for this process and waits for it until ctx ends. The
// lock is advisory, works across processes and users of one machine, and
// disappears with the process. Call release to give the device back; calling it
// again does nothing.
func lock(ctx context.Context, uuid string) (release func(), err error) {
	return lockIn(ctx, lockDir, uuid)
}

// TryLock is lock without waiting.
func TryLock(uuid string) (release func(), err error) { return tryLockIn(lockDir, uuid) }

// lockIn is lock in a folder. It looks again and again, since a blocking flock could not be ended with the context.
func lockIn(ctx context.Context, dir, uuid string) (func(), error) {
	pause := 20 * time.Millisecond
	for {
		release, err := tryLockIn(dir, uuid)
		if err == nil || !errors.Is(err, errLocked) {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %w: %w", ctx.Err(), err)
		case <-time.After(pause):
			pause = min(2*pause, 500*time.Millisecond)
		}
	}
}

// tryLockIn is TryLock in a folder. A file that is made or removed by others between two steps is tried again: one that
// was removed between opening and locking keeps nobody out.
func tryLockIn(dir, uuid string) (func(), error) {
	path, err := lockPath(dir, uuid)
	if err != nil {
		return nil, err
	}
	for range 100 {
		f, err := openLock(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lock device %s: %w\nhint: remove %s if it is not a regular file of kbisect", uuid, err, path)
		}
		if err := flock(f); err != nil {
			holder := holderOf(f)
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, fmt.Errorf("lock device %s: %w%s", uuid, errLocked, holder)
			}
			return nil, fmt.Errorf("lock device %s: %w", uuid, err)
		}
		if !stillAt(f, path) {
			f.Close()
			continue
		}
		signHolder(f)
		return func() { _ = f.Close() }, nil // which drops the lock; a second Close only fails
	}
	return nil, fmt.Errorf("lock device %s: %s keeps being removed", uuid, path)
}

// lockPath names the file; a UUID is letters, digits and dashes, and anything
// else could lead out of the directory.
func lockPath(dir, uuid string) (string, error) {
	ok := uuid != "" && len(uuid) <= 128 && strings.Trim(uuid, "-./") != ""
	for _, c := range uuid {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return "", fmt.Errorf("lock device %q: not a device UUID", uuid)
	}
	return filepath.Join(dir, "kbisect-"+uuid+".lock"), nil
}

// openLock opens the file, or creates it for all users, and refuses what is not a regular file: a planted pipe or device.
// The two are separate calls: where fs.protected_regular is set, opening another user's file in /tmp with O_CREAT is
// refused even when it exists.
func openLock(path string) (*os.File, error) {
	const flags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0)
	if errors.Is(err, fs.ErrPermission) { // flock needs no more than reading
		f, err = os.OpenFile(path, os.O_RDONLY|flags, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|flags, 0o666); err == nil {
			_ = f.Chmod(0o666) // the umask must not shut other users out
		}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// flock takes the lock without waiting, and goes on after a signal.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			return err
		}
	}
}

// stillAt reports whether path still names the file that was locked.
func stillAt(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(held, now)
}

// signHolder leaves our process id for the message that others will show; it
// is a courtesy, so failures do not matter.
func signHolder(f *os.File) {
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}

// holderOf names the process that a lock file was signed by, or nobody.
func holderOf(f *os.File) string {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}
