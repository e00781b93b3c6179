// Package self keeps this process going when a program under test, which belongs to the same user, turns on it: an
// [Alarm] continues it when it was stopped, [Limits] are raised again when they were lowered, [Close] refuses what can be
// refused, and [OnStop] tells Ctrl-Z from SIGSTOP. It serves kbisect and its wardens alike, and must not know trials.
// Linux only.
package self
