// Package store remembers what kbisect has learned about a repository: its
// sessions, every launch, the steps of each search, and the commits known to be
// good. It is the only importer of the SQL driver.
//
// A [Store] is an open file, kbisect.db in the directory given to [Open]
// (kbisect/ in the repository's common git directory, so that linked worktrees
// share it). The file is an ordinary SQLite database with real columns and a few
// views, made to be read with any SQLite tool. Each kind of record ([Session],
// [Launch], [Step], [Good]) is a type and a table that maps it to rows.
//
// # What survives
//
// A process killed at any instant loses at most the record that was being
// written: each record is one transaction, committed to disk before the call
// that adds it returns. Each row carries a checksum and each session the number
// of its rows, because SQLite itself does not notice a changed byte inside a
// value. Damage is an error, never read as data, and a damaged file is never
// written to.
//
// # Who may write
//
// Any number of processes may read while one writes. A run, which adds launches
// for hours, takes [Store.Lock] first; short writes (a good commit) rely on
// SQLite's own locking.
//
// The store must not know how a search works. Outcomes, verdicts, configurations
// and findings are documents that it keeps unchanged.
package store
