package store

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// The states of a session.
const (
	Running      = "running"       // a run works on it, or was killed
	Interrupted  = "interrupted"   // stopped by the user, can be resumed
	Found        = "found"         // a culprit
	Inconclusive = "inconclusive"  // a narrowed range
	NoDifference = "no-difference" // the ends do not differ
	Infra        = "infra"         // machine trouble
	Failed       = "error"         // kbisect's or the configuration's fault
)

// A Session is one search, over all its attempts.
type Session struct {
	ID               string // from NewID
	Created, Updated time.Time
	Status           string   // Running, Interrupted, ...
	Args             []string // the command line
	Config           []byte   // the exact policy as JSON, so that resuming asks nothing
	Good, Bad        string   // the ends, commits
	Axis             string   // history, flags, hunks
	Seed             int64
	Summary          string        // one line for lists
	Finding          []byte        // JSON, once there is one
	Elapsed          time.Duration // wall time over all attempts
	Version          string        // of kbisect
}

// NewID returns a session id that sorts by time: 20261121-074512-3f9a. The
// suffix comes from random, so two sessions begun in the same second differ.
func NewID(now time.Time, random io.Reader) (string, error) {
	var suffix [2]byte
	if _, err := io.ReadFull(random, suffix[:]); err != nil {
		return "", fmt.Errorf("make a session id: %w", err)
	}
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(suffix[:]), nil
}

const sessionColumns = "id, created, updated, status, axis, good, bad, args, seed, elapsed_s, version, summary, config, finding, checksum"

