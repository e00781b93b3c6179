package store

import (
	"database/sql"
	"fmt"
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

	samples int // a column that is no longer used; always 0, and the checksum covers it
}

var launches = table[Launch]{
	name:    "launches",
	columns: "session, seq, candidate, commit_id, purpose, ordinal, class, phase, started, wall_s, samples, outcome",
	label:   func(l *Launch) string { return fmt.Sprintf("launch %d of session %s", l.Seq, l.Session) },
	values: func(l *Launch) []any {
		return []any{l.Session, int64(l.Seq), l.Candidate, l.Commit, l.Purpose, int64(l.Ordinal), l.Class, l.Phase,
			formatTime(l.Started), l.Wall.Seconds(), int64(l.samples), document(l.Outcome)}
	},
	scan: func(scan func(...any) error) (l Launch, err error) {
		var started string
		var wall float64
		if err := scan(&l.Session, &l.Seq, &l.Candidate, &l.Commit, &l.Purpose, &l.Ordinal, &l.Class, &l.Phase,
			&started, &wall, &l.samples, &l.Outcome); err != nil {
			return l, err
		}
		l.Wall = duration(wall)
		l.Started, err = parseTime(started)
		return l, err
	},
}

// AddLaunch records a launch. When it returns without an error it is on disk.
func (s *Store) AddLaunch(l Launch) error { return add(s, launches, l.Session, &l) }

// Launches returns the launches of the session with exactly this id, in the order of Seq.
func (s *Store) Launches(session string) ([]Launch, error) { return counted(s, launches, session) }

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

var steps = table[Step]{
	name:    "steps",
	columns: "session, seq, commit_id, candidate, call, probability, why, inferred, verdict",
	label:   func(t *Step) string { return fmt.Sprintf("step %d of session %s", t.Seq, t.Session) },
	values: func(t *Step) []any {
		return []any{t.Session, int64(t.Seq), t.Commit, t.Candidate, t.Call, number(t.Probability), t.Why,
			flag(t.Inferred), document(t.Verdict)}
	},
	scan: func(scan func(...any) error) (t Step, err error) {
		var probability *float64
		err = scan(&t.Session, &t.Seq, &t.Commit, &t.Candidate, &t.Call, &probability, &t.Why, &t.Inferred, &t.Verdict)
		t.Probability = valueOf(probability)
		return t, err
	},
}

// AddStep records a step. When it returns without an error it is on disk.
func (s *Store) AddStep(t Step) error { return add(s, steps, t.Session, &t) }

// Steps returns the steps of the session with exactly this id, in the order of Seq.
func (s *Store) Steps(session string) ([]Step, error) { return counted(s, steps, session) }

// A Good is a commit that was judged good.
type Good struct {
	Commit  string
	When    time.Time
	Session string // that found it good
	Detail  string
}

var goods = table[Good]{
	name:    "goods",
	columns: "commit_id, recorded, session, detail",
	label:   func(g *Good) string { return "the record of good commit " + g.Commit },
	values:  func(g *Good) []any { return []any{g.Commit, formatTime(g.When), g.Session, g.Detail} },
	scan: func(scan func(...any) error) (g Good, err error) {
		var when string
		if err := scan(&g.Commit, &when, &g.Session, &g.Detail); err != nil {
			return g, err
		}
		g.When, err = parseTime(when)
		return g, err
	},
}

// RecordGood remembers a good commit, in place of what was recorded about it before.
func (s *Store) RecordGood(g Good) error {
	err := s.inTx(false, func(tx *sql.Tx) error {
		if _, err := tx.Exec("DELETE FROM goods WHERE commit_id = ?", g.Commit); err != nil {
			return err
		}
		return goods.insert(tx, &g)
	})
	return s.file.fail(err, "record %s as good", g.Commit)
}

// Goods returns the commits that are known to be good, the newest record first.
func (s *Store) Goods() ([]Good, error) {
	list, err := goods.query(s.db, s.file, "ORDER BY recorded DESC, commit_id")
	return list, s.file.fail(err, "list the good commits")
}
