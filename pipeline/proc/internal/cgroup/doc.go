// Package cgroup holds process trees in control groups of version 2, where the
// system delegates them to this process: a [Group] kills, freezes, limits and
// counts all processes in it in one stroke, which no fork outruns. It also reads
// how often the kernel killed for memory, in either version.
//
// Everything is optional: without control groups Make returns nil, and the methods
// of a nil *Group do nothing. The package must not know what a trial is. Linux only.
package cgroup
