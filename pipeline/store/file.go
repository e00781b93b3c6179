package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// fileName is the database's name in the store's directory.
const fileName = "kbisect.db"

// draftPrefix begins the names of the directories in which new stores are made.
const draftPrefix = ".new-"

// file is where a store lies on disk.
type file struct{ dir, path string }

// ensure makes sure that there is a file to open; in ReadWrite mode it creates a missing one.
func (f file) ensure(mode Mode) error {
	for _, name := range []string{f.path, f.path + "-wal", f.path + "-shm", f.path + "-journal"} {
		if fi, err := os.Stat(name); err == nil && !fi.Mode().IsRegular() { // SQLite would wait for the writer of a pipe
			return f.damaged(nil, "%s is not a file (%v)", name, fi.Mode())
		}
	}
	_, err := os.Lstat(f.path)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("open the store: %w%s", err, diskHint(err))
	case mode == ReadOnly:
		return fmt.Errorf("%w: %s does not exist\nhint: kbisect run creates it", ErrNoStore, f.path)
	}
	return f.create()
}

// create builds a complete database beside its final name and links it there, so that
// an empty or half-made file is always damage, and two creators end up with one file.
func (f file) create() error {
	if err := os.MkdirAll(f.dir, 0o777); err != nil {
		return fmt.Errorf("create the store's directory: %w%s", err, diskHint(err))
	}
	if err := f.refuseOrphan(); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(f.dir, draftPrefix+"*")
	if err != nil {
		return fmt.Errorf("create the store %s: %w%s", f.path, err, diskHint(err))
	}
	defer os.RemoveAll(tmp)
	draft := filepath.Join(tmp, fileName)
	if err := writeSchema(draft); err != nil {
		return f.fail(err, "create the store")
	}
	if err := publish(draft, f.path); err != nil {
		return fmt.Errorf("create the store %s: %w%s", f.path, err, diskHint(err))
	}
	return syncDir(f.dir)
}

// removeDrafts removes what creators that were killed long ago left behind.
func (f file) removeDrafts() {
	old, err := filepath.Glob(filepath.Join(f.dir, draftPrefix+"*"))
	if err != nil {
		return
	}
	for _, name := range old {
		if fi, err := os.Lstat(name); err == nil && time.Since(fi.ModTime()) > time.Hour {
			os.RemoveAll(name)
		}
	}
}

// refuseOrphan keeps the log of a database that was moved away from being
// replayed into a new one, which would destroy both.
func (f file) refuseOrphan() error {
	wal := f.path + "-wal"
	fi, err := os.Stat(wal)
	if err != nil || fi.Size() == 0 {
		return nil
	}
	if _, err := os.Lstat(f.path); err == nil {
		return nil // another process has just made the store
	}
	return &damagedError{Path: f.path, Reason: "its log " + wal + " is there, but the database is not"}
}

// publish gives the file at draft the name path, unless path exists by now.
func publish(draft, path string) error {
	err := os.Link(draft, path)
	if err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	// Some file systems have no hard links.
	err = unix.Renameat2(unix.AT_FDCWD, draft, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// syncDir makes new names in a folder durable: syncing the file alone does not.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
