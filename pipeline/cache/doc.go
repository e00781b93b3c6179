// Package cache keeps build outputs on disk, so that no candidate is built twice.
//
// Two identities are kept apart, as in the Go command's own cache. A key is the input
// identity: a digest that the caller computes from what the build reads (sources,
// command, tool chain). The digest of an [Entry] is the output identity: two keys
// whose builds gave the same bytes have the same one.
//
//	lock                shared by readers and writers, exclusive for Trim
//	entries/ab/abcd...  one manifest per key: the files, their modes and digests
//	objects/12/1234...  file contents by SHA-256, each stored once
//	tmp/                files being written
//
// A manifest is written last, complete, by rename, so an interrupted [Cache.Put] leaves
// nothing that [Cache.Get] would return. Get copies and never links, because a
// candidate could write through a link, and verifies every byte it copies: an
// entry that is damaged in any way is a miss, and is removed.
//
// A [Cache] is a directory. It must not know how a build is made or what is in it.
// Processes may share a cache; the lock file keeps Trim from removing an object that a
// manifest about to be written needs.
package cache
