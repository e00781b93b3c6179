package trial

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline/prestart"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Probe is when the probe for Python goes with a trial. It reports the import of the submission, the build of
// extensions, compilations and graph capture as phases, and costs time.
type Probe string

// The settings. Without one, the probe goes with Python programs whose times are not compared.
const (
	ProbeOn  Probe = "on"
	ProbeOff Probe = "off"
)

// goesWith reports whether the probe goes with a launch of a command below dir. unprobed is true for a Python
// program that the probe leaves alone because its times count.
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
	f, err := os.Open(below(dir, argv[0]))
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	words, ok := strings.CutPrefix(line, "#!")
	return err == nil && ok && strings.Contains(words, "python")
}

// below is the path of a file that a command in dir names.
func below(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// Mentions reports that the program of an order, in a workspace that holds its candidate, is a Python script, the whole
// trial, that holds one of some words.
func Mentions(w *workspace.Workspace, o Order, words ...string) bool {
	stages := o.Recipe.Stages(o.Request.Candidate)
	if len(stages) != 1 {
		return false
	}
	x := newProcess(w, o, stages[0], 0)
	if at, _ := kernels.Script(x.argv); x.imports() {
		text, err := os.ReadFile(below(o.Recipe.WorkDir(w), x.argv[at]))
		return err == nil && slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(text, []byte(word)) })
	}
	return false
}

// imports reports whether a process can tell what others of its program will import: a Python program that is the
// whole trial.
func (x *process) imports() bool {
	return x.order.Prestart != nil && !x.plain && x.alone && !x.w.Sandboxed() && IsPython(x.order.Recipe.WorkDir(x.w), x.argv)
}

// suits reports whether a process may be started early: nothing depends on how long it takes to start, and it is not
// to fail, which it would have to do again without; or no time counts from before the program's own phases.
func (x *process) suits() bool {
	p, r := x.order.Recipe, x.order.Request
	counted := slices.ContainsFunc(p.Sources, func(s Source) bool { return s.From == "cpu" || s.From == metrics.Instructions })
	return (r.AnyStart && r.Purpose != bisect.ConfirmCulprit && r.Purpose != bisect.EndBad || r.Timing && !x.order.Reference.StartCounts(p) && !x.probed && !counted) && x.imports()
}

// early reports whether a process may start early: it says when it has loaded, or no time is compared but what it prints.
func early(x *process) bool {
	g := x.order.Reference
	return x.suits() && (x.protocol.Base == "load" || g.Speaks != nil && (x.order.Request.AnyStart || g.Longest > 0))
}

// proves reports that a process is the first one of its side of a proof: it is awaited, and started early only to fill caches.
func (x *process) proves() bool {
	r := x.order.Request
	return (r.Purpose == bisect.ConfirmCulprit || r.Purpose == bisect.ConfirmParent) && r.Nth == 0 && x.w.Caches.Warmed != r.Candidate
}

// leaves reports whether a process that has sent its last line may tear down beside the next one: only its times
// count, and they come by the protocol alone.
func (x *process) leaves() bool {
	p, r := x.order.Recipe, x.order.Request
	return x.order.Prestart != nil && x.order.Prestart.Leaves() && r.Timing && !x.proves() && !x.order.Reference.StartCounts(p) && !x.probed &&
		x.alone && !x.plain && len(p.Patterns)+len(p.Sources) == 0 && !x.w.Sandboxed()
}

// runBy runs the program with run. If the process may tear down later, it returns as soon as the last line has
// come: the pool then owns the process, and the result has only its time so far.
func (x *process) runBy(ctx context.Context, spec proc.Spec, run func(context.Context, proc.Spec) (proc.Result, error)) (proc.Result, error) {
	if !x.leaves() {
		return x.w.RunBy(ctx, spec, run)
	}
	x.said = make(chan struct{})
	return x.w.RunBy(ctx, spec, func(ctx context.Context, spec proc.Spec) (proc.Result, error) {
		leaver := prestart.NewLeaver(x.w, &spec)
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, cancel)
		gone := make(chan struct{})
		var res proc.Result
		var err error
		go func() {
			defer close(gone)
			defer cancel()
			res, err = run(own, spec)
		}()
		select {
		case <-gone:
			stop()
			return res, err
		case <-x.said:
		}
		if !stop() || !x.order.Prestart.Leaves() { // ctx has ended, or none may be left any more
			<-gone
			return res, err
		}
		x.left = true
		x.order.Prestart.Leave(leaver, cancel, func() bool {
			<-gone
			well := err == nil && res.Exit == 0 && res.Timeout == nil && res.Leftover == 0 && !x.more
			if !well && !res.Canceled {
				x.order.Recipe.Log.Debug("a process ended badly that tore down beside the next one", "err", err, "exit", res.Exit,
					"signal", res.Signal, "left", res.Leftover, "limit", res.Timeout != nil, "sent more", x.more)
			}
			return well
		})
		return proc.Result{Wall: x.entered}, nil
	})
}

// start runs the program of a launch: in a process that waits for it, or else in a new one. If it suits, others are
// started for the launches that follow in the same workspace.
func (x *process) start(ctx context.Context, spec proc.Spec) (proc.Result, error) {
	r, pool := x.order.Request, x.order.Prestart
	learns := x.imports() && pool.Wants(r)
	if !learns && !x.order.Searched && early(x) && pool.Means(x.w, r.Candidate) {
		x.report("load", x.bounds.inForce("load"))
		k := prestart.Kind{W: x.w, Why: r.Purpose, Spec: spec, Used: !x.proves()}
		if OnlyBetween(x.order) {
			x.waiter = prestart.Between(ctx, pool, k, x.order.Reference.Longest)
		} else {
			if k.Used || x.w.Expects {
				x.waiter = pool.Take(ctx, x.w, spec)
			}
			go pool.Fill(!k.Used, k)
		}
	}
	x.report(spec.Phase, spec.PhaseLimit)
	x.timed(spec.Phase)
	switch {
	case learns:
		return pool.Learn(ctx, x.w, r.Purpose, spec)
	case x.waiter == nil:
		return x.runBy(ctx, spec, proc.Run)
	}
	return x.runBy(ctx, spec, func(ctx context.Context, spec proc.Spec) (proc.Result, error) {
		res, ok, err := x.waiter.Run(ctx, spec)
		if !ok {
			x.waiter = nil
			return proc.Run(ctx, spec)
		}
		return res, err
	})
}

// OnlyBetween reports that every moment of a launch may be timed, as its program says nothing: none may import beside it.
func OnlyBetween(o Order) bool {
	return o.Request.Timing && o.Reference.Speaks != nil && !*o.Reference.Speaks
}

// Expected is the kind of a launch to come in a workspace, for [prestart.Pool.Fill]. ok is false if its process may not start
// early: because the plan has several stages, of which the first alone would be known, or because its times count from
// the start of the process.
func Expected(w *workspace.Workspace, o Order) (k prestart.Kind, ok bool) {
	stages := o.Recipe.Stages(o.Request.Candidate)
	if len(stages) != 1 {
		return k, false
	}
	x := newProcess(w, o, stages[0], 0)
	spec, err := x.spec()
	return prestart.Kind{W: w, Why: o.Request.Purpose, Spec: spec}, err == nil && early(x)
}
