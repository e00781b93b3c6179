package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// errNone is wrapped by the error for a record that is not in the store.
var errNone = errors.New("no such record")

// ErrNoStore is wrapped by the error of opening a store that does not exist yet, for reading.
var ErrNoStore = errors.New("no store yet")

// A damagedError reports a store that cannot be trusted. Nothing was written to it.
type damagedError struct {
	Path   string // the database file
	Reason string
	Err    error // the cause, or nil
}

// Error names the file, the reason and what to do.
func (e *damagedError) Error() string {
	return fmt.Sprintf("the store %s is damaged: %s\nhint: move it away together with its neighbours (mv %q* elsewhere) and run again: "+
		"a new store is created, nothing is overwritten; sqlite3's .recover may save what is left in the old one", e.Path, e.Reason, e.Path)
}

// Unwrap returns the cause.
func (e *damagedError) Unwrap() error { return e.Err }

// A versionError reports a store that a kbisect with other tables wrote.
type versionError struct {
	Path  string // the database file
	Found int    // the schema version of the file
	Known int    // the schema version known here
}

// Error names the file, both versions and what to do.
func (e *versionError) Error() string {
	return fmt.Sprintf("the store %s has schema version %d, this kbisect reads version %d\nhint: use the kbisect that wrote it, "+
		"or move the file away (mv %q* elsewhere) to start a new store", e.Path, e.Found, e.Known, e.Path)
}

// A BusyError reports that another run holds the repository.
type BusyError struct {
	PID     int    // of the process that holds the lock; 0 if unknown
	Session string // the session it works on; "" if unknown
	Path    string // the lock file
}

// Error names the process and session that hold the lock.
func (e *BusyError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	if e.Session != "" {
		who += " (session " + e.Session + ")"
	}
	return fmt.Sprintf("another run works on this repository: %s holds %s\nhint: --wait waits for it; the lock ends with the process", who, e.Path)
}

// fail adds what was being done to err, and turns the driver's codes into errors that have a hint and that errors.Is
// and errors.As recognise. nil stays nil.
func (f file) fail(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	doing := fmt.Sprintf(format, args...)
	var known *damagedError
	var se *sqlite.Error
	if errors.As(err, &known) || !errors.As(err, &se) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	switch se.Code() & 0xff { // the low byte is the primary code
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
		return fmt.Errorf("%s: %w", doing, f.damaged(err, "%v", err))
	case sqlite3.SQLITE_ERROR:
		// The statements are ours and tested: if one does not compile, the file has other tables.
		return fmt.Errorf("%s: %w", doing, f.damaged(err, "its tables are not those of schema version %d (%v)", schemaVersion, err))
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%s: %s is still locked by another process: %w\nhint: close other programs that write to it", doing, f.path, err)
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return f.diskError(doing, err, se.Code()&0xff)
	}
	return fmt.Errorf("%s in %s: %w", doing, f.path, err)
}

// diskError adds the operating system's reason, which the driver does not pass
// on, by trying what SQLite tried.
func (f file) diskError(doing string, err error, code int) error {
	cause := f.probe()
	if cause == nil && code == sqlite3.SQLITE_FULL {
		cause = syscall.ENOSPC
	}
	if cause == nil {
		return fmt.Errorf("%s in %s: %w\nhint: something removes or replaces the file at this moment; try again after that", doing, f.path, err)
	}
	return fmt.Errorf("%s in %s: %w (%w)%s", doing, f.path, cause, err, diskHint(cause))
}

// diskHint returns the hint line for an operating system error, or "".
func diskHint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "\nhint: free some disk space and resume; what was recorded before is safe"
	case errors.Is(err, syscall.EROFS):
		return "\nhint: the file system is mounted read-only; kbisect keeps its store in the git directory and must be able to write there"
	case errors.Is(err, os.ErrPermission):
		return "\nhint: check owner and permissions of the directory and the file"
	}
	return ""
}

// probe writes a page beside the database and opens the database for writing, and returns what failed.
func (f file) probe() error {
	db, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err == nil {
		db.Close()
	}
	t, err := os.CreateTemp(f.dir, ".probe-*")
	if err != nil {
		return err
	}
	os.Remove(t.Name())
	defer t.Close()
	if _, err := t.Write(make([]byte, 64<<10)); err != nil {
		return err
	}
	return t.Sync()
}

// damaged makes the error for a file that cannot be trusted; err is the cause, if there is one.
func (f file) damaged(err error, format string, args ...any) *damagedError {
	return &damagedError{Path: f.path, Reason: fmt.Sprintf(format, args...), Err: err}
}

// frozen reports whether err came from a place that nobody can change now: SQLite cannot
// even create the shared-memory file that a reader of a write-ahead log needs, and there
// is no log to read.
func (f file) frozen(err error) bool {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return false
	}
	code := se.Code() & 0xff
	if code != sqlite3.SQLITE_CANTOPEN && code != sqlite3.SQLITE_READONLY {
		return false
	}
	fi, err := os.Stat(f.path + "-wal")
	return err != nil || fi.Size() == 0
}
