// Package protocol reads what a program under test says about itself: the lines
// of the trial protocol on KBISECT_FD ([Reader]), KernelBot's lines on POPCORN_FD
// ([Popcorn]), and what its output says about how it ended: Python's exceptions
// and stacks, compilers that gave up, and faults of the machine ([Trouble]).
//
// Everything here is a pure reader of bytes that a hostile program may have
// written: every buffer is bounded, malformed input is counted and never fatal.
// The package must not know how processes are started or what a kind of project is.
package protocol
