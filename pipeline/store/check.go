package store

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// checkLimit is the file size up to which Open reads the whole file (about 100 MB/s). Beyond
// it only the checksums and counts of the rows that are read guard against damage.
const checkLimit = 64 << 20

// check reports whether the file can be used, without writing to it.
func (f file) check() error {
	size, err := f.checkHeader()
	if err != nil {
		return err
	}
	db, err := openReader(f)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := f.checkVersion(db); err != nil {
		return err
	}
	if size > checkLimit {
		return nil
	}
	return f.checkPages(db)
}

// checkHeader refuses, without SQLite, what SQLite would take for a new database, and returns the size in bytes.
func (f file) checkHeader() (size int64, err error) {
	r, err := os.Open(f.path)
	if err != nil {
		return 0, fmt.Errorf("open the store: %w%s", err, diskHint(err))
	}
	defer r.Close()
	fi, err := r.Stat()
	if err != nil {
		return 0, fmt.Errorf("open the store: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return 0, f.damaged(nil, "it is not a regular file (%v)", fi.Mode().Type())
	}
	if fi.Size() == 0 {
		return 0, f.damaged(nil, "it is empty")
	}
	head := make([]byte, 100)
	n, err := io.ReadFull(r, head)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, f.damaged(nil, "it is cut off after %d bytes", n)
	}
	if err != nil {
		return 0, fmt.Errorf("read the store %s: %w", f.path, err)
	}
	if !bytes.HasPrefix(head, []byte("SQLite format 3\x00")) {
		return 0, f.damaged(nil, "it is not a SQLite database")
	}
	return fi.Size(), nil
}

// checkVersion refuses databases of other programs and of other versions of the tables.
func (f file) checkVersion(db *sql.DB) error {
	var app, version int
	if err := db.QueryRow("PRAGMA application_id").Scan(&app); err != nil {
		return f.fail(err, "open the store")
	}
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return f.fail(err, "open the store")
	}
	switch {
	case app != applicationID:
		return f.damaged(nil, "it is a database, but not one of kbisect's (application id %#x)", uint32(app))
	case version < 1:
		return f.damaged(nil, "invalid schema version %d", version)
	case version != schemaVersion:
		return &versionError{Path: f.path, Found: version, Known: schemaVersion}
	}
	return nil
}

// checkPages has SQLite walk every page.
func (f file) checkPages(db *sql.DB) error {
	rows, err := db.Query("PRAGMA integrity_check(3)")
	if err != nil {
		return f.fail(err, "check the store")
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return f.fail(err, "check the store")
		}
		if line != "ok" {
			found = append(found, line)
		}
	}
	if err := rows.Err(); err != nil {
		return f.fail(err, "check the store")
	}
	if len(found) > 0 {
		return f.damaged(nil, "%s", strings.ReplaceAll(strings.Join(found, "; "), "\n", " "))
	}
	return nil
}
