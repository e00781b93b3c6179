package store

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// meddled is a filled store on which another program has run some SQL.
func meddled(t *testing.T, statements string) *Store {
	t.Helper()
	dir := t.TempDir()
	fill(t, dir, 6)
	db, err := sql.Open("sqlite", filepath.Join(dir, fileName))
	must(t, err)
	_, err = db.Exec(statements)
	must(t, errors.Join(err, db.Close()))
	return open(t, dir, ReadWrite)
}

// Whatever another program changes in the rows is noticed where they are read, and says which row it is; what was not
// touched is still read.
func TestMeddledRows(t *testing.T) {
	read := map[string]func(*Store) error{
		"launches": func(s *Store) error { _, err := s.Launches("one"); return err },
		"steps":    func(s *Store) error { _, err := s.Steps("one"); return err },
		"goods":    func(s *Store) error { _, err := s.Goods(); return err },
		"sessions": func(s *Store) error { _, err := s.Sessions(0); return err },
		"session":  func(s *Store) error { _, err := s.Session("one"); return err },
		"update":   func(s *Store) error { return s.UpdateSession("one", func(x *Session) { x.Status = Found }) },
	}
	for name, c := range map[string]struct {
		sql     string
		damaged map[string]string // by what is read: a part of the error
	}{
		"nothing": {"SELECT 1", nil},
		"another class": {"UPDATE launches SET class = 'crash' WHERE seq = 3", map[string]string{
			"launches": "launch 3 of session one does not match its checksum", "of": "launch 3 of session one does not match"}},
		"another number":          {"UPDATE launches SET wall_s = wall_s + 0.001 WHERE seq = 4", map[string]string{"launches": "launch 4 of session one"}},
		"another outcome":         {"UPDATE launches SET outcome = NULL WHERE seq = 0", map[string]string{"launches": "launch 0 of session one"}},
		"a launch is gone":        {"DELETE FROM launches WHERE seq = 5", map[string]string{"launches": "session one has 5 launches where 6 were recorded"}},
		"a step is gone":          {"DELETE FROM steps WHERE seq = 1", map[string]string{"steps": "session one has 5 steps where 6 were recorded"}},
		"the counter":             {"UPDATE sessions SET steps = 7", map[string]string{"steps": "session one has 6 steps where 7 were recorded"}},
		"launches change places":  {"UPDATE launches SET seq = 100 - seq", map[string]string{"launches": "does not match its checksum", "of": "does not match"}},
		"another probability":     {"UPDATE steps SET probability = 0.75 WHERE seq = 2", map[string]string{"steps": "step 2 of session one"}},
		"a text for a number":     {"UPDATE steps SET inferred = 'maybe' WHERE seq = 2", map[string]string{"steps": "a row of steps holds invalid values"}},
		"no time":                 {"UPDATE launches SET started = 'yesterday' WHERE seq = 3", map[string]string{"launches": "a row of launches holds invalid values", "of": "holds invalid values"}},
		"a good commit":           {"UPDATE goods SET commit_id = 'bad'", map[string]string{"goods": "the record of good commit bad does not match"}},
		"a good commit's time":    {"UPDATE goods SET recorded = ''", map[string]string{"goods": "a row of goods holds invalid values"}},
		"the state of a session":  {"UPDATE sessions SET status = 'found'", map[string]string{"sessions": "the row of session one", "session": "the row of session one", "update": "the row of session one", "launches": "the row of session one", "steps": "the row of session one"}},
		"the arguments":           {"UPDATE sessions SET args = '{'", map[string]string{"sessions": "a row of sessions holds invalid values", "session": "invalid values", "update": "invalid values", "launches": "invalid values", "steps": "invalid values"}},
		"a table has no column":   {"ALTER TABLE goods RENAME COLUMN detail TO details", map[string]string{"goods": "its tables are not those of schema version 2"}},
		"a row of another table":  {"UPDATE steps SET checksum = (SELECT checksum FROM launches LIMIT 1) WHERE seq = 0", map[string]string{"steps": "step 0 of session one"}},
		"a session of no launch":  {"UPDATE sessions SET launches = 0; DELETE FROM launches", nil},
		"a checksum for no check": {"UPDATE launches SET checksum = 0 WHERE seq = 0", map[string]string{"launches": "launch 0 of session one"}},
	} {
		s := meddled(t, c.sql)
		for what, read := range read {
			var damaged *damagedError
			switch err := read(s); {
			case c.damaged[what] == "" && err != nil:
				t.Errorf("%s: reading %s: %v", name, what, err)
			case c.damaged[what] != "" && (!errors.As(err, &damaged) || !strings.Contains(err.Error(), c.damaged[what]) || !strings.Contains(err.Error(), "hint: move it away")):
				t.Errorf("%s: reading %s: %v, want %q", name, what, err, c.damaged[what])
			}
		}
	}
}

