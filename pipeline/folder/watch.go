package folder

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Watch learns what happens to files, under any name and whoever does it. It watches each file itself: a watch on its
// folder says nothing of a file that a hard link has given another name outside, nor that the link was made.
//
// Every change of content, mode, times or links needs the file opened or is told by itself. Opening counts, so that what has
// no event of its own, as writing to mapped memory or setting attributes, counts too.
type Watch struct {
	fd   int
	top  string       // leads to the folder
	room atomic.Int64 // watches that may still be set
}

// heard are the events that a Watch asks for.
const heard = unix.IN_OPEN | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB

// share is the part of the watches of a user that one Watch takes at most; editors need them too.
const share = 8

// NewWatch returns a Watch for files of a folder, or nil where the kernel does not see all that happens to them, as on a
// network, or grants no watch.
func NewWatch(f *Folder) *Watch {
	var at unix.Statfs_t
	local := []int64{unix.TMPFS_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC}
	if unix.Fstatfs(f.open[0].fd, &at) != nil || !slices.Contains(local, int64(at.Type)) {
		return nil
	}
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil {
		return nil
	}
	most, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return nil
	}
	w := &Watch{top: "/proc/self/fd/" + strconv.Itoa(f.open[0].fd) + "/"}
	if w.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return nil
	}
	w.room.Store(most / share)
	return w
}

// Close ends all watches.
func (w *Watch) Close() {
	if w != nil {
		unix.Close(w.fd)
	}
}

// Add watches a file and returns the number by which Hear names it; 0 where it cannot be watched. Like Look it is for paths
// whose folders are known, and for several goroutines.
func (w *Watch) Add(full string) int32 {
	if w == nil || w.room.Load() <= 0 {
		return 0
	}
	id, err := unix.InotifyAddWatch(w.fd, w.top+full, heard|unix.IN_DONT_FOLLOW|unix.IN_MASK_CREATE)
	if err != nil {
		if err == unix.ENOSPC {
			w.room.Store(0)
		}
		return 0
	}
	w.room.Add(-1)
	return int32(id)
}

// Hear calls happened with the number of every file that something has happened to since it was called last; gone says that
// the file is no longer watched. It returns false where events were lost.
func (w *Watch) Hear(happened func(id int32, gone bool)) bool {
	if w == nil {
		return true
	}
	var buf [16 << 10]byte
	for {
		n, err := unix.Read(w.fd, buf[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return true
		case err != nil:
			return false
		}
		lost := false
		Events(buf[:n], func(id int32, mask uint32, _ string) {
			lost = lost || mask&unix.IN_Q_OVERFLOW != 0
			if lost {
				return
			}
			gone := mask&unix.IN_IGNORED != 0
			if gone {
				w.room.Add(1)
			}
			happened(id, gone)
		})
		if lost {
			return false
		}
	}
}

// Events decodes inotify events as the kernel writes them: the watch that an event is of, what happened, and the name in
// the folder that is watched, "" for what is watched itself.
func Events(b []byte, event func(watch int32, mask uint32, name string)) {
	for len(b) >= unix.SizeofInotifyEvent {
		id, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		event(id, mask, strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00"))
		b = b[end:]
	}
}
