// Package kernelbot reads the problems of KernelBot, the judge behind GPU MODE's
// leaderboards: a task.yml with the files that it names ([Task], [ReadTask]), the
// directives at the top of a submission ([ReadDirectives]) and lists of problems
// ([ParseProblems]).
//
// KernelBot is written in Python. Where YAML leaves room, this package does what
// PyYAML does, and test cases are written as Python's str prints them, so that a
// trial runs with the bytes that the server would send.
//
// The package must not know how a problem is built or run; package kernels makes a
// plan of it.
package kernelbot
