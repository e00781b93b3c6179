// Package cache keeps build outputs on disk, so that no candidate is built twice.
//
// A key is the identity of a build's inputs: a digest that the caller computes from what
// the build reads (sources, command, tool chain).
//
//	entries/ab/abcd...  one manifest per key: the files, their modes and digests
//	objects/12/1234...  file contents by SHA-256, each stored once
//	tmp/                files being written
//
// A manifest is written last, complete, by rename, so an interrupted [Cache.Put] leaves
// nothing that [Cache.Get] would return. Get copies and never links, because a
// candidate could write through a link, and verifies all that it is about to copy: an
// entry that is damaged in any way is a miss, and is removed.
//
// A [Cache] is a directory. It must not know how a build is made or what is in it.
// Processes may share a cache without a lock: [Cache.Trim] removes the least recently used
// files, and an entry of which it has removed something is a miss.
package cache
