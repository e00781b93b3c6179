package pipeline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockSuffix names the file beside a working folder that its pipeline holds locked. The kernel
// releases the lock when the process ends, however it ends.
const lockSuffix = ".lock"

// claim locks the working folder for this process, and removes what killed ones left beside it.
func claim(dir string) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(dir+lockSuffix, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err == nil && stillThere(f) {
			return f, errors.Join(removeAll(dir), removeStale(filepath.Dir(dir)))
		}
		f.Close() // another process took it for a stale one and removed it
	}
	return nil, &os.PathError{Op: "lock", Path: dir + lockSuffix, Err: unix.EBUSY}
}

// stillThere reports whether a file is the one that its name leads to.
func stillThere(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	return err == nil && os.SameFile(mine, named)
}

// removeStale removes the working folders of which no process holds the lock.
func removeStale(root string) error {
	locks, err := filepath.Glob(filepath.Join(root, "*"+lockSuffix))
	if err != nil {
		return err
	}
	for _, lock := range locks {
		f, err := os.Open(lock)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			err = errors.Join(removeAll(strings.TrimSuffix(lock, lockSuffix)), os.Remove(lock))
		}
		if f.Close(); err != nil {
			return err
		}
	}
	return nil
}
