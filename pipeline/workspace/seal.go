package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unknown is the time that stands for none.
var unknown syscall.Timespec

// Seal says that the build of the candidate is over, and whether it succeeded. It takes a few milliseconds, so that what is
// written after it has a later time.
func Seal(w *Workspace, built bool) {
	c := &w.Contents
	c.Built, c.Dirty, c.sealed = built, !built, now(w)
	for tries := 40; c.sealed != unknown && c.sealed == now(w); tries-- {
		if tries == 0 {
			c.sealed = unknown
		}
		time.Sleep(time.Millisecond / 2)
	}
}

// Recover lets a workspace be used again in which a process failed, if nothing in the export was written, removed or
// renamed since the build. No process may be left in it.
func Recover(w *Workspace) {
	if w.Contents.Dirty && w.Contents.Built {
		w.Contents.Dirty = touched(w)
	}
}

// now is the time by the file system of the export, which may be a server's. It is unknown if it cannot be read, or
// where a change through memory shows in no time.
func now(w *Workspace) (t syscall.Timespec) {
	var sys unix.Statfs_t
	if unix.Statfs(w.Folder, &sys) != nil || slices.Contains([]int64{unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.FUSE_SUPER_MAGIC}, int64(sys.Type)) {
		return t
	}
	f, err := os.OpenFile(filepath.Join(w.Folder, "sealed"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666) // follows no link
	if err != nil {
		return t
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		t = info.Sys().(*syscall.Stat_t).Ctim
	}
	return t
}

// touched reports that something in the export may have changed since the seal. The time of a file's last change cannot
// be set, as that of its content can.
func touched(w *Workspace) bool {
	sealed := w.Contents.sealed
	return sealed == unknown || filepath.WalkDir(w.Dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Ctim.Nano() > sealed.Nano() {
			err = fs.ErrExist
		}
		return err
	}) != nil
}
