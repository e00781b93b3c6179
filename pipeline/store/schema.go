package store

// schemaVersion is the version of the tables below, kept in PRAGMA user_version.
// A change to them takes the next number and a step in Open that brings old files up to it.
const schemaVersion = 1

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
  samples    INTEGER NOT NULL,  -- rows in samples
  outcome    TEXT,              -- JSON
  checksum   INTEGER NOT NULL,
  PRIMARY KEY (session, seq)
) WITHOUT ROWID;

-- The numbers that launches reported.
CREATE TABLE samples (
  session    TEXT NOT NULL,
  seq        INTEGER NOT NULL,  -- of the launch
  number     INTEGER NOT NULL,  -- 0, 1, ... within the launch
  metric     TEXT NOT NULL,
  case_name  TEXT NOT NULL,     -- shape or input
  value      REAL,              -- NULL: not a number
  unit       TEXT NOT NULL,
  checksum   INTEGER NOT NULL,
  PRIMARY KEY (session, seq, number)
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

CREATE TABLE meta (
  name       TEXT PRIMARY KEY,
  value      TEXT NOT NULL,
  checksum   INTEGER NOT NULL
) WITHOUT ROWID;

-- Every number with the launch that it came from.
CREATE VIEW timings AS
  SELECT l.session, l.seq, l.commit_id, l.candidate, l.purpose, l.ordinal, l.class, l.phase,
         l.started, l.wall_s, s.metric, s.case_name, s.value, s.unit
  FROM launches l JOIN samples s ON s.session = l.session AND s.seq = l.seq;

-- One line per candidate and class of a session.
CREATE VIEW candidates AS
  SELECT session, commit_id, candidate, class, phase, count(*) AS launches, sum(wall_s) AS wall_s
  FROM launches GROUP BY session, commit_id, candidate, class, phase;
`
