// Package metrics reads numbers that programs print or leave behind: plain output by a
// regular expression ([Pattern]), the reports of benchmark tools in one of the formats
// that [Sources] lists, and what the kernel counted ([Read]). Results are [bisect.Series],
// with times in seconds.
//
// Adding a source takes one file with its reader and one line in Sources. The
// configuration and the trials take names and requirements from there.
//
// The package must not know when a program runs or how its results decide a search.
package metrics
