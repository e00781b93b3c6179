// Package store remembers what kbisect has learned about a repository:
// sessions, every launch with its samples, the steps of a search, and the
// commits known to be good. It is the only importer of the SQL driver.
//
// The file is kbisect.db in the directory given to [Open] (kbisect/ in the
// repository's common git directory, so that linked worktrees share it). It is
// an ordinary SQLite database, with real columns and a few views, meant to be
// read with any SQLite tool.
//
// # What survives
//
// A process killed at any instant loses at most the record that was being
// written: each record is one transaction, committed to disk before the call
// that adds it returns. Each row carries a checksum and each session the number
// of its rows, because SQLite itself does not notice a changed byte inside a
// value: damage is reported as a [*DamagedError], never read as data, and
// a damaged file is never written to.
//
// # Who may write
//
// Any number of processes may read while one writes. A run, which adds launches
// for hours, takes [Store.Lock] first; short writers (a recorded good commit) rely on
// SQLite's own locking.
//
// The store knows nothing of searches. Outcomes, verdicts, configurations and findings
// are documents that it keeps as they are.
package store
