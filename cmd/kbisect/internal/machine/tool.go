package machine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc"
)

// Said is what a tool printed and how it ended.
type Said struct {
	Text string // standard output and standard error, at most the last 16 KiB
	Err  error  // nil if it exited with 0
}

// First is the first line of the output, where tools print their version.
func (s Said) First() string {
	line, _, _ := strings.Cut(strings.TrimSpace(s.Text), "\n")
	return strings.TrimSpace(line)
}

// Last are the last three lines of the output, where compilers and Python say what went wrong.
func (s Said) Last() string {
	lines := strings.Split(strings.TrimSpace(s.Text), "\n")
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-3):], "\n"))
}

// RunTool runs a program in dir, "" for the current folder, and returns the end of its output. At the limit its
// whole process tree is killed. It speaks English (LC_ALL=C), since its words are parsed, and takes no locks of
// git's.
func RunTool(ctx context.Context, limit time.Duration, dir string, argv ...string) Said {
	spec := proc.Spec{Argv: argv, Dir: dir, Env: append(os.Environ(), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "TMPDIR="+cmp.Or(dir, os.TempDir())), Limit: limit, Grace: -1, Tail: 16 << 10}
	r, err := proc.Run(ctx, spec)
	s := Said{Text: string(r.Tail), Err: err}
	name := filepath.Base(argv[0])
	switch {
	case err != nil:
	case r.Timeout != nil:
		s.Err = fmt.Errorf("%s did not end within %v", name, limit)
	case r.Canceled:
		s.Err = fmt.Errorf("%s was stopped: %w", name, context.Cause(ctx))
	case r.Signal != 0:
		s.Err = fmt.Errorf("%s was killed by signal %d (%v)", name, r.Signal, r.Signal)
	case r.Exit != 0:
		s.Err = fmt.Errorf("%s exited with %d: %s", name, r.Exit, s.Last())
	}
	return s
}

// VersionLine is the line of the output that begins with prefix or, failing that, the first.
func VersionLine(s Said, prefix string) string {
	for line := range strings.Lines(s.Text) {
		if prefix != "" && strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line)
		}
	}
	return s.First()
}

// FirstWord is the first word of s, or "". CC may hold more than a compiler, such as "ccache gcc".
func FirstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return ""
}

// TorchProbe is a Python program that prints the version of torch and what it sees.
const TorchProbe = `import torch
print("torch", torch.__version__, "for CUDA", torch.version.cuda or "none", "sees", torch.cuda.device_count(), "devices")`
