-- A store of schema version 1, as commit fdd095f wrote it: sqlite3 kbisect.db .dump, and the pragmas that a dump leaves out.
PRAGMA application_id=1801611635;
PRAGMA user_version=1;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
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
INSERT INTO sessions VALUES('20261121-074512-3f9a','2026-11-21T07:45:12.123456789Z','2026-11-21T08:35:12.123456789Z','found','history','1111','9999','["kbisect","run","--good","a b"]',-7,3000.0,'v0.1','s','{"effect":"3%"}','{"f":2}',2,2,2733061508);
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
INSERT INTO launches VALUES('20261121-074512-3f9a',1,'key1','1111','end-good',1,'ok','measure','2026-11-21T07:45:13.123456789Z',1.2345678909999999728,4,'{"class":"ok","phases":[{"name":"warmup","seconds":0.25}],"series":[{"metric":"time","case":"m=512","unit":"us","values":[1.5,2]},{"metric":"bytes","unit":"B","values":[3]}],"wall_s":1.234567891}',2997353534);
INSERT INTO launches VALUES('20261121-074512-3f9a',2,'key9','9999','end-bad',1,'timeout','teardown','2026-11-21T07:45:14.123456789Z',5.0,0,NULL,2659643077);
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
INSERT INTO samples VALUES('20261121-074512-3f9a',1,0,'time','m=512',1.5,'us',3213410059);
INSERT INTO samples VALUES('20261121-074512-3f9a',1,1,'time','m=512',2.0,'us',1464428251);
INSERT INTO samples VALUES('20261121-074512-3f9a',1,2,'bytes','',3.0,'B',39396830);
INSERT INTO samples VALUES('20261121-074512-3f9a',1,3,'phase.warmup','',0.25,'s',3348663672);
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
INSERT INTO steps VALUES('20261121-074512-3f9a',1,'1111','1111','good',0.875,'it''s fine',0,'{"call":"good"}',192829406);
INSERT INTO steps VALUES('20261121-074512-3f9a',2,'5555','5555','skip',NULL,'equal inputs',1,NULL,1387337223);
CREATE TABLE goods (
  commit_id  TEXT PRIMARY KEY,
  recorded   TEXT NOT NULL,
  session    TEXT NOT NULL,
  detail     TEXT NOT NULL,
  checksum   INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO goods VALUES('1111','2026-11-21T07:45:12.123456789Z','20261121-074512-3f9a','fine',3560146310);
CREATE TABLE meta (
  name       TEXT PRIMARY KEY,
  value      TEXT NOT NULL,
  checksum   INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta VALUES('fact','true',1934525410);
CREATE INDEX sessions_by_creation ON sessions (created, id);
CREATE VIEW timings AS
  SELECT l.session, l.seq, l.commit_id, l.candidate, l.purpose, l.ordinal, l.class, l.phase,
         l.started, l.wall_s, s.metric, s.case_name, s.value, s.unit
  FROM launches l JOIN samples s ON s.session = l.session AND s.seq = l.seq;
CREATE VIEW candidates AS
  SELECT session, commit_id, candidate, class, phase, count(*) AS launches, sum(wall_s) AS wall_s
  FROM launches GROUP BY session, commit_id, candidate, class, phase;
COMMIT;
