package store

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	"modernc.org/sqlite"
)

// busyMillis is how long a statement waits for another process's transaction; they take milliseconds.
const busyMillis = "20000"

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

// openWriter opens the checked file for writing.
func openWriter(f file) (*sql.DB, error) {
	// Checkpointing after each transaction keeps the log at one transaction: what a
	// damaged or forgotten log can take away is the last record, as in a crash. Each checkpoint
	// waits for the disk; "full" would have it wait for the log once more.
	db, err := sql.Open("sqlite", dsn(f.path, "rw", "synchronous(normal)", "wal_autocheckpoint(1)", "foreign_keys(on)"))
	if err != nil {
		return nil, f.fail(err, "open the store")
	}
	db.SetMaxOpenConns(1)
	// The write transaction finds out now, not after the first launch, that the file cannot be written.
	_, err = db.Exec("BEGIN IMMEDIATE; ROLLBACK")
	if err == nil {
		err = f.probe()
	}
	if err == nil {
		return db, nil
	}
	db.Close()
	var se *sqlite.Error
	if errors.As(err, &se) {
		return nil, f.fail(err, "open the store for writing")
	}
	return nil, fmt.Errorf("open the store %s for writing: %w%s", f.path, err, diskHint(err))
}

// openReader opens the file for reading.
func openReader(f file) (*sql.DB, error) {
	db, err := ping(dsn(f.path, "ro"))
	if err != nil && f.frozen(err) {
		db, err = ping(dsn(f.path, "ro") + "&immutable=1")
	}
	if err != nil {
		return nil, f.fail(err, "open the store")
	}
	return db, nil
}

// ping opens a database and reads from it once.
func ping(dsn string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}
