// Package cache keeps build outputs on disk, so that no candidate is built twice.
//
// A key is the identity of a build's inputs: a digest that the caller computes from what
// the build reads (sources, command, tool chain).
//
//	kept/ab/abcd...  one build per key: a tar of its outputs, and the SHA-256 of that
//	tmp/             files being written
//
// A build is renamed into its place once it is complete, so an interrupted [Cache.Put] leaves
// nothing that [Cache.Get] would return. Get copies and never links, because a
// candidate could write through a link, and verifies all that it is about to copy: an
// entry that is damaged in any way is a miss, and is removed.
//
// A [Cache] is a directory. It must not know how a build is made or what is in it.
// Processes may share a cache.
package cache
