package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc"
)

// Said is what a tool wrote and how it ended.
type Said struct {
	Text string
	Err  error // nil when it exited with 0
}

// First is the first line.
func (s Said) First() string {
	line, _, _ := strings.Cut(strings.TrimSpace(s.Text), "\n")
	return strings.TrimSpace(line)
}

// Last is the end of the text, where compilers and Python say what went wrong.
func (s Said) Last() string {
	lines := strings.Split(strings.TrimSpace(s.Text), "\n")
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-3):], "\n"))
}

// RunTool runs one program and kills all of it when its time is up.
func RunTool(ctx context.Context, limit time.Duration, dir string, argv ...string) Said {
	spec := proc.Spec{Argv: argv, Dir: dir, Env: append(os.Environ(), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0"), Limit: limit, Grace: -1, Tail: 16 << 10}
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
		s.Err = fmt.Errorf("%s was ended by signal %d (%v)", name, r.Signal, r.Signal)
	case r.Exit != 0:
		s.Err = fmt.Errorf("%s exited with %d: %s", name, r.Exit, s.Last())
	}
	return s
}

func VersionLine(s Said, prefix string) string {
	for line := range strings.Lines(s.Text) {
		if prefix != "" && strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line)
		}
	}
	return s.First()
}

func FirstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return ""
}

const TorchProbe = `import torch
print("torch", torch.__version__, "for CUDA", torch.version.cuda or "none", "sees", torch.cuda.device_count(), "devices")`
