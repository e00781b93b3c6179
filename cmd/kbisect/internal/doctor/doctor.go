// Package doctor checks what a search needs on this machine and in this repository, and
// prints a table of what works, what does not, and what to do about it ([Run]). Checks
// know nothing of one another and each has its own limit, since drivers may hang.
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

const (
	StateOK      state = "ok"
	stateMissing state = "missing" // not there, which matters only where it is needed
	StateProblem state = "problem" // there and broken
)

// Finding is the result of one check. Found may have several lines.
type Finding struct {
	State state
	Found string
	Hint  string // what a person can do; "" where there is nothing to do
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

// check is one line of the table. Checks know nothing of one another and may
// run at the same time; each has its own limit.
type check struct {
	name   string
	needed bool // without it the configured kind of project cannot be searched
	limit  time.Duration
	run    func(ctx context.Context) Finding
}

// Run checks the machine and the repository in dir, with its kbisect.toml unless
// configFile names another file, and writes a table of findings with hints. ok is
// false only where something is missing or broken that the configured kind of
// project needs.
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
	for i, f := range examine(ctx, checks) {
		f := f()
		if f.State == stateMissing && !checks[i].needed {
			f.Hint = "" // there is no need to install it
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

// Findings runs only the named checks, for the project in dir.
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

// examine runs the checks a few at a time and returns, in their order,
// functions that wait for each finding.
func examine(ctx context.Context, checks []check) []func() Finding {
	// Few at a time: compilers and Python started all at once would time each other out on a small machine.
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

// bounded gives a check its limit, and does not wait for one that ignores it: a
// driver may hang inside the kernel.
func (c check) bounded(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	answer := make(chan Finding, 1)
	go func() { answer <- c.run(ctx) }()
	late := broken(fmt.Sprintf("no answer within %v", c.limit), "")
	select {
	case f := <-answer:
		return f
	case <-ctx.Done():
	}
	select { // a check that notices the end of its time says more
	case f := <-answer:
		return f
	case <-time.After(15 * time.Second):
		return late
	}
}

// print writes one line of the table, and more for more lines found.
func (f Finding) print(out io.Writer, name string, width int) {
	indent := strings.Repeat(" ", width+11)
	found := strings.ReplaceAll(strings.TrimRight(f.Found, "\n"), "\n", "\n"+indent)
	fmt.Fprintf(out, "%-7s  %-*s  %s\n", f.State, width, name, found)
	if f.Hint != "" {
		fmt.Fprintf(out, "%shint: %s\n", indent, strings.ReplaceAll(f.Hint, "\n", "\n"+indent))
	}
}
