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
  samples    INTEGER NOT NULL,  -- without use, always 0
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
