// Package ps lists and signals processes as /proc shows them. A [Process] is a snapshot: by the time it is used the
// process may have ended and its number may be another's, which [Process.Signal] checks. A [Population] is a changing
// set of processes that is stopped or killed as a whole. The package knows neither trials nor control groups. Linux
// only.
package ps
