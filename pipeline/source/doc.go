// Package source reads a Git repository for a search over its history, and
// turns commits into folders that can be built.
//
// It is the only package that knows Git. It answers four questions:
//
//   - which commits lie between a good and a bad end ([Repo.Range]), in an
//     order in which parents come before children;
//   - which of them cannot matter, because what the build reads is the same
//     as in every parent (the fingerprint [RangeCommit.Key]);
//   - how one commit's files look on disk ([Export]): a private folder, the
//     slot, is moved from tree to tree by touching only what differs;
//   - what a commit consists of ([Repo.Hunks]): parts that can be applied one
//     by one, in memory, to give candidates between two commits
//     ([Diff.Apply]), and be divided down to single lines ([Diff.Split]).
//
// The user's work tree, index, HEAD and refs are only ever read. Objects come
// from one of two back ends behind one small interface: the go-git library,
// or a long-lived "git cat-file --batch" for the kinds of repository go-git
// cannot read (SHA-256, reftable, partial clones). Everything above that
// interface is written once.
//
// A [Repo] may be used by several goroutines; an [Export] belongs to one at a
// time and has its own handle on the objects.
package source
