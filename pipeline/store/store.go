package store

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
)

// Mode says what a store is opened for.
type Mode int

const (
	// ReadOnly reads an existing store, while others may write to it.
	ReadOnly Mode = iota
	// ReadWrite creates the store if there is none.
	ReadWrite
)

// A Store is an open store. Its methods may be called from several goroutines.
type Store struct {
	file file
	db   *sql.DB
}

// Open opens the store in dir, which is kbisect/ in the common git directory. If there is none, ReadWrite creates the
// directory and the file, and ReadOnly returns an error that wraps [ErrNoStore]. A file that is damaged, or that another
// version of the tables wrote, is an error and is left as it is.
func Open(dir string, mode Mode) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", dir, err)
	}
	f := file{dir: abs, path: filepath.Join(abs, fileName)}
	if err := f.ensure(mode); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	connect := openReader
	if mode == ReadWrite {
		f.removeDrafts()
		connect = openWriter
	}
	db, err := connect(f)
	if err != nil {
		return nil, err
	}
	return &Store{file: f, db: db}, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.file.fail(s.db.Close(), "close the store") }

// Lock takes the repository for a run of the session, or returns a [*BusyError] that names the run that has it.
func (s *Store) Lock(session string) (*RunLock, error) { return lockRun(s.file.dir, session) }

// Running returns the id of the session that holds the lock now, or "".
func (s *Store) Running() string { return runningSession(s.file.dir) }

// inTx runs f in one transaction: all of it is committed, durably, or nothing. One that only reads has a snapshot: all
// its queries see the same state.
func (s *Store) inTx(readOnly bool, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: readOnly})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Dir is the folder of the store of a repository, in its common git directory.
func Dir(commonDir string) string { return filepath.Join(commonDir, "kbisect") }
