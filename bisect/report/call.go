package report

import (
	"slices"
	"strings"
)

// Call is how the commands that a report suggests are called, so that they mean the same repository and the same
// candidates. The zero value adds nothing.
type Call struct {
	global       []string // -C and --config
	base, metric []string // --base and --metric
	trial        []string // how candidates are built and run, with the command behind --
}

// NewCall reads it from two command lines, each with the name of the program first: now is that of this process, then
// that by which the launches were made. Where a report is read from the store they differ: the repository is where it
// is now, the candidates are built as they were then.
func NewCall(now, then []string) Call {
	c := Call{
		global: append(options(now, "C"), options(then, "config")...),
		base:   options(then, "base"), metric: options(then, "metric"),
		trial: options(then, "build", "output", "path", "keep", "in-worktree", "sandbox", "executor", "limit", "better", "as"),
	}
	if i := slices.Index(then, "--"); i >= 0 {
		c.trial = append(c.trial, then[i:]...)
	}
	return c
}

// options are those of a command line, up to "--", that have one of these names, with their values. It must know which
// of the names take none.
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

// Base is the option by which a gate was given its base; nil without one.
func (c Call) Base() []string { return c.base }

// Line is a command of kbisect on the same repository, as a list of words.
func (c Call) Line(args ...string) []string {
	return slices.Concat([]string{"kbisect"}, c.global, args)
}

// Again is a command of kbisect that builds and launches candidates as before.
func (c Call) Again(args ...string) []string { return c.Line(append(args, c.trial...)...) }
