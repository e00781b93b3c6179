package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file that a run holds while it works on the repository.
const lockName = "run.lock"

// A RunLock is the right to run in a repository. The kernel releases it when the process ends, however it ends.
type RunLock struct {
	f *os.File
}

// orphaned is how long a lock may outlive the process that took it. A child that was just being started when that process
// was killed shares the file until its program begins, which takes a moment on a busy machine.
const orphaned = 10 * time.Second

// lockRun is [Store.Lock] for the store in dir. It waits only for a lock whose holder has ended, see orphaned.
func lockRun(dir, session string) (*RunLock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("lock the repository: %w%s", err, diskHint(err))
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if err = flock(f, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w\nhint: the file system must support flock", path, err)
		}
		if by := holder(f, path); by.PID <= 0 || !errors.Is(unix.Kill(by.PID, 0), unix.ESRCH) || time.Since(began) > orphaned {
			f.Close()
			return nil, by
		}
	}
	if err := writeHolder(f, session); err != nil {
		f.Close()
		return nil, fmt.Errorf("write %s: %w%s", path, err, diskHint(err))
	}
	return &RunLock{f: f}, nil
}

// runningSession is [Store.Running] for the store in dir.
func runningSession(dir string) string {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe in its place would block
	if err != nil {
		return ""
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return ""
	}
	return holder(f, f.Name()).Session
}

// Unlock releases the lock.
func (l *RunLock) Unlock() error {
	err := l.f.Truncate(0)
	// A process that is just being started shares the file until its program begins, and would hold the lock on.
	return errors.Join(err, flock(l.f, unix.LOCK_UN), l.f.Close())
}

// flock is unix.Flock that goes on after a signal.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// writeHolder writes who holds the lock, for the messages of others. The lock itself is the kernel's.
func writeHolder(f *os.File, session string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "pid %d\nsession %s\n", os.Getpid(), strings.ReplaceAll(session, "\n", " ")), 0)
	return err
}

// holder reads who has the lock. The holder may be about to write it, so an empty file is read again.
func holder(f *os.File, path string) *BusyError {
	e := &BusyError{Path: path}
	for range 10 {
		buf := make([]byte, 4096)
		n, _ := f.ReadAt(buf, 0)
		if n > 0 {
			for line := range strings.Lines(string(buf[:n])) {
				fmt.Sscanf(line, "pid %d", &e.PID)
				fmt.Sscanf(line, "session %s", &e.Session)
			}
			return e
		}
		time.Sleep(10 * time.Millisecond)
	}
	return e
}
