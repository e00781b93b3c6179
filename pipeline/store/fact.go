package store

import (
	"database/sql"
	"errors"
	"time"
)

// A Good is a commit that was judged good.
type Good struct {
	Commit  string
	When    time.Time
	Session string // that found it good
	Detail  string
}

const goodColumns = "commit_id, recorded, session, detail, checksum"

func (g *Good) columns() []any {
	return []any{g.Commit, formatTime(g.When), g.Session, g.Detail}
}

// RecordGood remembers a good commit, in place of what was recorded about it before.
func (s *Store) RecordGood(g Good) error {
	err := s.inTx(func(tx *sql.Tx) error {
		if _, err := tx.Exec("DELETE FROM goods WHERE commit_id = ?", g.Commit); err != nil {
			return err
		}
		return insert(tx, "goods", goodColumns, g.columns())
	})
	if err != nil {
		return s.fail(err, "record %s as good", g.Commit)
	}
	return nil
}

// Goods returns the known good commits, the newest record first.
func (s *Store) Goods() ([]Good, error) {
	rows, err := s.db.Query("SELECT " + goodColumns + " FROM goods ORDER BY recorded DESC, commit_id")
	if err != nil {
		return nil, s.fail(err, "list the good commits")
	}
	defer rows.Close()
	var list []Good
	for rows.Next() {
		g, err := s.scanGood(rows)
		if err != nil {
			return nil, s.fail(err, "list the good commits")
		}
		list = append(list, g)
	}
	if err := rows.Err(); err != nil {
		return nil, s.fail(err, "list the good commits")
	}
	return list, nil
}

func (s *Store) scanGood(rows *sql.Rows) (g Good, err error) {
	var when string
	var sum int64
	if err := rows.Scan(&g.Commit, &when, &g.Session, &g.Detail, &sum); err != nil {
		return g, s.scanFailed("goods", err)
	}
	g.When, err = parseTime(when)
	if err != nil || checksum("goods", g.columns()) != sum {
		return g, s.damaged(err, "the record of good commit %s does not match its checksum", g.Commit)
	}
	return g, nil
}

// MetaSet remembers a small fact under a name, in place of an older one.
func (s *Store) MetaSet(name, value string) error {
	err := s.inTx(func(tx *sql.Tx) error {
		if _, err := tx.Exec("DELETE FROM meta WHERE name = ?", name); err != nil {
			return err
		}
		return insert(tx, "meta", "name, value, checksum", []any{name, value})
	})
	if err != nil {
		return s.fail(err, "record %s", name)
	}
	return nil
}

// MetaGet returns the fact under a name, and whether there is one.
func (s *Store) MetaGet(name string) (value string, ok bool, err error) {
	var sum int64
	err = s.db.QueryRow("SELECT value, checksum FROM meta WHERE name = ?", name).Scan(&value, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err == nil && checksum("meta", []any{name, value}) != sum {
		err = s.damaged(nil, "%s does not match its checksum", name)
	}
	if err != nil {
		return "", false, s.fail(s.scanFailed("meta", err), "read %s", name)
	}
	return value, true, nil
}
