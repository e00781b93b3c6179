package store

import (
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// A Launch is one fresh process launch of a candidate, the unit that is never lost once recorded.
type Launch struct {
	Session      string
	Seq          int    // unique and rising within the session
	Candidate    string // its key
	Commit       string
	Purpose      string // end-good, end-bad, search, confirm-culprit, confirm-parent, ...
	Ordinal      int    // the n-th launch of this candidate for this purpose
	Class, Phase string // what it ended as, and where
	Started      time.Time
	Wall         time.Duration
	Outcome      []byte // JSON
}

// A Sample is one number that a launch reported. Session and Seq are those of the launch.
type Sample struct {
	Session            string
	Seq                int
	Metric, Case, Unit string
	Value              float64
}

const (
	launchColumns = "session, seq, candidate, commit_id, purpose, ordinal, class, phase, started, wall_s, samples, outcome, checksum"
	sampleColumns = "session, seq, number, metric, case_name, value, unit, checksum"
)

func (l *Launch) columns(samples int) []any {
	return []any{l.Session, int64(l.Seq), l.Candidate, l.Commit, l.Purpose, int64(l.Ordinal), l.Class, l.Phase,
		formatTime(l.Started), seconds(l.Wall), int64(samples), document(l.Outcome)}
}

func (p *Sample) columns(n int) []any {
	return []any{p.Session, int64(p.Seq), int64(n), p.Metric, p.Case, number(p.Value), p.Unit}
}

// AddLaunch records a launch with its samples, whose Session and Seq it sets. When it returns
// without an error they are on disk.
func (s *Store) AddLaunch(l Launch, samples []Sample) error {
	err := s.inTx(func(tx *sql.Tx) error {
		if err := count(tx, "launches", l.Session); err != nil {
			return err
		}
		if err := insert(tx, "launches", launchColumns, l.columns(len(samples))); err != nil {
			return err
		}
		for n, p := range samples {
			p.Session, p.Seq = l.Session, l.Seq
			if err := insert(tx, "samples", sampleColumns, p.columns(n)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return s.fail(err, "record launch %d of session %s", l.Seq, l.Session)
	}
	return nil
}

// count adds one to a counter of the session, which must exist.
func count(tx *sql.Tx, counter, session string) error {
	r, err := tx.Exec("UPDATE sessions SET "+counter+" = "+counter+" + 1 WHERE id = ?", session)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("session %s: %w", session, ErrNone)
	}
	return nil
}

// expect compares the number of rows read with the number that query says were written.
func (s *Store) expect(q queryer, got int, what, query, session string) error {
	var want int
	if err := q.QueryRow(query, session).Scan(&want); err != nil {
		return err
	}
	if got != want {
		return s.damaged(nil, "session %s has %d %s where %d were recorded", session, got, what, want)
	}
	return nil
}

// Launches returns the launches of the session with exactly this id, in the order of Seq.
func (s *Store) Launches(session string) (list []Launch, err error) {
	err = s.inSnapshot(func(tx *sql.Tx) error {
		if _, err := s.session(tx, session); err != nil {
			return err
		}
		if list, err = s.queryLaunches(tx, "session = ? ORDER BY seq", session); err != nil {
			return err
		}
		return s.expect(tx, len(list), "launches", "SELECT launches FROM sessions WHERE id = ?", session)
	})
	if err != nil {
		return nil, s.fail(err, "read the launches of session %s", session)
	}
	return list, nil
}

// LaunchesOf returns the launches of these commits in all sessions, at most limit, the newest first.
func (s *Store) LaunchesOf(limit int, commits ...string) (list []Launch, err error) {
	if len(commits) == 0 {
		return nil, nil
	}
	args := make([]any, len(commits), len(commits)+1)
	for i, c := range commits {
		args[i] = c
	}
	marks := strings.Repeat("?, ", len(commits)-1) + "?"
	list, err = s.queryLaunches(s.db, "commit_id IN ("+marks+") ORDER BY started DESC, session, seq LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, s.fail(err, "read the launches of %d commits", len(commits))
	}
	return list, nil
}

func (s *Store) queryLaunches(q queryer, where string, args ...any) ([]Launch, error) {
	rows, err := q.Query("SELECT "+launchColumns+" FROM launches WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Launch
	for rows.Next() {
		l, err := s.scanLaunch(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, rows.Err()
}

func (s *Store) scanLaunch(rows *sql.Rows) (l Launch, err error) {
	var started string
	var wall float64
	var samples int
	var sum int64
	err = rows.Scan(&l.Session, &l.Seq, &l.Candidate, &l.Commit, &l.Purpose, &l.Ordinal, &l.Class, &l.Phase,
		&started, &wall, &samples, &l.Outcome, &sum)
	if err != nil {
		return l, s.scanFailed("launches", err)
	}
	l.Wall = duration(wall)
	l.Started, err = parseTime(started)
	if err != nil || checksum("launches", l.columns(samples)) != sum {
		return l, s.damaged(err, "launch %d of session %s does not match its checksum", l.Seq, l.Session)
	}
	return l, nil
}

// Samples returns the samples of the session with exactly this id, by launch and in the order reported.
func (s *Store) Samples(session string) (list []Sample, err error) {
	err = s.inSnapshot(func(tx *sql.Tx) error {
		if _, err := s.session(tx, session); err != nil {
			return err
		}
		if list, err = s.querySamples(tx, session); err != nil {
			return err
		}
		return s.expect(tx, len(list), "samples", "SELECT coalesce(sum(samples), 0) FROM launches WHERE session = ?", session)
	})
	if err != nil {
		return nil, s.fail(err, "read the samples of session %s", session)
	}
	return list, nil
}

func (s *Store) querySamples(q queryer, session string) ([]Sample, error) {
	rows, err := q.Query("SELECT "+sampleColumns+" FROM samples WHERE session = ? ORDER BY seq, number", session)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Sample
	for rows.Next() {
		p, err := s.scanSample(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

func (s *Store) scanSample(rows *sql.Rows) (p Sample, err error) {
	var value *float64
	var n int
	var sum int64
	if err := rows.Scan(&p.Session, &p.Seq, &n, &p.Metric, &p.Case, &value, &p.Unit, &sum); err != nil {
		return p, s.scanFailed("samples", err)
	}
	p.Value = valueOf(value)
	if checksum("samples", p.columns(n)) != sum {
		return p, s.damaged(nil, "sample %d of launch %d of session %s does not match its checksum", n, p.Seq, p.Session)
	}
	return p, nil
}
