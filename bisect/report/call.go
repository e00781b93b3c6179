package report

import (
	"slices"
	"strings"
)

// Call is how further commands are called so that they mean the same repository and the same candidates.
type Call struct {
	global []string // -C and --config
	base   []string // --base
	trial  []string // how candidates are built and run, with the command behind --
}

// NewCall reads it from command lines: that of this process, and that by which the launches were made.
func NewCall(now, then []string) Call {
	c := Call{
		global: append(options(now, "C"), options(then, "config")...),
		base:   options(then, "base"),
		trial:  options(then, "build", "output", "path", "keep", "in-worktree", "sandbox", "executor", "limit", "better", "as"),
	}
	if i := slices.Index(then, "--"); i >= 0 {
		c.trial = append(c.trial, then[i:]...)
	}
	return c
}

// options are those of a command line that have one of these names, with their values.
func options(args []string, names ...string) (out []string) {
	for i := 1; i < len(args) && args[i] != "--"; i++ {
		name, _, given := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") || !slices.Contains(names, name) {
			continue
		}
		out = append(out, args[i])
		if i+1 < len(args) && !given && name != "in-worktree" && name != "sandbox" {
			i++
			out = append(out, args[i])
		}
	}
	return out
}

// Base is the base that a gate was given.
func (c Call) Base() []string { return c.base }

// Line are the words of a command of kbisect.
func (c Call) Line(args ...string) []string {
	return slices.Concat([]string{"kbisect"}, c.global, args)
}

// Again is one that launches candidates as before.
func (c Call) Again(args ...string) []string { return c.Line(append(args, c.trial...)...) }