// What a store refuses leaves no trace in it.
func TestRefusedRecords(t *testing.T) {
	s := meddled(t, "SELECT 1")
	if err := s.CreateSession(Session{Created: day}); err == nil {
		t.Error("a session without an id")
	}
	if err := s.UpdateSession("one", func(x *Session) { x.ID = "two" }); err == nil || !strings.Contains(err.Error(), `the id may not change (to "two")`) {
		t.Errorf("another id: %v", err)
	}
	if err := s.AddStep(Step{Session: "two", Seq: 1}); !errors.Is(err, errNone) || !strings.HasPrefix(err.Error(), "record step 1 of session two: ") {
		t.Errorf("a step of no session: %v", err)
	}
	if err := s.AddStep(Step{Session: "one", Seq: 1}); err == nil {
		t.Error("a step twice")
	}
	if list, err := s.Steps("one"); err != nil || len(list) != 6 {
		t.Errorf("%d steps, %v", len(list), err)
	}
	if list, err := s.Launches("two"); !errors.Is(err, errNone) || list != nil {
		t.Errorf("launches of no session: %v %v", list, err)
	}
	must(t, s.UpdateSession("one", func(x *Session) { x.Updated = day.Add(time.Hour) }))
	if x, err := s.Session("one"); err != nil || !x.Updated.Equal(day.Add(time.Hour)) {
		t.Errorf("updated %v, %v", x.Updated, err)
	}
	reader := open(t, s.file.dir, ReadOnly)
	if err := reader.RecordGood(Good{Commit: "x", When: day}); err == nil {
		t.Error("a reader wrote")
	}
}

// Who runs is read from the lock, which only a process that still holds it makes true.
func TestRunning(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, ReadWrite)
	if got := s.Running(); got != "" {
		t.Errorf("before the first lock: %q", got)
	}
	l, err := s.Lock("20261121-074512-3f9a")
	must(t, err)
	if got := s.Running(); got != "20261121-074512-3f9a" {
		t.Errorf("running: %q", got)
	}
	must(t, l.Unlock())
	if got := s.Running(); got != "" {
		t.Errorf("after the lock: %q", got)
	}
	lock := filepath.Join(dir, lockName)
	must(t, os.WriteFile(lock, []byte("pid 1\nsession left-by-a-killed-run\n"), 0o666))
	if got := s.Running(); got != "" {
		t.Errorf("of a process that is gone: %q", got)
	}
	must(t, errors.Join(os.Remove(lock), unix.Mkfifo(lock, 0o666)))
	if got := s.Running(); got != "" {
		t.Errorf("a pipe in its place: %q", got)
	}
	must(t, errors.Join(os.Remove(lock), os.Mkdir(lock, 0o777)))
	if _, err := s.Lock("x"); err == nil || !strings.Contains(err.Error(), "lock the repository: ") {
		t.Errorf("a folder in its place: %v", err)
	}
}

// Two runs of one process, and what is said of a holder that nobody knows.
func TestBusyWords(t *testing.T) {
	for _, c := range []struct {
		text, want string
	}{
		{"pid 42\nsession s-1\n", "process 42 (session s-1) holds L"},
		{"pid 42\n", "process 42 holds L"},
		{"rubbish\n", "another process holds L"},
		{"session s\npid -3x\n", "process -3 (session s) holds L"},
	} {
		file := filepath.Join(t.TempDir(), "lock")
		must(t, os.WriteFile(file, []byte(c.text), 0o666))
		f, err := os.Open(file)
		must(t, err)
		e := holder(f, "L")
		f.Close()
		if !strings.Contains(e.Error(), c.want) || !strings.Contains(e.Error(), "hint: --wait") {
			t.Errorf("%q: %v", c.text, e)
		}
	}
}

// A new store is made beside its name: who made it first is not overwritten, drafts of creators that were killed long
// ago are removed, and those of one at work are not.
func TestDrafts(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 1)
	f := file{dir: dir, path: filepath.Join(dir, fileName)}
	before, err := os.ReadFile(f.path)
	must(t, err)
	draft := filepath.Join(dir, "draft")
	must(t, os.WriteFile(draft, []byte("another"), 0o666))
	must(t, publish(draft, f.path))
	if after, err := os.ReadFile(f.path); err != nil || string(after) != string(before) {
		t.Errorf("a store was overwritten: %v", err)
	}
	must(t, publish(draft, filepath.Join(dir, "fresh")))
	if text, err := os.ReadFile(filepath.Join(dir, "fresh")); err != nil || string(text) != "another" {
		t.Errorf("%q %v", text, err)
	}
	old, young := filepath.Join(dir, draftPrefix+"old"), filepath.Join(dir, draftPrefix+"young")
	must(t, errors.Join(os.MkdirAll(old+"/x", 0o777), os.Mkdir(young, 0o777)))
	long := time.Now().Add(-2 * time.Hour)
	must(t, os.Chtimes(old, long, long))
	must(t, open(t, dir, ReadWrite).Close())
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("an old draft: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("a draft of a creator at work: %v", err)
	}
}

// What is advised about the disk.
func TestDiskHints(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "free some disk space and resume", syscall.EDQUOT: "free some disk space", syscall.EROFS: "mounted read-only",
		syscall.EACCES: "check owner and permissions", os.ErrPermission: "check owner", syscall.EIO: "",
	} {
		if got := diskHint(&os.PathError{Op: "open", Path: "x", Err: err}); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q", err, got)
		}
	}
}

// A pipe or a folder in the place of one of SQLite's files is told, not waited for.
func TestPipesInPlaceOfTheStore(t *testing.T) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		dir := t.TempDir()
		must(t, unix.Mkfifo(filepath.Join(dir, fileName+suffix), 0o666))
		var damaged *damagedError
		for _, mode := range []Mode{ReadOnly, ReadWrite} {
			if _, err := Open(dir, mode); !errors.As(err, &damaged) || !strings.Contains(err.Error(), fileName+suffix+" is not a file") {
				t.Errorf("%q: %v", suffix, err)
			}
		}
	}
}
