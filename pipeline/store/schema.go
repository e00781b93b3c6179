package store

import (
	"database/sql"
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
const schema = `
CREATE TABLE sessions (
  id         TEXT PRIMARY KEY,
  created    TEXT NOT NULL,
  updated    TEXT NOT NULL,
  status     TEXT NOT NULL,     -- running, interrupted, found, inconclusive, no-difference, infra, error
  axis       TEXT NOT NULL,
  good       TEXT NOT NULL,     -- the ends
  bad        TEXT NOT NULL,
  args       TEXT NOT NULL,     -- the command line, a JSON list
  seed       INTEGER NOT NULL,
  elapsed_s  REAL NOT NULL,     -- wall time, all attempts together
  version    TEXT NOT NULL,     -- of kbisect
  summary    TEXT NOT NULL,
  config     TEXT,              -- JSON
  finding    TEXT,              -- JSON
  launches   INTEGER NOT NULL DEFAULT 0,
  steps      INTEGER NOT NULL DEFAULT 0,
  checksum   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX sessions_by_creation ON sessions (created, id);

-- One fresh process launch of a candidate each.
CREATE TABLE launches (
  session    TEXT NOT NULL REFERENCES sessions (id),
  seq        INTEGER NOT NULL,
  candidate  TEXT NOT NULL,
  commit_id  TEXT NOT NULL,
  purpose    TEXT NOT NULL,     -- end-good, end-bad, search, confirm-culprit, ...
  ordinal    INTEGER NOT NULL,  -- the n-th launch of this candidate for this purpose
  class      TEXT NOT NULL,     -- ok, timeout, wrong, crash, build-failed, skip, infra
  phase      TEXT NOT NULL,     -- where it ended
  started    TEXT NOT NULL,
  wall_s     REAL NOT NULL,
  samples    INTEGER NOT NULL,  -- rows in samples, as schema version 1 had them; now 0
  outcome    TEXT,              -- JSON
  checksum   INTEGER NOT NULL,
  PRIMARY KEY (session, seq)
) WITHOUT ROWID;

-- What the search concluded about one candidate after another.
CREATE TABLE steps (
  session     TEXT NOT NULL REFERENCES sessions (id),
  seq         INTEGER NOT NULL,
  commit_id   TEXT NOT NULL,
  candidate   TEXT NOT NULL,
  call        TEXT NOT NULL,    -- good, bad, skip
  probability REAL,
  why         TEXT NOT NULL,
  inferred    INTEGER NOT NULL, -- 1: concluded without a launch
  verdict     TEXT,             -- JSON
  checksum    INTEGER NOT NULL,
  PRIMARY KEY (session, seq)
) WITHOUT ROWID;

-- Commits that were judged good.
CREATE TABLE goods (
  commit_id  TEXT PRIMARY KEY,
  recorded   TEXT NOT NULL,
  session    TEXT NOT NULL,
  detail     TEXT NOT NULL,
  checksum   INTEGER NOT NULL
) WITHOUT ROWID;

-- One line per candidate and class of a session.
CREATE VIEW candidates AS
  SELECT session, commit_id, candidate, class, phase, count(*) AS launches, sum(wall_s) AS wall_s
  FROM launches GROUP BY session, commit_id, candidate, class, phase;
` + timingsView

// timingsView reads the numbers out of the outcomes, the phases in seconds among them.
const timingsView = `
-- Every number with the launch that it came from.
CREATE VIEW timings AS
  WITH l AS (SELECT *, CASE WHEN json_valid(outcome) THEN outcome END AS document FROM launches)
  SELECT l.session, l.seq, l.commit_id, l.candidate, l.purpose, l.ordinal, l.class, l.phase, l.started, l.wall_s,
         json_extract(s.value, '$.metric') AS metric, coalesce(json_extract(s.value, '$.case'), '') AS case_name,
         CAST(v.value AS REAL) AS value, json_extract(s.value, '$.unit') AS unit
  FROM l, json_each(l.document, '$.series') s, json_each(s.value, '$.values') v
  UNION ALL
  SELECT l.session, l.seq, l.commit_id, l.candidate, l.purpose, l.ordinal, l.class, l.phase, l.started, l.wall_s,
         'phase.' || json_extract(p.value, '$.name'), '', CAST(json_extract(p.value, '$.seconds') AS REAL), 's'
  FROM l, json_each(l.document, '$.phases') p;
`

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
