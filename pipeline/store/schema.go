package store

import (
	"database/sql"
	_ "embed"
	"fmt"
)

// schemaVersion is the version of the tables below, kept in PRAGMA user_version.
// A change to them takes the next number and a step that upgrades, once a version has been released.
const schemaVersion = 2

// applicationID marks the file as ours ("kbis"), in PRAGMA application_id.
const applicationID = 0x6b626973

// schema is written for people who open the file: times are UTC text, durations
// seconds, documents JSON text. checksum covers the other columns of its row,
// except the counters in sessions, which say how many rows must be there.
//
//go:embed schema.sql
var schema string

// writeSchema creates an empty store at path, complete on disk when it returns.
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
