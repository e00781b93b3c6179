package pipeline

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/kbisect/kbisect/pipeline/proc"
)

// Inspection is a candidate in its slot, built, and left alone while it is looked at.
type Inspection struct {
	Dir    string         // root of the export, with what was built in it
	Caches string         // where its trials keep what they compile
	Build  bisect.Outcome // of the build, as far as there was one just now

	s *slot
	r bisect.Request
}

// Wrapped says how the program of a candidate is run to be looked at.
type Wrapped struct {
	Wrap   []string                    // command in front of the program
	Env    func(env []string) []string // changes the environment of a trial; may be nil
	Name   string                      // of the file that keeps its output
	Limit  time.Duration               // of the whole process tree
	Output func(line string)           // is told of every line; may be nil
}

// Inspect prepares the slot of a request as for a trial, and lets look read what was built there and
// run it under other tools. The outcome has a class when there is nothing to look at: the candidate
// could not be exported or built, and look is not called.
func (p *Pipeline) Inspect(ctx context.Context, r bisect.Request, look func(*Inspection) error) (bisect.Outcome, error) {
	p.ahead.stop()
	s, err := p.slot(r)
	if err != nil {
		return bisect.Outcome{}, err
	}
	o, ready, err := s.prepare(ctx, r)
	if err != nil || !ready {
		return o, err
	}
	return o, look(&Inspection{Dir: s.dir, Caches: s.caches.dir, Build: o, s: s, r: r})
}

// Python reports whether the candidate's program is Python.
func (i *Inspection) Python() bool { return isPython(i.workDir(), i.argv()) }

// stage is the process that is looked at: where a trial has several, the last one, which measures.
func (i *Inspection) stage() kernels.Stage {
	all := i.s.stages(i.r.Candidate)
	return all[len(all)-1]
}

func (i *Inspection) argv() []string { return i.s.argv(i.stage().Run) }

func (i *Inspection) workDir() string { return i.s.workDir() }

// Run runs the candidate's program once, wrapped, with the environment of a trial and the caches that
// the last one left. Its tree is killed whole, and the devices are clear afterwards.
func (i *Inspection) Run(ctx context.Context, w Wrapped) (proc.Result, error) {
	env, err := i.s.runEnv(i.r)
	if err != nil {
		return proc.Result{}, err
	}
	stage := i.stage()
	env = append(env, stage.Env...)
	if w.Env != nil {
		env = w.Env(env)
	}
	if err := i.s.Plan.Write(i.s.dir); err != nil {
		return proc.Result{}, fmt.Errorf("files of the plan: %w", err)
	}
	l := i.s.listen(i.r, stage, 0)
	spec := proc.Spec{
		Argv: slices.Concat(w.Wrap, i.argv()), Dir: i.workDir(), Env: env, Limit: w.Limit,
		Output: i.s.logFile(i.r, w.Name), Tail: tailMax, Phase: l.said.Phase(), Protocol: protocolVariable,
		Watch: func(line string, at time.Duration) proc.Transition {
			return proc.Transition{Phase: l.said.Line(line, at)} // a profiled phase may take longer than its limit
		},
	}
	if stage.Speaks != "" {
		spec.Protocol, spec.Watch = stage.Speaks, nil
	}
	if w.Output != nil {
		spec.OnOutput = func(_ int, line string, _ time.Duration) { w.Output(line) }
	}
	i.s.activity(i.r, w.Name, w.Limit)
	before := i.s.watch()
	res, err := i.s.run(ctx, spec)
	if err != nil {
		return res, err
	}
	i.s.since(ctx, before)
	if res.Timeout != nil || res.Signal != 0 { // it may have left a lock file
		if err := i.s.caches.clear(); err != nil {
			return res, &bisect.InfraError{What: "clearing the caches of " + i.s.name, Err: err}
		}
	}
	i.s.dirty = i.s.dirty || res.Exit != 0 || res.Signal != 0
	return res, nil
}

// toolMost bounds the output of a tool, in bytes.
const toolMost = 256 << 20

// Tool runs a command on what was built and returns what it printed.
func (i *Inspection) Tool(ctx context.Context, argv []string, limit time.Duration) ([]byte, error) {
	file := filepath.Join(filepath.Dir(i.s.dir), "tool.out")
	defer os.Remove(file)
	res, err := i.s.run(ctx, proc.Spec{Argv: argv, Dir: i.s.dir, Env: i.s.environ(i.r, i.s.tmp), Limit: limit, Output: file, OutputMax: toolMost})
	switch {
	case err != nil:
		return nil, err
	case res.Timeout != nil:
		return nil, fmt.Errorf("%s did not end within %v", argv[0], limit)
	case res.OutputBytes > toolMost:
		return nil, fmt.Errorf("%s printed more than %d MiB", argv[0], toolMost>>20)
	case res.Exit != 0 || res.Signal != 0:
		return nil, fmt.Errorf("%s: %s%s", argv[0], ended(res), lastWords(res.Tail))
	}
	return os.ReadFile(file)
}

// Scratch makes a folder for what tools write about the candidate. It goes with the slot.
func (i *Inspection) Scratch(name string) (string, error) {
	dir := filepath.Join(filepath.Dir(i.s.dir), name)
	if err := errors.Join(removeAll(dir), os.MkdirAll(dir, 0o777)); err != nil {
		return "", &bisect.InfraError{What: "making the folder " + dir, Err: err}
	}
	return dir, nil
}

// Bounds on the files with device code that are looked at.
const (
	programMost  = 1 << 30 // bytes
	programsMost = 64
)

// Programs lists the files that hold device code: the outputs of the build, else whatever there is in
// the tree; and what was compiled while trials ran.
func (i *Inspection) Programs() []string {
	var found []string
	for _, out := range i.s.Plan.Outputs {
		all, err := filepath.Glob(filepath.Join(i.s.dir, filepath.FromSlash(out)))
		if err != nil {
			continue
		}
		for _, path := range all {
			found = append(found, programsBelow(path)...)
		}
	}
	if len(found) == 0 {
		found = programsBelow(i.s.dir)
	}
	found = append(found, programsBelow(i.Caches)...)
	return found[:min(len(found), programsMost)]
}

// programsBelow finds the files with device code in a tree, or at a path.
func programsBelow(root string) (found []string) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if st, err := d.Info(); err == nil && st.Size() <= programMost && isBinary(path) && holdsDeviceCode(path) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

func holdsDeviceCode(path string) bool {
	data, err := os.ReadFile(path)
	return err == nil && len(cuda.DeviceCodes(data)) > 0
}

// BuildOutput is what the newest build of a candidate in this job printed, nil if it came from the
// cache or printed nothing.
func (p *Pipeline) BuildOutput(c bisect.Candidate) []byte {
	var newest []byte
	var at time.Time
	for _, purpose := range []bisect.Purpose{bisect.EndGood, bisect.EndBad, bisect.FindGood, bisect.Searching, bisect.ConfirmCulprit, bisect.ConfirmParent} {
		log := p.logFile(bisect.Request{Candidate: c, Purpose: purpose}, "build")
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
