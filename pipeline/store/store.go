package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Mode says what a store is opened for.
type Mode int

const (
	// ReadOnly reads an existing store, while others may write to it.
	ReadOnly Mode = iota
	// ReadWrite creates the store if there is none.
	ReadWrite
)

// fileName is the database's name in the store's directory.
const fileName = "kbisect.db"

// busyMillis is how long a statement waits for another process's transaction; they take milliseconds.
const busyMillis = "20000"

// A Store is an open store. Its methods may be called from several goroutines.
type Store struct {
	dir, path string
	db        *sql.DB
}

// Open opens the store in dir, which is kbisect/ in the common git directory.
// ReadWrite makes directory and file if they are missing; ReadOnly then
// returns an error that wraps [ErrNoStore]. A file that is damaged or newer than this
// program gives a [*DamagedError] or a [*VersionError] and is left as it is.
func Open(dir string, mode Mode) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", dir, err)
	}
	s := &Store{dir: abs, path: filepath.Join(abs, fileName)}
	if err := s.exists(mode); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if mode == ReadWrite {
		s.sweep()
		err = s.connectWriter()
	} else {
		err = s.connectReader()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the store.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return s.fail(err, "close the store")
	}
	return nil
}

// exists makes sure that there is a file to open, in ReadWrite mode by making one.
func (s *Store) exists(mode Mode) error {
	_, err := os.Lstat(s.path)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("open the store: %w%s", err, diskHint(err))
	case mode == ReadOnly:
		return fmt.Errorf("%w: %s does not exist\nhint: kbisect run makes it", ErrNoStore, s.path)
	}
	return s.create()
}

// create builds a complete database beside its final name and links it there, so that
// an empty or half-made file is always damage, and two creators end up with one file.
func (s *Store) create() error {
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return fmt.Errorf("make the store's directory: %w%s", err, diskHint(err))
	}
	if err := s.refuseOrphan(); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(s.dir, draftPrefix+"*")
	if err != nil {
		return fmt.Errorf("create the store %s: %w%s", s.path, err, diskHint(err))
	}
	defer os.RemoveAll(tmp)
	draft := filepath.Join(tmp, fileName)
	if err := writeSchema(draft); err != nil {
		return s.fail(err, "create the store")
	}
	if err := publish(draft, s.path); err != nil {
		return fmt.Errorf("create the store %s: %w%s", s.path, err, diskHint(err))
	}
	return syncDir(s.dir)
}

// draftPrefix begins the names of the directories in which new stores are made.
const draftPrefix = ".new-"

// sweep removes what creators that were killed long ago left behind.
func (s *Store) sweep() {
	old, err := filepath.Glob(filepath.Join(s.dir, draftPrefix+"*"))
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
func (s *Store) refuseOrphan() error {
	wal := s.path + "-wal"
	fi, err := os.Stat(wal)
	if err != nil || fi.Size() == 0 {
		return nil
	}
	if _, err := os.Lstat(s.path); err == nil {
		return nil // another process has just made the store
	}
	return &DamagedError{Path: s.path, Reason: "its log " + wal + " is there, but the database is not"}
}

// writeSchema makes an empty store at path, complete on disk when it returns.
func writeSchema(path string) error {
	db, err := sql.Open("sqlite", dsn(path, "rwc", "synchronous(full)"))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	head := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion)
	if _, err := db.Exec("BEGIN;" + head + schema + "COMMIT;"); err != nil {
		return err
	}
	if _, err := db.Exec("PRAGMA journal_mode = wal"); err != nil {
		return err
	}
	return db.Close()
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

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// dsn returns the driver's name for the file at path, opened with SQLite's mode
// ("ro", "rw", "rwc") and pragmas such as "synchronous(full)".
func dsn(path, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_txlock": {"deferred"}}
	if mode == "rw" {
		q.Set("_txlock", "immediate")
	}
	q["_pragma"] = append([]string{"busy_timeout(" + busyMillis + ")", "trusted_schema(off)", "cell_size_check(on)"}, pragmas...)
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// connectWriter opens the checked file for writing.
func (s *Store) connectWriter() error {
	// Checkpointing after each transaction keeps the log at one transaction: what a
	// damaged or forgotten log can take away is the last record, as in a crash.
	db, err := sql.Open("sqlite", dsn(s.path, "rw", "synchronous(full)", "wal_autocheckpoint(1)", "foreign_keys(on)"))
	if err != nil {
		return s.fail(err, "open the store")
	}
	db.SetMaxOpenConns(1)
	s.db = db
	// An empty write transaction finds out now, not after the first launch, that the file cannot be written.
	tx, err := db.Begin()
	if err == nil {
		err = tx.Rollback()
	}
	if err == nil {
		err = s.probe()
	}
	if err != nil {
		db.Close()
		return s.openFailed(err)
	}
	return nil
}

func (s *Store) openFailed(err error) error {
	var se *sqlite.Error
	if errors.As(err, &se) {
		return s.fail(err, "open the store for writing")
	}
	return fmt.Errorf("open the store %s for writing: %w%s", s.path, err, diskHint(err))
}

// connectReader opens the file for reading.
func (s *Store) connectReader() error {
	db, err := sql.Open("sqlite", dsn(s.path, "ro"))
	if err != nil {
		return s.fail(err, "open the store")
	}
	s.db = db
	err = s.ping()
	if err != nil && s.unwritable(err) {
		db.Close()
		return s.connectFrozen()
	}
	if err != nil {
		db.Close()
		return s.fail(err, "open the store")
	}
	return nil
}

// unwritable reports whether err came from a place where SQLite may not even make the
// shared-memory file that a reader of a write-ahead log needs, with no log to read.
func (s *Store) unwritable(err error) bool {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return false
	}
	code := se.Code() & 0xff
	if code != sqlite3.SQLITE_CANTOPEN && code != sqlite3.SQLITE_READONLY {
		return false
	}
	fi, err := os.Stat(s.path + "-wal")
	return err != nil || fi.Size() == 0
}

// connectFrozen reads a file that nobody here can change.
func (s *Store) connectFrozen() error {
	db, err := sql.Open("sqlite", dsn(s.path, "ro")+"&immutable=1")
	if err != nil {
		return s.fail(err, "open the store")
	}
	s.db = db
	if err := s.ping(); err != nil {
		db.Close()
		return s.fail(err, "open the store")
	}
	return nil
}

func (s *Store) ping() error {
	var n int
	return s.db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&n)
}

// inTx runs f in one transaction: all of it is committed, durably, or nothing.
func (s *Store) inTx(f func(*sql.Tx) error) error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// inSnapshot runs f in one read transaction: all its queries see the same state.
func (s *Store) inSnapshot(f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return f(tx)
}
