package store

import (
	"bytes"
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
	Infra        = "infra"         // a machine problem
	Failed       = "error"         // kbisect's or the configuration's fault
)

// A Session is one search, comparison, gate or the like, over all its attempts.
type Session struct {
	ID               string // from NewID
	Created, Updated time.Time
	Status           string   // Running, Interrupted, ...
	Args             []string // the command line
	Config           []byte   // the exact policy as JSON, so that resuming asks nothing
	Good, Bad        string   // the ends, commits
	Axis             string   // of a search: history, flags, hunks; else the kind of session, such as gate
	Seed             int64
	Summary          string        // one line for lists
	Finding          []byte        // JSON, once there is one
	Elapsed          time.Duration // wall time over all attempts
	Version          string        // of kbisect
}

// NewID returns a session id that sorts by time: 20261121-074512-3f9a17c2. The suffix comes from random. It has to be
// unique on the whole machine, since processes are marked with the id: of two sessions with the same one, in whatever
// repositories, each would take the other's processes for leftovers of its own and kill them. With 32 bits, of a
// hundred sessions begun in the same second two have the same id once in a million such seconds.
func NewID(now time.Time, random io.Reader) (string, error) {
	var suffix [4]byte
	if _, err := io.ReadFull(random, suffix[:]); err != nil {
		return "", fmt.Errorf("make a session id: %w", err)
	}
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(suffix[:]), nil
}

var sessions = table[Session]{
	name:    "sessions",
	columns: "id, created, updated, status, axis, good, bad, args, seed, elapsed_s, version, summary, config, finding",
	label:   func(x *Session) string { return "the row of session " + x.ID },
	values: func(x *Session) []any {
		args, _ := json.Marshal(append([]string{}, x.Args...)) // cannot fail for strings
		// Bytes that are not UTF-8 become \ufffd here, but the character itself when the row is read and checked.
		args = bytes.ReplaceAll(args, []byte(`\ufffd`), []byte("\uFFFD"))
		return []any{x.ID, formatTime(x.Created), formatTime(x.Updated), x.Status, x.Axis, x.Good, x.Bad, string(args),
			x.Seed, x.Elapsed.Seconds(), x.Version, x.Summary, document(x.Config), document(x.Finding)}
	},
	scan: func(scan func(...any) error) (x Session, err error) {
		var created, updated, args string
		var elapsed float64
		if err := scan(&x.ID, &created, &updated, &x.Status, &x.Axis, &x.Good, &x.Bad, &args,
			&x.Seed, &elapsed, &x.Version, &x.Summary, &x.Config, &x.Finding); err != nil {
			return x, err
		}
		x.Elapsed = duration(elapsed)
		var err1, err2 error
		x.Created, err1 = parseTime(created)
		x.Updated, err2 = parseTime(updated)
		return x, errors.Join(err1, err2, json.Unmarshal([]byte(args), &x.Args))
	},
}

// sessionByID reads the session with exactly this id.
func sessionByID(q queryer, f file, id string) (Session, error) {
	list, err := sessions.query(q, f, "WHERE id = ?", id)
	if err != nil {
		return Session{}, err
	}
	if len(list) == 0 {
		return Session{}, fmt.Errorf("session %s: %w", id, errNone)
	}
	return list[0], nil
}

// CreateSession adds a session, which needs an id that no other one has. A zero Updated becomes Created.
func (s *Store) CreateSession(x Session) error {
	if x.ID == "" {
		return errors.New("create session: no id")
	}
	if x.Updated.IsZero() {
		x.Updated = x.Created
	}
	err := s.inTx(false, func(tx *sql.Tx) error { return sessions.insert(tx, &x) })
	return s.file.fail(err, "create session %s", x.ID)
}

// UpdateSession changes the session with exactly this id by calling f on it, in one transaction. Updated is
// set to the present unless f sets it. f must not call the store.
func (s *Store) UpdateSession(id string, f func(*Session)) error {
	err := s.inTx(false, func(tx *sql.Tx) error {
		x, err := sessionByID(tx, s.file, id)
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
		return sessions.replace(tx, "id", id, &x)
	})
	return s.file.fail(err, "update session %s", id)
}

// Session returns the session whose id is id or begins with it; "" and "last" mean the newest one. It is an error if
// none or several match.
func (s *Store) Session(id string) (Session, error) {
	if id == "" || id == "last" {
		list, err := s.Sessions(1)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("no session recorded yet: %w", errNone)
		}
		if err != nil {
			return Session{}, err
		}
		return list[0], nil
	}
	list, err := sessions.query(s.db, s.file, "WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id = ?1 DESC, id LIMIT 9", id)
	if err != nil {
		return Session{}, s.file.fail(err, "read session %s", id)
	}
	switch {
	case len(list) == 0:
		return Session{}, fmt.Errorf("session %s: %w\nhint: kbisect sessions lists them", id, errNone)
	case len(list) == 1 || list[0].ID == id:
		return list[0], nil
	}
	var ids []string
	for _, x := range list {
		ids = append(ids, x.ID)
	}
	return Session{}, fmt.Errorf("session %s is ambiguous: %s\nhint: type more of the id", id, strings.Join(ids, ", "))
}

// Sessions returns up to limit sessions, all if limit is not positive, the newest first.
func (s *Store) Sessions(limit int) ([]Session, error) {
	if limit <= 0 {
		limit = -1
	}
	list, err := sessions.query(s.db, s.file, "ORDER BY created DESC, id DESC LIMIT ?", limit)
	return list, s.file.fail(err, "list sessions")
}
