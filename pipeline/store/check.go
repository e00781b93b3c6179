package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// checkLimit is the file size up to which Open reads the whole file (about 100 MB/s). Beyond
// it only the checksums and counts of the rows that are read guard against damage.
const checkLimit = 64 << 20

// check looks at the file without writing to it and says whether it can be used.
func (s *Store) check() error {
	size, err := s.checkHeader()
	if err != nil {
		return err
	}
	if err := s.connectReader(); err != nil {
		return err
	}
	defer func() { s.db.Close(); s.db = nil }()
	if err := s.checkVersion(); err != nil {
		return err
	}
	if size > checkLimit {
		return nil
	}
	return s.checkPages()
}

// checkHeader finds out without SQLite what SQLite would take for a new database.
func (s *Store) checkHeader() (size int64, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return 0, fmt.Errorf("open the store: %w%s", err, diskHint(err))
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("open the store: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return 0, s.damaged(nil, "it is not a regular file (%v)", fi.Mode().Type())
	}
	if fi.Size() == 0 {
		return 0, s.damaged(nil, "it is empty")
	}
	head := make([]byte, 100)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, s.damaged(nil, "it is cut off after %d bytes", n)
	}
	if err != nil {
		return 0, fmt.Errorf("read the store %s: %w", s.path, err)
	}
	if !bytes.HasPrefix(head, []byte("SQLite format 3\x00")) {
		return 0, s.damaged(nil, "it is no SQLite database")
	}
	return fi.Size(), nil
}

func (s *Store) checkVersion() error {
	var app, version int
	if err := s.db.QueryRow("PRAGMA application_id").Scan(&app); err != nil {
		return s.fail(err, "open the store")
	}
	if err := s.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return s.fail(err, "open the store")
	}
	switch {
	case app != applicationID:
		return s.damaged(nil, "it is a database, but not one of kbisect's (application id %#x)", uint32(app))
	case version > schemaVersion:
		return &VersionError{Path: s.path, Found: version, Known: schemaVersion}
	case version < schemaVersion:
		return s.damaged(nil, "there is no schema version %d", version)
	}
	return nil
}

// checkPages has SQLite walk every page.
func (s *Store) checkPages() error {
	rows, err := s.db.Query("PRAGMA integrity_check(3)")
	if err != nil {
		return s.fail(err, "check the store")
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return s.fail(err, "check the store")
		}
		if line != "ok" {
			found = append(found, line)
		}
	}
	if err := rows.Err(); err != nil {
		return s.fail(err, "check the store")
	}
	if len(found) > 0 {
		return s.damaged(nil, "%s", strings.ReplaceAll(strings.Join(found, "; "), "\n", " "))
	}
	return nil
}
