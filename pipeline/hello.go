package pipeline

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/proc"
)

const (
	helloCompile = 2 * time.Minute
	helloRun     = 30 * time.Second // a cold torch takes ten
)

// hello is a known-good program on this machine, compiled once. It runs before the first trial and
// after every trial whose end might be the machine's doing.
type hello struct {
	kernels.Hello
	dir    string
	env    []string
	cookie string
	worked bool // it has been seen to work here
}

// newHello takes the best known-good program that this machine can compile: on the device if there
// is one to test. It returns nil where there is none.
func newHello(ctx context.Context, dir, cookie string, env []string, device bool) (*hello, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, &bisect.InfraError{What: "making a known-good program", Err: err}
	}
	for _, k := range kernels.Hellos() {
		if k.Device && !device {
			continue
		}
		h := &hello{Hello: k, dir: dir, env: env, cookie: cookie}
		ok, err := h.compile(ctx)
		if ok || err != nil {
			return h, err
		}
	}
	return nil, nil
}

// compile reports whether the tool of h is there and works.
func (h *hello) compile(ctx context.Context) (bool, error) {
	argv := h.Compile
	if len(argv) == 0 {
		argv = []string{h.Hello.Run[0], "-c", "import torch"}
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return false, nil
	}
	if err := os.WriteFile(filepath.Join(h.dir, h.File), h.Text, 0o666); err != nil {
		return false, &bisect.InfraError{What: "making a known-good program", Err: err}
	}
	res, err := h.run(ctx, argv, helloCompile)
	return err == nil && res.Exit == 0, err
}

func (h *hello) run(ctx context.Context, argv []string, limit time.Duration) (proc.Result, error) {
	res, err := proc.Run(ctx, proc.Spec{Argv: argv, Dir: h.dir, Env: h.env, Limit: limit, Cookie: h.cookie})
	if err == nil && res.Canceled {
		return res, context.Cause(ctx)
	}
	if err != nil {
		err = &bisect.InfraError{What: "running a known-good program in " + h.dir, Err: err}
	}
	return res, err
}

// fails says in which way the known-good program does not work, or "".
func (h *hello) fails(ctx context.Context) (why string, err error) {
	if h == nil {
		return "", nil
	}
	res, err := h.run(ctx, h.Hello.Run, helloRun)
	said := strings.TrimSpace(string(res.Tail))
	switch {
	case err != nil:
		return "", err
	case res.Timeout != nil:
		return fmt.Sprintf("a known-good program (%s) hangs", h.Name), nil
	case res.Exit != 0 || said != kernels.HelloWord:
		return fmt.Sprintf("a known-good program (%s) fails: %s%s", h.Name, ended(res), lastWords(res.Tail)), nil
	}
	h.worked = true
	return "", nil
}
