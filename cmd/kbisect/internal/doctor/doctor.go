// Package doctor checks what a search needs on this machine and in this repository, and prints a table of what
// works, what does not, and what to do about it ([Run]); [Executor] does so for a cluster. A check yields a
// [Finding]. Checks know nothing of one another, and each has its own time limit, since drivers may hang. Nothing
// here changes the machine or the repository, and nothing here knows of searches or the results of trials.
package doctor

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect/hint"
)

// state is the result of a check.
type state string

// The states. StateProblem always asks for a repair; whether stateMissing matters depends on the project.
const (
	StateOK      state = "ok"
	stateMissing state = "missing" // not there, which matters only if it is needed
	StateProblem state = "problem" // there and broken
)

// Finding is the result of one check. Found is for people and may have several lines.
type Finding struct {
	State state
	Found string
	Hint  string // what a person can do; "" if there is nothing to do
}

// passed is a finding that all is well.
func passed(format string, args ...any) Finding {
	return Finding{State: StateOK, Found: fmt.Sprintf(format, args...)}
}

// missing is a finding that something is not there, with what to do.
func missing(found, hint string) Finding { return Finding{stateMissing, found, hint} }

// broken is a finding that something is broken, with what to do about it.
func broken(found, hint string) Finding { return Finding{StateProblem, found, hint} }

// problemOf turns an error and its hint into a finding.
func problemOf(err error) Finding {
	return broken(hint.Split(err))
}

// check is one line of the table. Checks run at the same time and must not depend on each other.
type check struct {
	name   string
	needed bool          // the configured project cannot be searched unless it is StateOK
	limit  time.Duration // before it counts as hanging
	run    func(ctx context.Context) Finding
}

// Run checks the machine and the repository in dir, with its kbisect.toml unless configFile names another file, and
// writes a table of findings with hints to out. Each line is written as soon as its check and all before it have
// ended. ok is false only if something that the configured project needs is missing or broken.
func Run(ctx context.Context, out io.Writer, version, dir, configFile string) (ok bool) {
	s := open(dir, configFile)
	defer s.close()
	fmt.Fprintf(out, "kbisect %s checks %s\n\n", version, s.dir)
	s.waitForDriver(ctx)
	checks := s.checks()
	width := 0
	for _, c := range checks {
		width = max(width, len(c.name))
	}
	var stopping []string
	for i, finding := range examine(ctx, checks) {
		f := finding()
		if f.State == stateMissing && !checks[i].needed {
			f.Hint = "" // the hint says how to install what this project does not use
		}
		f.print(out, checks[i].name, width)
		if checks[i].needed && f.State != StateOK {
			stopping = append(stopping, checks[i].name)
		}
	}
	if len(stopping) > 0 {
		fmt.Fprintf(out, "\nNot ready for a search here%s: fix %s.\n", s.kind(), strings.Join(stopping, ", "))
		return false
	}
	fmt.Fprintf(out, "\nReady for a search here%s; nothing that is missing is needed.\n", s.kind())
	return true
}

// Findings runs only the named checks, one after the other, for the project in dir, and returns their findings by name.
// Unknown names are left out. It is for commands that need to know whether some tool works here.
func Findings(ctx context.Context, dir string, names []string) map[string]Finding {
	s := open(dir, "")
	defer s.close()
	s.waitForDriver(ctx)
	out := map[string]Finding{}
	for _, c := range s.checks() {
		if slices.Contains(names, c.name) {
			out[c.name] = c.bounded(ctx)
		}
	}
	return out
}

// examine starts the checks, three at a time, and returns functions, in the order of the checks, that wait for a
// finding. Compilers and Python started all at once would time each other out on a small machine. Asking for a
// finding whose check waits for its turn runs it at once.
func examine(ctx context.Context, checks []check) []func() Finding {
	slots := make(chan struct{}, 3)
	out := make([]func() Finding, len(checks))
	for i, c := range checks {
		out[i] = sync.OnceValue(func() Finding { return c.bounded(ctx) })
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i]()
		}()
	}
	return out
}

// bounded runs a check within its limit. A check that notices the end of its context can say more than "no answer"
// and gets 15 s for that; one that hangs inside the kernel, as a driver may, is left behind with its goroutine.
func (c check) bounded(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	answer := make(chan Finding, 1)
	go func() { answer <- c.run(ctx) }()
	select {
	case f := <-answer:
		return f
	case <-ctx.Done():
	}
	select {
	case f := <-answer:
		return f
	case <-time.After(15 * time.Second):
		return broken(fmt.Sprintf("no answer within %v", c.limit), "")
	}
}

// print writes one line of the table, and indents further lines of Found and Hint below it. width is that of the
// names.
func (f Finding) print(out io.Writer, name string, width int) {
	indent := strings.Repeat(" ", width+11)
	found := strings.ReplaceAll(strings.TrimRight(f.Found, "\n"), "\n", "\n"+indent)
	fmt.Fprintf(out, "%-7s  %-*s  %s\n", f.State, width, name, found)
	if f.Hint != "" {
		fmt.Fprintf(out, "%shint: %s\n", indent, strings.ReplaceAll(f.Hint, "\n", "\n"+indent))
	}
}
