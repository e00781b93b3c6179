// Package protocol reads what a program under test says about itself: the lines of the
// trial protocol on KBISECT_FD ([Reader]), KernelBot's lines on POPCORN_FD ([Popcorn]),
// and what its output says about how it ended: Python exceptions ([PythonError]) and
// stacks ([PythonStack]), compiler errors ([BuildError]) and machine faults ([FindFault]).
//
// # The trial protocol
//
// One line is one fact, `key: value`:
//
//	phase: NAME             the program enters a phase
//	case: TEXT              the results that follow are of this case
//	sample: VALUE UNIT      one timing
//	metric NAME: VALUE UNIT one value of another metric
//	check: pass | fail WHY  the result was checked
//	skip: WHY, infra: WHY   the trial says nothing, or the machine is at fault
//	enter: NAME, leave: NAME  the probe's words: a span, nested inside the phase
//
// # Teardown
//
// No line announces that a program has finished. The teardown begins when the program
// closes its descriptor. Until then it is inferred: a program that has sent as much as a
// good trial did ([Shape]) is taken to be in teardown, and one more line revokes that.
//
// All readers take bytes that a hostile program may have written: every buffer is
// bounded, and malformed input is counted and never fatal. The package must not know
// how processes are started or what a kind of project is.
package protocol
