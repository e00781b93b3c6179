package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Inspection is a candidate in its workspace, built, while [Pipeline.Inspect] keeps everything else away from it.
type Inspection struct {
	w         *workspace.Workspace
	request   bisect.Request
	recipe    trial.Recipe
	reference trial.Reference
	devices   []*gpu.Watch
	report    func(doing string, limit time.Duration)
}

// Wrapped says how the program of a candidate is run under a tool, such as a profiler.
type Wrapped struct {
	Wrap   []string                    // the command of the tool, in front of the program's
	Env    func(env []string) []string // changes the environment of a trial; may be nil
	Name   string                      // of the log that keeps its output
	Limit  time.Duration               // of the whole process tree
	Output func(line string)           // takes every line; may be nil
}

// Inspect prepares the workspace of a request as for a trial, and lets look read what was built there and run it under
// tools. It stops builds ahead meanwhile. The outcome is that of the build; it has a class if the candidate could not
// be exported or built, and look is not called then. The error is that of look, or the machine's.
func (p *Pipeline) Inspect(ctx context.Context, r bisect.Request, look func(*Inspection) error) (bisect.Outcome, error) {
	_, end := p.ahead.Solo()
	defer end()
	r.Timing = true // the workspace of its timed launches has the caches that they filled
	w, err := p.workspaces.get(r)
	if err != nil {
		return bisect.Outcome{}, err
	}
	w, o, err := p.build(ctx, w, r)
	if err != nil || o.Class != "" {
		return o, err
	}
	in := Inspection{w: w, request: r, recipe: p.Config.Recipe, reference: p.reference, devices: p.Config.Devices, report: p.Config.report(r)}
	return o, look(&in)
}

// Python reports whether the candidate's program is Python.
func (i *Inspection) Python() bool { return trial.IsPython(i.recipe.WorkDir(i.w), i.argv()) }

// stage is the process that is examined: the last one of a trial, which measures.
func (i *Inspection) stage() kernels.Stage {
	all := i.recipe.Stages(i.request.Candidate)
	return all[len(all)-1]
}

// argv is the command of that process. Its warnings are dropped, as the trials of the candidate have reported them.
func (i *Inspection) argv() []string {
	argv, _ := i.recipe.Argv(i.w, i.stage().Run)
	return argv
}

// Run runs the candidate's program once, wrapped, with the environment of a trial and the caches that the last one
// left. When it returns, the process tree is gone and the devices are clear, as far as they clear in time. How the
// program ended is in the result; an error is the machine's, or says that the tool cannot be started.
func (i *Inspection) Run(ctx context.Context, w Wrapped) (proc.Result, error) {
	env, err := i.recipe.RunEnv(i.w, i.request)
	if err != nil {
		return proc.Result{}, err
	}
	stage := i.stage()
	env = append(env, stage.Env...)
	if w.Env != nil {
		env = w.Env(env)
	}
	if err := i.recipe.Plan.Write(i.w.Dir); err != nil {
		return proc.Result{}, fmt.Errorf("files of the plan: %w", err)
	}
	reader := i.reference.Protocol(i.recipe, stage)
	spec := proc.Spec{
		Argv: slices.Concat(w.Wrap, i.argv()), Dir: i.recipe.WorkDir(i.w), Env: env, Limit: w.Limit,
		Output: i.recipe.LogFile(i.request, w.Name), Tail: trial.TailMax, Phase: reader.Phase(), Protocol: trial.ProtocolVariable,
		Watch: func(line string, at time.Duration) proc.Transition {
			return proc.Transition{Phase: reader.Line(line, at)} // a profiled phase may take longer than its limit
		},
	}
	if stage.Speaks != "" {
		spec.Protocol, spec.Watch = stage.Speaks, nil
	}
	if w.Output != nil {
		spec.OnOutput = func(_ int, line string, _ time.Duration) { w.Output(line) }
	}
	i.report(w.Name, w.Limit)
	before := readDevices(i.devices)
	res, err := i.w.Run(ctx, spec)
	if err != nil {
		return res, err
	}
	before.since(ctx, false)
	if res.Timeout != nil || res.Signal != 0 { // it may have left a lock file
		if err := i.w.ClearCaches(); err != nil {
			return res, err
		}
	}
	i.w.Contents.Dirty = i.w.Contents.Dirty || res.Exit != 0 || res.Signal != 0
	return res, nil
}

