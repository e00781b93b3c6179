// Package metrics reads numbers that programs print or leave behind: plain output
// by a regular expression ([Pattern]), nvbench's JSON ([NVBench]) and the
// CUTLASS profiler's CSV ([Cutlass]). Each source is one file with one function
// that returns [bisect.Series]; times are in seconds.
//
// The package must not know where the bytes came from.
package metrics
