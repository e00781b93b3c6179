package source

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func stampOf(fi fs.FileInfo) fileStamp {
	s := fileStamp{size: fi.Size(), mode: fi.Mode(), mtime: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
		s.changed = st.Ctim.Nano()
	}
	return s
}

// setLinkTime sets the time of a symlink itself; the standard library can
// only set that of what it leads to.
func setLinkTime(file string, t time.Time) error {
	ts := []unix.Timespec{unix.NsecToTimespec(t.UnixNano()), unix.NsecToTimespec(t.UnixNano())}
	return unix.UtimesNanoAt(unix.AT_FDCWD, file, ts, unix.AT_SYMLINK_NOFOLLOW)
}