// toolMost bounds the output of a tool, in bytes.
const toolMost = 256 << 20

// Tool runs a command in the root of the export and returns what it printed. It fails if the command does, takes longer
// than limit, or prints more than toolMost bytes.
func (i *Inspection) Tool(ctx context.Context, argv []string, limit time.Duration) ([]byte, error) {
	file := filepath.Join(i.w.Folder, "tool.out")
	defer os.Remove(file)
	res, err := i.w.Run(ctx, proc.Spec{Argv: argv, Dir: i.w.Dir, Env: i.recipe.Environ(i.w, i.request, i.w.Tmp), Limit: limit, Output: file, OutputMax: toolMost})
	switch {
	case err != nil:
		return nil, err
	case res.Timeout != nil:
		return nil, fmt.Errorf("%s did not end within %v", argv[0], limit)
	case res.OutputBytes > toolMost:
		return nil, fmt.Errorf("%s printed more than %d MiB", argv[0], toolMost>>20)
	case res.Exit != 0 || res.Signal != 0:
		return nil, fmt.Errorf("%s: %s", argv[0], trial.Describe(res))
	}
	return os.ReadFile(file)
}

// Scratch makes a folder for what tools write about the candidate. It is removed with the workspace.
func (i *Inspection) Scratch(name string) (string, error) { return i.w.Scratch(name) }

// Bounds on the files with device code that are looked at, as each is read as a whole.
const (
	programMost  = 1 << 30 // bytes
	programsMost = 64
)

// Programs lists the files that hold device code: outputs of the build or, if none of them does, any file of the tree;
// then what trials have compiled into their caches, as Triton does. At most programsMost are listed.
func (i *Inspection) Programs() []string {
	var found []string
	for _, out := range i.recipe.Plan.Outputs {
		all, _ := filepath.Glob(filepath.Join(i.w.Dir, filepath.FromSlash(out))) // a bad pattern matches nothing
		for _, path := range all {
			found = append(found, programsBelow(path)...)
		}
	}
	if len(found) == 0 {
		found = programsBelow(i.w.Dir)
	}
	found = append(found, programsBelow(i.w.Caches.Dir)...)
	return found[:min(len(found), programsMost)]
}

// programsBelow finds the files with device code in a tree, or at the path of a file. What cannot be read is left out.
func programsBelow(root string) (found []string) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if st, err := d.Info(); err != nil || st.Size() > programMost || !trial.IsBinary(path) {
			return nil
		}
		if data, err := os.ReadFile(path); err == nil && len(cuda.DeviceCodes(data)) > 0 {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// BuildOutput is what the newest build of a candidate in this session printed; nil if none ran or it printed nothing.
func (p *Pipeline) BuildOutput(c bisect.Candidate) []byte {
	var newest []byte
	var at time.Time
	for _, purpose := range []bisect.Purpose{bisect.EndGood, bisect.EndBad, bisect.FindGood, bisect.Searching, bisect.ConfirmCulprit, bisect.ConfirmParent} {
		log := p.Config.Recipe.LogFile(bisect.Request{Candidate: c, Purpose: purpose}, "build")
		logs, _ := filepath.Glob(strings.TrimSuffix(log, "0.log") + "*.log") // of every ordinal; the pattern is sound
		for _, log := range logs {
			st, err := os.Stat(log)
			if err != nil || st.ModTime().Before(at) {
				continue
			}
			if data, err := os.ReadFile(log); err == nil && len(bytes.TrimSpace(data)) > 0 {
				newest, at = data, st.ModTime()
			}
		}
	}
	return newest
}
