package store

import (
	"database/sql"
	_ "embed"
	"fmt"
)

// schemaVersion is the version of the tables below, kept in PRAGMA user_version.
// A change to them takes the next number and a step in upgrade. [ReadOnly] leaves a
// file as it is: what the statements of this package name is the same in every version.
const schemaVersion = 2

// applicationID marks the file as ours ("kbis"), in PRAGMA application_id.
const applicationID = 0x6b626973

// schema is written for people who open the file: times are UTC text, durations
// seconds, documents JSON text. checksum covers the other columns of its row,
// except the counters in sessions, which say how many rows must be there.
//
//go:embed schema.sql
var schema string

// timingsView reads the numbers out of the outcomes, the phases in seconds among them.
//
//go:embed timings.sql
var timingsView string

// writeSchema creates an empty store at path, complete on disk when it returns.
func writeSchema(path string) error {
	db, err := sql.Open("sqlite", dsn(path, "rwc", "synchronous(full)"))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	head := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion)
	if _, err := db.Exec("BEGIN;" + head + schema + timingsView + "COMMIT;"); err != nil {
		return err
	}
	if _, err := db.Exec("PRAGMA journal_mode = wal"); err != nil {
		return err
	}
	return db.Close()
}

// upgrade brings a file of an older version up to schemaVersion. Version 1 kept the
// numbers of the outcomes a second time, in the table samples, and had a table meta;
// both stay in such a file, unused.
func upgrade(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var version int
	if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version == schemaVersion {
		return err
	}
	if _, err := tx.Exec("DROP VIEW IF EXISTS timings;" + timingsView + fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
		return err
	}
	return tx.Commit()
}