// columns returns the row without its checksum, in the order of sessionColumns.
func (x *Session) columns() ([]any, error) {
	args := x.Args
	if args == nil {
		args = []string{}
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return []any{x.ID, formatTime(x.Created), formatTime(x.Updated), x.Status, x.Axis, x.Good, x.Bad, string(text),
		x.Seed, seconds(x.Elapsed), x.Version, x.Summary, document(x.Config), document(x.Finding)}, nil
}

// CreateSession adds a session. A zero Updated becomes Created.
func (s *Store) CreateSession(x Session) error {
	if x.ID == "" {
		return errors.New("create session: no id")
	}
	if x.Updated.IsZero() {
		x.Updated = x.Created
	}
	cols, err := x.columns()
	if err != nil {
		return fmt.Errorf("create session %s: %w", x.ID, err)
	}
	err = s.inTx(func(tx *sql.Tx) error {
		return insert(tx, "sessions", sessionColumns, cols)
	})
	if err != nil {
		return s.fail(err, "create session %s", x.ID)
	}
	return nil
}

// insert adds one row: cols, and their checksum, into the columns named in list.
func insert(tx *sql.Tx, table, list string, cols []any) error {
	sum := checksum(table, cols)
	marks := strings.Repeat("?, ", len(cols)) + "?"
	_, err := tx.Exec("INSERT INTO "+table+" ("+list+") VALUES ("+marks+")", append(cols, sum)...)
	return err
}

// UpdateSession changes the session with exactly this id by calling f on it, in one transaction. Updated is
// set to the present unless f sets it. f must not call the store.
func (s *Store) UpdateSession(id string, f func(*Session)) error {
	err := s.inTx(func(tx *sql.Tx) error {
		x, err := s.session(tx, id)
		if err != nil {
			return err
		}
		before := x.Updated
		f(&x)
		if x.ID != id {
			return fmt.Errorf("the id may not change (to %q)", x.ID)
		}
		if x.Updated.Equal(before) {
			x.Updated = time.Now()
		}
		return replaceSession(tx, &x)
	})
	if err != nil {
		return s.fail(err, "update session %s", id)
	}
	return nil
}

func replaceSession(tx *sql.Tx, x *Session) error {
	cols, err := x.columns()
	if err != nil {
		return err
	}
	set := strings.ReplaceAll(sessionColumns, ", ", " = ?, ") + " = ?"
	cols = append(cols, checksum("sessions", cols), x.ID)
	_, err = tx.Exec("UPDATE sessions SET "+set+" WHERE id = ?", cols...)
	return err
}

// queryer is a database or a transaction.
type queryer interface {
	Query(query string, args ...any) (*sql.Rows, error)
	QueryRow(query string, args ...any) *sql.Row
}

// session reads the session with exactly this id.
func (s *Store) session(q queryer, id string) (Session, error) {
	list, err := s.querySessions(q, "WHERE id = ?", id)
	if err != nil {
		return Session{}, err
	}
	if len(list) == 0 {
		return Session{}, fmt.Errorf("session %s: %w", id, ErrNone)
	}
	return list[0], nil
}

func (s *Store) querySessions(q queryer, where string, args ...any) ([]Session, error) {
	rows, err := q.Query("SELECT "+sessionColumns+" FROM sessions "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Session
	for rows.Next() {
		x, err := s.scanSession(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, rows.Err()
}

func (s *Store) scanSession(rows *sql.Rows) (x Session, err error) {
	var created, updated, args string
	var elapsed float64
	var sum int64
	err = rows.Scan(&x.ID, &created, &updated, &x.Status, &x.Axis, &x.Good, &x.Bad, &args,
		&x.Seed, &elapsed, &x.Version, &x.Summary, &x.Config, &x.Finding, &sum)
	if err != nil {
		return x, s.scanFailed("sessions", err)
	}
	x.Elapsed = duration(elapsed)
	var err1, err2 error
	x.Created, err1 = parseTime(created)
	x.Updated, err2 = parseTime(updated)
	if err := errors.Join(err1, err2, json.Unmarshal([]byte(args), &x.Args)); err != nil {
		return x, s.damaged(err, "session %s: %v", x.ID, err)
	}
	cols, err := x.columns()
	if err != nil || checksum("sessions", cols) != sum {
		return x, s.damaged(err, "the row of session %s does not match its checksum", x.ID)
	}
	return x, nil
}

// scanFailed sorts a row that does not fit its Go types (damage) from a query that failed.
func (s *Store) scanFailed(table string, err error) error {
	if strings.HasPrefix(err.Error(), "sql: Scan error") {
		return s.damaged(err, "a row of %s holds values of a wrong type (%v)", table, err)
	}
	return err
}

// Session returns the session whose id is id or begins with it; "" and "last" mean the newest one.
func (s *Store) Session(id string) (Session, error) {
	if id == "" || id == "last" {
		return s.newest("ORDER BY created DESC, id DESC LIMIT 1", "no session recorded yet")
	}
	list, err := s.querySessions(s.db, "WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id = ?1 DESC, id LIMIT 9", id)
	if err != nil {
		return Session{}, s.fail(err, "read session %s", id)
	}
	switch {
	case len(list) == 0:
		return Session{}, fmt.Errorf("session %s: %w\nhint: kbisect sessions lists them", id, ErrNone)
	case len(list) == 1 || list[0].ID == id:
		return list[0], nil
	}
	var ids []string
	for _, x := range list {
		ids = append(ids, x.ID)
	}
	return Session{}, fmt.Errorf("session %s: several begin like this: %s\nhint: give more of the id", id, strings.Join(ids, ", "))
}

func (s *Store) newest(where, none string) (Session, error) {
	list, err := s.querySessions(s.db, where)
	if err != nil {
		return Session{}, s.fail(err, "read the newest session")
	}
	if len(list) == 0 {
		return Session{}, fmt.Errorf("%s: %w", none, ErrNone)
	}
	return list[0], nil
}

// Sessions returns up to limit sessions, all if limit is not positive, the newest first.
func (s *Store) Sessions(limit int) ([]Session, error) {
	if limit <= 0 {
		limit = -1
	}
	list, err := s.querySessions(s.db, "ORDER BY created DESC, id DESC LIMIT ?", limit)
	if err != nil {
		return nil, s.fail(err, "list sessions")
	}
	return list, nil
}
