package store

import (
	"database/sql"
)

// A Step is one judgement of a search.
type Step struct {
	Session           string
	Seq               int // unique and rising within the session
	Commit, Candidate string
	Call              string // good, bad, skip
	Probability       float64
	Why               string // one line
	Inferred          bool   // concluded without a launch
	Verdict           []byte // JSON
}

const stepColumns = "session, seq, commit_id, candidate, call, probability, why, inferred, verdict, checksum"

func (t *Step) columns() []any {
	return []any{t.Session, int64(t.Seq), t.Commit, t.Candidate, t.Call, number(t.Probability), t.Why,
		flag(t.Inferred), document(t.Verdict)}
}

// AddStep records a step. When it returns without an error it is on disk.
func (s *Store) AddStep(t Step) error {
	err := s.inTx(func(tx *sql.Tx) error {
		if err := count(tx, "steps", t.Session); err != nil {
			return err
		}
		return insert(tx, "steps", stepColumns, t.columns())
	})
	if err != nil {
		return s.fail(err, "record step %d of session %s", t.Seq, t.Session)
	}
	return nil
}

// Steps returns the steps of the session with exactly this id, in the order of Seq.
func (s *Store) Steps(session string) (list []Step, err error) {
	err = s.inSnapshot(func(tx *sql.Tx) error {
		if _, err := s.session(tx, session); err != nil {
			return err
		}
		if list, err = s.querySteps(tx, session); err != nil {
			return err
		}
		return s.expect(tx, len(list), "steps", "SELECT steps FROM sessions WHERE id = ?", session)
	})
	if err != nil {
		return nil, s.fail(err, "read the steps of session %s", session)
	}
	return list, nil
}

func (s *Store) querySteps(q queryer, session string) ([]Step, error) {
	rows, err := q.Query("SELECT "+stepColumns+" FROM steps WHERE session = ? ORDER BY seq", session)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Step
	for rows.Next() {
		t, err := s.scanStep(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

func (s *Store) scanStep(rows *sql.Rows) (t Step, err error) {
	var probability *float64
	var sum int64
	err = rows.Scan(&t.Session, &t.Seq, &t.Commit, &t.Candidate, &t.Call, &probability, &t.Why, &t.Inferred, &t.Verdict, &sum)
	if err != nil {
		return t, s.scanFailed("steps", err)
	}
	t.Probability = valueOf(probability)
	if checksum("steps", t.columns()) != sum {
		return t, s.damaged(nil, "step %d of session %s does not match its checksum", t.Seq, t.Session)
	}
	return t, nil
}
