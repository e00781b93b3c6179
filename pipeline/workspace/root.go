package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/pipeline/folder"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// lockSuffix names the file beside a root that its owner holds locked. The kernel releases the lock when
// the process ends, however it ends.
const lockSuffix = ".lock"

// Root is the working folder of one job, which holds its workspaces. It is locked while it is open. Several goroutines
// may use it.
type Root struct {
	Dir     string
	Sandbox *proc.Sandbox // of all processes, without the folders of their workspace; set before these are made; nil for none
	Objects *Objects      // of its own, unless another root's were set before workspaces are made
	session string        // marks the processes of the job
	lock    *os.File
	ctx     context.Context // of what is removed: it ends soon after the job was interrupted, see patience
	memory  *usage          // nil on a disk
}

// Open makes an empty working folder and locks it. What killed processes left there and beside it is
// removed, in the shared memory too. The session marks the processes that are run in it, see [proc.Spec.Cookie].
func Open(ctx context.Context, dir, session string) (*Root, error) {
	lock, err := claim(ctx, dir)
	if err != nil {
		return nil, err
	}
	if shared := (Memory{Dir: SharedMemory}).folder(); folder.Private(shared) == nil {
		err = removeStale(ctx, shared)
		os.Remove(shared) // fails while another job works there
	}
	return newRoot(ctx, dir, session, lock), errors.Join(err, os.MkdirAll(dir, 0o777))
}

func newRoot(ctx context.Context, dir, session string, lock *os.File) *Root {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(patience, cancel) })
	return &Root{Dir: dir, session: session, lock: lock, ctx: late, Objects: &Objects{dir: filepath.Join(dir, "objects"), Since: time.Now()}}
}

// Roomy reports that more than a tenth of the disk is free, so that workspaces may be made that are not needed yet.
func (r *Root) Roomy() bool {
	var at unix.Statfs_t
	return unix.Statfs(r.Dir, &at) != nil || at.Bavail > at.Blocks/10
}

// patience is how long removing may still take once the job was interrupted: a person is waiting. The next job
// removes the rest.
const patience = 500 * time.Millisecond

// remove removes a tree that a candidate may have written in.
func (r *Root) remove(path string) error { return folder.RemoveAll(r.ctx, path) }

// Close removes the folder with everything in it. The workspaces must have been removed before.
func (r *Root) Close() error {
	err := r.remove(r.Dir)
	if err == nil { // else the next job sees by it that the folder has no owner
		os.Remove(r.lock.Name())
	}
	r.lock.Close()
	os.Remove(filepath.Dir(r.Dir)) // fails while another job works there
	return r.inTime(err)
}

// inTime drops the error of a removal that was given up since a person is waiting: the next job removes the rest.
func (r *Root) inTime(err error) error {
	if r.ctx.Err() != nil && errors.Is(err, r.ctx.Err()) {
		return nil
	}
	return err
}

// Check returns an error if no process can succeed here: the disk is full, or the folder was removed, as
// happens when a user clears the caches.
func (r *Root) Check() error {
	if err := r.checkDisk(false); err != nil {
		return err
	}
	return r.checkLock()
}

// checkLock looks whether the lock file is still the one that was locked: whoever removed it removed the folder too.
func (r *Root) checkLock() error {
	if stillThere(r.lock) {
		return nil
	}
	err := &os.PathError{Op: "lock", Path: r.lock.Name(), Err: fs.ErrNotExist}
	return &bisect.InfraError{What: "testing candidates in " + r.Dir, Err: hint.Add(fmt.Errorf("the working folder was removed: %w", err), "run again with --resume; nothing is lost")}
}

// leastFree is the free space below which a disk counts as full, in bytes.
const leastFree = 1 << 20

// freeBytes is the free space on the file system; without an answer it is plenty.
func (r *Root) freeBytes() uint64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(r.Dir, &st); err != nil {
		return math.MaxUint64
	}
	const leastFiles = 16
	if st.Files > 0 && st.Ffree < leastFiles {
		return 0
	}
	return st.Bavail * uint64(st.Bsize)
}

// checkDisk returns an error if the file system is full, or was at the end of a process (wasFull) and is
// nearly so now: that process may have failed because of it. If there is room again once the TMPDIR of the
// process is empty, the process itself had filled the disk, which is the candidate's fault.
func (r *Root) checkDisk(wasFull bool) error {
	const roomAgain = 64 << 20
	free := r.freeBytes()
	if free >= leastFree && (!wasFull || free >= roomAgain) {
		return nil
	}
	return &bisect.InfraError{What: "testing candidates in " + r.Dir, Err: fmt.Errorf("%w: %d bytes free\nhint: make room, or set XDG_CACHE_HOME to a larger file system, then run again with --resume", syscall.ENOSPC, free)}
}

// claim locks a folder for this process, and removes what killed processes left beside it. Another process may take
// the lock file for a stale one before it is locked, or remove the folder above as the last one there, so it tries
// again; each of them does so once a job, and the bound is only for a file system on which nothing stays.
func claim(ctx context.Context, dir string) (*os.File, error) {
	var err error
	for range 10_000 {
		if err = os.MkdirAll(filepath.Dir(dir), 0o777); err != nil && !errors.Is(err, fs.ErrExist) { // it came and went
			return nil, err
		}
		var f *os.File
		f, err = os.OpenFile(dir+lockSuffix, os.O_RDWR|os.O_CREATE, 0o666)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX) == nil && stillThere(f) {
			return f, errors.Join(folder.RemoveAll(ctx, dir), removeStale(ctx, filepath.Dir(dir)))
		}
		f.Close()
		err = &os.PathError{Op: "lock", Path: dir + lockSuffix, Err: unix.EBUSY}
	}
	return nil, err
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

// removeStale removes the working folders whose lock no process holds.
func removeStale(ctx context.Context, parent string) error {
	locks, err := filepath.Glob(filepath.Join(parent, "*"+lockSuffix))
	if err != nil {
		return err
	}
	for _, lock := range locks {
		f, err := os.Open(lock)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && stillThere(f) { // else its job has just ended
			err = cmp.Or(folder.RemoveAll(ctx, strings.TrimSuffix(lock, lockSuffix)), os.Remove(lock))
		}
		if f.Close(); err != nil {
			return err
		}
	}
	return nil
}
