package trial

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Probe is when the probe for Python goes with a trial: it names the import of the submission,
// the build of extensions, compilations and graph capture as phases.
type Probe string

// The settings. Without one, the probe goes with Python programs whose times are not compared.
const (
	ProbeOn  Probe = "on"
	ProbeOff Probe = "off"
)

// goesWith reports whether the probe goes with a launch of a command below dir. Unprobed is true of a Python
// program that the probe leaves alone because of its times.
func (x Probe) goesWith(r bisect.Request, dir string, argv []string) (probed, unprobed bool) {
	if x != "" {
		return x == ProbeOn, false
	}
	python := IsPython(dir, argv)
	return python && !r.Timing, python && r.Timing
}

// IsPython reports whether a command is Python, by its name or by its #! line.
func IsPython(dir string, argv []string) bool {
	if proc.PythonName(filepath.Base(argv[0])) {
		return true
	}
	path := argv[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	words, ok := strings.CutPrefix(line, "#!")
	return err == nil && ok && strings.Contains(words, "python")
}

// Early starts the interpreters of Python programs before their turn: what a process of the good end has imported from
// outside the repository is imported beside the launches before, where no times are taken, and the program begins at its
// turn, in a fresh process as ever. What proves an answer is started as a user would start it.
//
// A process is bound to a workspace, where it finds its caches; what is imported must mean the same in the candidate; and
// a launch that does not end well counts only if one that was started in the ordinary way ends alike.
type Early struct {
	ctx  context.Context
	dir  string // for the module and the lists
	list string // names of modules, a line each; "": not known yet

	mu      sync.Mutex
	top     map[string]bool               // packages and modules that are imported
	good    map[string]bool               // paths of the good end that are named like these
	fits    map[bisect.Candidate]bool     // of those looked at
	doubts  map[*workspace.Workspace]bool // in which nothing is started early any more
	waiting []*waiter                     // oldest first
	started int
	frozen  bool
	closed  bool
}

// waiter is a process that was started early and waits for its turn.
type waiter struct {
	w    *workspace.Workspace
	spec proc.Spec
	held *proc.Held
	file string // which it makes when it has imported all
}

const (
	earlyEach  = 2   // processes that wait in a workspace
	earlyMost  = 6   // and in all of them
	earlyLeast = 200 // modules below which an import is over so soon that nothing is gained
)

// NewEarly prepares for early starts until ctx is done; dir is for files of its own.
func NewEarly(ctx context.Context, dir string) *Early {
	return &Early{ctx: ctx, dir: dir, fits: map[bisect.Candidate]bool{}, doubts: map[*workspace.Workspace]bool{}}
}

// suits reports whether a process may be started early, or tell what others import: a Python program of which no time
// before its own counts.
func (e *Early) suits(x *process) bool {
	r, p := x.order.Request, x.order.Recipe
	if e == nil || !r.Timing || p.WholeTimed || x.probed || x.plain || !x.alone || x.w.Sandboxed() {
		return false
	}
	counted := slices.ContainsFunc(p.Sources, func(s Source) bool { return s.From == "cpu" || s.From == metrics.Instructions })
	return !counted && IsPython(p.WorkDir(x.w), x.argv)
}

// run runs a process of a launch: one that waits for it, or else a new one. Where it suits, others are started for the
// launches that follow in the same workspace.
func (e *Early) run(ctx context.Context, x *process, spec proc.Spec) (proc.Result, error) {
	r := x.order.Request
	if !e.suits(x) || kernels.WriteEarly(e.dir) != nil {
		return x.w.Run(ctx, spec)
	}
	if e.list == "" {
		return e.learn(ctx, x, spec)
	}
	if x.protocol.Base != "load" || r.Purpose == bisect.ConfirmCulprit || r.Purpose == bisect.ConfirmParent || !e.means(x.w, r.Candidate) {
		return x.w.Run(ctx, spec)
	}
	x.early = e.take(x.w, spec)
	go e.fill(x.w, spec)
	if x.early == nil {
		return x.w.Run(ctx, spec)
	}
	return x.w.RunBy(ctx, spec, func(ctx context.Context, spec proc.Spec) (proc.Result, error) {
		res, ok, err := x.early.held.Run(ctx, spec, kernels.EarlyWord(x.early.spec.Env, spec.Env))
		if !ok {
			x.early = nil
			return proc.Run(ctx, spec)
		}
		return res, err
	})
}

// learn runs a process that tells what it has imported, if it is of the good end and ends well.
func (e *Early) learn(ctx context.Context, x *process, spec proc.Spec) (proc.Result, error) {
	if x.order.Request.Purpose != bisect.EndGood {
		return x.w.Run(ctx, spec)
	}
	list := filepath.Join(e.dir, "modules")
	told := spec
	told.Env = append(kernels.ProbeEnv(spec.Env, e.dir), kernels.LearnModules+"="+list, kernels.OutsideOf+"="+filepath.Dir(x.w.Folder))
	res, err := x.w.Run(ctx, told)
	text, no := os.ReadFile(list)
	names := strings.Fields(string(text))
	if err != nil || res.Exit != 0 || no != nil || len(names) < earlyLeast {
		return res, err
	}
	e.top = map[string]bool{}
	for _, name := range names {
		top, _, _ := strings.Cut(name, ".")
		e.top[top] = true
	}
	e.good, e.list = e.named(x.w), list
	go e.fill(x.w, spec)
	return res, nil
}

// named lists the files and folders of an export that are named like what is imported.
func (e *Early) named(w *workspace.Workspace) map[string]bool {
	out := map[string]bool{}
	_ = filepath.WalkDir(w.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && e.top[strings.TrimSuffix(d.Name(), filepath.Ext(path))] {
			out[strings.TrimPrefix(path, w.Dir)] = true
		}
		return nil
	})
	return out
}

