package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/folder"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// Memory says where workspaces may lie in memory, and how much they may hold there. Creating thousands of small files
// takes many times as long on a disk.
type Memory struct {
	Dir  string // a tmpfs; "" is none
	Most int64  // bytes; 0 is a gibibyte
}

// SharedMemory is the tmpfs that Linux systems have.
const SharedMemory = "/dev/shm"

// Bounds on what workspaces take of memory: a small part, so that neither candidates nor others miss it.
const (
	memoryShare = 8         // the part of the free bytes and files, as 1/N
	memoryLeast = 256 << 20 // bytes, below which it is not worth it
	memoryFiles = 100_000
)

// Room is how many bytes workspaces may hold in memory; where that is none, why.
func (m Memory) Room() (bytes int64, why string) {
	var st unix.Statfs_t
	if err := unix.Statfs(m.Dir, &st); err != nil {
		return 0, fmt.Sprintf("%s: %v", m.Dir, err)
	}
	most := cmp.Or(m.Most, 1<<30)
	spare, _ := proc.Available()
	free := min(int64(st.Bavail)*st.Bsize, spare)
	switch {
	case st.Type != unix.TMPFS_MAGIC:
		return 0, m.Dir + " is not in memory"
	case st.Flags&(unix.ST_NOEXEC|unix.ST_RDONLY) != 0:
		return 0, m.Dir + " is mounted noexec or read-only"
	case free/memoryShare < min(most, memoryLeast) || st.Ffree/memoryShare < memoryFiles:
		return 0, fmt.Sprintf("%s has room for %d MiB and %d files", m.Dir, free>>20, st.Ffree)
	}
	return min(most, free/memoryShare), ""
}

// folder is that of this user, in which each job has its own.
func (m Memory) folder() string {
	return filepath.Join(m.Dir, fmt.Sprintf("kbisect-%d", os.Geteuid()))
}

// OpenInMemory makes the working folder of a job, which has its main one at dir, in memory. What killed processes left
// beside it is removed, by Open too.
func OpenInMemory(ctx context.Context, m Memory, dir, session string) (*Root, error) {
	room, why := m.Room()
	if room == 0 {
		return nil, errors.New(why)
	}
	parent := m.folder()
	if err := folder.MakePrivate(parent); err != nil {
		return nil, err
	}
	dir = filepath.Join(parent, fmt.Sprintf("%x", sha256.Sum256([]byte(dir)))[:16])
	lock, err := claim(ctx, dir)
	if err != nil {
		return nil, err
	}
	// Another job may have removed the folder above, which somebody else may have made since; now it stays.
	if err := errors.Join(folder.Private(parent), os.Mkdir(dir, 0o700)); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	r := newRoot(ctx, dir, session, lock)
	r.memory = &usage{most: room}
	r.memory.elseBytes, r.memory.elseFiles = r.used()
	return r, nil
}

// usage is what a root in memory may take of it. What others take is counted from time to time only: every count of our
// own files is a walk.
type usage struct {
	most    int64 // bytes
	crowded atomic.Bool

	mu                   sync.Mutex
	elseBytes, elseFiles int64 // in use of the file system beside the root, when its files were counted
}

// used is what is in use of the file system.
func (r *Root) used() (bytes, files int64) {
	var st unix.Statfs_t
	if unix.Statfs(r.Dir, &st) != nil {
		return 0, 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Files - st.Ffree)
}

// own counts the root's files, as far as they can be read.
func (r *Root) own() (bytes, files int64) {
	_ = filepath.WalkDir(r.Dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		files++
		if info, err := entry.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += st.Blocks * 512
			}
		}
		return nil
	})
	return bytes, files
}

// tooMuch reports that the root holds more than it may. Its files are counted only when the file system holds so much
// more than it did that they may be to blame.
func (r *Root) tooMuch() bool {
	m := r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	allBytes, allFiles := r.used()
	m.elseBytes, m.elseFiles = min(m.elseBytes, allBytes), min(m.elseFiles, allFiles) // others may have removed some
	if allBytes-m.elseBytes <= m.most && allFiles-m.elseFiles <= memoryFiles {
		return false
	}
	bytes, files := r.own()
	m.elseBytes, m.elseFiles = allBytes-bytes, allFiles-files
	return bytes > m.most || files > memoryFiles
}

// Crowded reports that a root in memory has taken more of it than it may, or was removed, as happens to what lies in
// memory when its user logs out. What is tested there meanwhile shows nothing of a candidate. It stays so.
func (r *Root) Crowded() bool {
	if r == nil || r.memory == nil {
		return false
	}
	if r.tooMuch() || r.freeBytes() < leastFree || !stillThere(r.lock) {
		r.memory.crowded.Store(true)
	}
	return r.memory.crowded.Load()
}

// errCrowded ends what fills the memory.
var errCrowded = errors.New("the files of candidates take too much memory")

// bounded is ctx until the root is crowded. What is done under it has ended when end is called.
func (r *Root) bounded(ctx context.Context) (within context.Context, end func()) {
	if r.memory == nil {
		return ctx, func() {}
	}
	const often = 20 * time.Millisecond
	within, cancel := context.WithCancelCause(ctx)
	go func() {
		for ticks := time.NewTicker(often); ; {
			select {
			case <-ticks.C:
				if r.Crowded() {
					cancel(errCrowded)
				}
			case <-within.Done():
				ticks.Stop()
				return
			}
		}
	}()
	return within, func() { cancel(nil) }
}
