// Package warden is the supervising process of trials, one at a time: kbisect's executable,
// started again through /proc/self/exe, which starts the program under test (the
// leader), watches its process tree, and ends it on command or when kbisect is
// gone. When nothing is left of a tree it takes the next one; in a sandbox, whose first process it is, there is none.
// [Main] is its main function; an [Order] says what to start, a [Command] what to do with the tree, and a [Report] what
// happened.
//
// Inside, supervisor follows the messages, tree lists, reaps and kills what is
// below the warden, pause stops and continues it, and [Sandbox] is what the leader
// finds where it may not reach all that the user may. The package must not know
// limits, phases or the protocol of trials: those are kbisect's side, package
// proc. It alone sets SysProcAttr for programs under test. Linux only.
package warden