// means reports whether what is imported means the same in a candidate: it has nothing of these names that the good end
// does not have.
func (e *Early) means(w *workspace.Workspace, c bisect.Candidate) bool {
	fits, known := e.fits[c]
	if !known {
		fits = true
		for path := range e.named(w) {
			fits = fits && e.good[path]
		}
		e.fits[c] = fits
	}
	return fits
}

// doubt takes in that only a launch which was started early failed: in its workspace nothing is started early from now on.
func (e *Early) doubt(w *workspace.Workspace) {
	e.mu.Lock()
	e.doubts[w] = true
	e.mu.Unlock()
	here := func(x *waiter) bool { return x.w == w }
	for x := e.remove(here); x != nil; x = e.remove(here) {
		x.held.Close()
	}
}

// own are the variables that tell one launch from another; all others are the same in a process that waits.
func own(v string) bool {
	return strings.HasPrefix(v, "KBISECT_COMMIT=") || strings.HasPrefix(v, "KBISECT_PURPOSE=")
}

// take is a process that waits for a launch, or nil: one that still imports may never come to an end of it. Those that were
// started for another launch are ended.
func (e *Early) take(w *workspace.Workspace, spec proc.Spec) *waiter {
	common := func(env []string) []string { return slices.DeleteFunc(slices.Clone(env), own) }
	for {
		x := e.remove(func(x *waiter) bool {
			_, importing := os.Stat(x.file)
			return x.w == w && importing == nil
		})
		switch {
		case x == nil:
			return nil
		case x.spec.Dir == spec.Dir && slices.Equal(x.spec.Argv, spec.Argv) && slices.Equal(common(x.spec.Env), common(spec.Env)) && (x.spec.OnOutput == nil) == (spec.OnOutput == nil):
			return x
		}
		x.held.Close()
	}
}

// remove takes out the oldest that is matched, nil where there is none.
func (e *Early) remove(match func(*waiter) bool) *waiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.waiting, match)
	if i < 0 {
		return nil
	}
	x := e.waiting[i]
	e.waiting = slices.Delete(e.waiting, i, i+1)
	return x
}

// fill starts processes for the launches that follow in a workspace, as long as a tenth of the memory stays free.
func (e *Early) fill(w *workspace.Workspace, spec proc.Spec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = slices.DeleteFunc(e.waiting, func(x *waiter) bool { return x.held.Gone() })
	here := 0
	for _, x := range e.waiting {
		if x.w == w {
			here++
		}
	}
	ahead := spec
	ahead.Watch, ahead.Closed = nil, nil
	if spec.OnOutput != nil {
		ahead.OnOutput = func(int, string, time.Duration) {}
	}
	env := append(kernels.ProbeEnv(spec.Env, e.dir), kernels.EarlyModules+"="+e.list)
	for ; here < earlyEach && !e.closed && e.ctx.Err() == nil && !e.doubts[w]; here++ {
		if free, all := proc.Available(); free < all/10+1<<30 {
			return
		}
		if len(e.waiting) == earlyMost {
			oldest := e.waiting[0]
			e.waiting = slices.Delete(e.waiting, 0, 1)
			go oldest.held.Close()
		}
		ready := filepath.Join(e.dir, fmt.Sprint("ready-", e.started))
		ahead.Env = append(slices.Clip(env), kernels.EarlyReady+"="+ready)
		held, err := w.Start(e.ctx, ahead, e.started)
		if err != nil {
			return
		}
		e.started++
		if e.frozen {
			held.Freeze(true)
		}
		e.waiting = append(e.waiting, &waiter{w, spec, held, ready})
	}
}

// Freeze brings all that wait to a halt while times are taken, or lets them go on.
func (e *Early) Freeze(on bool) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frozen = on
	for _, x := range e.waiting {
		x.held.Freeze(on)
	}
}

// Close ends all that wait.
func (e *Early) Close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.waiting {
		x.held.Close()
	}
	e.waiting, e.closed = nil, true
}
