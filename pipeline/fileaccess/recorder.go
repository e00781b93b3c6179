// Package fileaccess learns which files of an export a process reads, and says which changes of a repository that
// lets a search leave out.
//
// A [Recorder] hears of every file and folder that anything opens in the export while a process runs: inotify reports
// that of any program, without privileges. It hears nothing of names that were looked for and not found. So a change of
// a file is left out where the file was not opened, and a path that comes or goes only where nothing was opened near it
// ([Opened.Concerns]).
//
// What is learned is a guess about the next commit, which may read what no commit before it has read. It may choose
// what is launched; it can convict nobody.
package fileaccess

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/folder"
)

// MaxOpened is the number of files and folders of one process from which on nothing is learned: they are kept with
// each launch.
const MaxOpened = 20_000

// Recorder notes what is opened below a folder.
type Recorder struct {
	fd     int
	events *os.File         // the same
	dirs   map[int32]string // by watch, relative to the root; "." is the root
	opened map[string]bool
	blind  bool          // something was missed, or asked of git
	read   chan struct{} // closed when no event is read any more
	told   func(opened []string)
	tells  chan struct{} // holds a value while told runs

	mu    sync.Mutex    // for the deadline of the next read, and
	ended chan struct{} // closed when the process has ended
}

// Start begins to note what is opened below root, in folders that are there by now: what a process makes itself is no
// input. Quiet puts the reading off until Stop: nothing of it runs beside a process whose times count.
//
// Told, which may be nil, is called with what was opened so far, sorted, whenever nothing new is opened for a while: by then a
// compiler has read its sources, long before it ends. Stop waits for it.
//
// A watch that cannot be set, as where a user's watches are used up, learns nothing.
func Start(root string, quiet bool, told func(opened []string)) *Recorder {
	w := &Recorder{dirs: map[int32]string{}, opened: map[string]bool{}, read: make(chan struct{}), told: told, tells: make(chan struct{}, 1), ended: make(chan struct{})}
	if err := w.start(root); err != nil {
		w.blind = true
		close(w.read)
		return w
	}
	if quiet {
		close(w.read)
	} else {
		go w.follow()
	}
	return w
}

// start sets the watches, after all folders were listed: listing one opens it.
func (w *Recorder) start(root string) error {
	var dirs []string
	var err error
	if w.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return err
	}
	w.events = os.NewFile(uintptr(w.fd), "inotify")
	counted := countsFolders(root)
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission) && name != root: // nor can the process
			return fs.SkipDir
		case err != nil || !d.IsDir():
			return err
		}
		dirs = append(dirs, name)
		if d.Name() == ".git" || counted && without(d) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range dirs {
		id, err := unix.InotifyAddWatch(w.fd, name, unix.IN_OPEN|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
		if err != nil {
			return err
		}
		if w.dirs[int32(id)], err = filepath.Rel(root, name); err != nil {
			return err
		}
	}
	return nil
}

// countsFolders reports that the links of a folder are two and its subfolders, as file systems have it that are not of
// layers or remote.
func countsFolders(root string) bool {
	var at unix.Statfs_t
	return unix.Statfs(root, &at) == nil && slices.Contains([]int64{unix.TMPFS_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC}, int64(at.Type))
}

// without reports a folder without subfolders, which need not be listed: to list all for each launch takes milliseconds.
func without(d fs.DirEntry) bool {
	fi, err := d.Info()
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 2
}

const (
	// pause lets events gather, so that a busy build is not disturbed by each of them. The queue of the kernel holds
	// 16384 by default.
	pause = 10 * time.Millisecond

	settled = 250 * time.Millisecond // after the last new file, before told is called
)

// follow reads events as they come, until the process has ended.
func (w *Recorder) follow() {
	defer close(w.read)
	var until time.Time // when to report what was opened; zero: there is nothing new to report
	for buf := make([]byte, 64<<10); w.awaits(until); {
		n, err := w.events.Read(buf)
		switch {
		case err == nil:
			before := len(w.opened)
			if folder.Events(buf[:n], w.note); len(w.opened) > before && w.told != nil {
				until = time.Now().Add(settled)
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			w.blind = true
			return
		}
		if !until.IsZero() && !time.Now().Before(until) && !w.blind {
			until = w.tell()
		}
		select {
		case <-time.After(pause):
		case <-w.ended:
		}
	}
}

// tell starts told, so that events are read meanwhile. If the last call still runs, it returns when to try again.
func (w *Recorder) tell() (again time.Time) {
	select {
	case w.tells <- struct{}{}:
		opened := slices.Sorted(maps.Keys(w.opened))
		go func() {
			w.told(opened)
			<-w.tells
		}()
		return again
	default:
		return time.Now().Add(settled)
	}
}

// awaits lets the next read wait for events until a time, zero for ever, and reports false once the process has ended.
func (w *Recorder) awaits(until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.ended:
		return false
	default:
		w.blind = w.events.SetReadDeadline(until) != nil || w.blind
		return true
	}
}

// note takes in one event.
func (w *Recorder) note(id int32, mask uint32, name string) {
	dir, known := w.dirs[id]
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		w.blind = true
	case mask&unix.IN_OPEN == 0 || !known: // a folder that is gone
	default:
		at := filepath.ToSlash(filepath.Join(dir, name))
		if slices.Contains(strings.Split(at, "/"), ".git") { // who asks git learns of every commit; its folders are found in passing
			w.blind = w.blind || mask&unix.IN_ISDIR == 0
			return
		}
		w.opened[at] = true
		w.blind = w.blind || len(w.opened) > MaxOpened
	}
}

// Stop ends the watch, after the process and all that it started, and returns what was opened, relative to the root and
// sorted; ok is false where nothing is learned.
func (w *Recorder) Stop() (opened []string, ok bool) {
	if w.events == nil {
		return nil, false
	}
	// Closing takes the kernel 10 to 20 ms: nothing has to wait for it.
	defer func() { go w.events.Close() }()
	// A reader that waits for events is let go; what lies in the queue is read here.
	w.mu.Lock()
	close(w.ended)
	err := w.events.SetReadDeadline(time.Now())
	w.mu.Unlock()
	<-w.read
	w.tells <- struct{}{} // once told has returned
	w.blind = w.blind || err != nil
	for buf := make([]byte, 64<<10); !w.blind; {
		n, err := unix.Read(w.fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		folder.Events(buf[:max(0, n)], w.note)
		if err != nil && !errors.Is(err, unix.EINTR) {
			w.blind = true
		}
	}
	if w.blind {
		return nil, false
	}
	return slices.Sorted(maps.Keys(w.opened)), true
}
