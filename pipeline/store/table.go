package store

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"time"
)

// A table maps records to the rows of one table, each with a checksum of its
// other columns.
type table[T any] struct {
	name    string
	columns string         // in the order of values and scan, without the checksum
	values  func(*T) []any // the columns as they are stored
	scan    func(scan func(...any) error) (T, error)
	label   func(*T) string // names a record in errors
}

// queryer is a database or a transaction.
type queryer interface {
	Query(query string, args ...any) (*sql.Rows, error)
}

// insert adds one row.
func (t table[T]) insert(tx *sql.Tx, record *T) error {
	values := t.values(record)
	marks := strings.Repeat("?, ", len(values)) + "?"
	_, err := tx.Exec("INSERT INTO "+t.name+" ("+t.columns+", checksum) VALUES ("+marks+")", append(values, checksum(t.name, values))...)
	return err
}

// replace changes the row whose key column has the given value.
func (t table[T]) replace(tx *sql.Tx, key, value string, record *T) error {
	values := t.values(record)
	set := strings.ReplaceAll(t.columns, ", ", " = ?, ") + " = ?, checksum = ?"
	_, err := tx.Exec("UPDATE "+t.name+" SET "+set+" WHERE "+key+" = ?", append(values, checksum(t.name, values), value)...)
	return err
}

// query reads the rows that the clauses after FROM select. A row that does not
// match its checksum is a *damagedError.
func (t table[T]) query(q queryer, f file, clauses string, args ...any) ([]T, error) {
	rows, err := q.Query("SELECT "+t.columns+", checksum FROM "+t.name+" "+clauses, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		var sum int64
		record, err := t.scan(func(dest ...any) error { return rows.Scan(append(dest, &sum)...) })
		if err != nil {
			return nil, f.damaged(err, "a row of %s holds invalid values (%v)", t.name, err)
		}
		if checksum(t.name, t.values(&record)) != sum {
			return nil, f.damaged(nil, "%s does not match its checksum", t.label(&record))
		}
		list = append(list, record)
	}
	return list, rows.Err()
}

// count adds one to a counter of the session, which must exist.
func count(tx *sql.Tx, counter, session string) error {
	r, err := tx.Exec("UPDATE sessions SET "+counter+" = "+counter+" + 1 WHERE id = ?", session)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("session %s: %w", session, errNone)
	}
	return nil
}

// add records a launch or a step, and counts it in its session.
func add[T any](s *Store, t table[T], session string, record *T) error {
	err := s.inTx(false, func(tx *sql.Tx) error {
		if err := count(tx, t.name, session); err != nil {
			return err
		}
		return t.insert(tx, record)
	})
	return s.file.fail(err, "record %s", t.label(record))
}

// counted reads the rows of a session, in the order of seq, and compares their
// number with the session's counter, which has the table's name.
func counted[T any](s *Store, t table[T], session string) (list []T, err error) {
	err = s.inTx(true, func(tx *sql.Tx) error {
		if _, err := sessionByID(tx, s.file, session); err != nil {
			return err
		}
		if list, err = t.query(tx, s.file, "WHERE session = ? ORDER BY seq", session); err != nil {
			return err
		}
		var want int
		err := tx.QueryRow("SELECT "+t.name+" FROM sessions WHERE id = ?", session).Scan(&want)
		if err == nil && len(list) != want {
			list, err = nil, s.file.damaged(nil, "session %s has %d %s where %d were recorded", session, len(list), t.name, want)
		}
		return err
	})
	return list, s.file.fail(err, "read the %s of session %s", t.name, session)
}

// timeLayout has a fixed width, so that the text sorts like the time.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

func parseTime(text string) (time.Time, error) { return time.Parse(timeLayout, text) }

// duration reads a column of seconds, exact up to about fifty days.
func duration(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// document returns the column for a JSON document: text, so that tools show it, or NULL.
func document(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return string(b)
}

// number returns the column for a measured value. SQLite has no NaN and may drop the sign of zero.
func number(v float64) any {
	if math.IsNaN(v) {
		return nil
	}
	if v == 0 {
		return 0.0
	}
	return v
}

// checksum covers the columns of one row, given as they are stored. The
// table's name is part of it, so that a row cannot turn up in another table.
func checksum(table string, columns []any) int64 {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	var n [8]byte
	put := func(kind byte, v uint64) {
		binary.BigEndian.PutUint64(n[:], v)
		h.Write([]byte{kind})
		h.Write(n[:])
	}
	for _, c := range append([]any{table}, columns...) {
		switch c := c.(type) {
		case nil:
			put('n', 0)
		case string:
			put('s', uint64(len(c)))
			h.Write([]byte(c))
		case int64:
			put('i', uint64(c))
		case float64:
			put('f', math.Float64bits(c))
		default:
			panic(fmt.Sprintf("store: no checksum for a %T", c)) // a mistake in this package, on every row
		}
	}
	return int64(h.Sum32())
}

// flag returns the column for a truth value: SQLite has none.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// valueOf is the inverse of number.
func valueOf(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
