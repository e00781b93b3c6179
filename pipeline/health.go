package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// greet runs the known-good program before the first trial. A machine on which it fails may still
// do for a project that needs no device, so that this alone stops nothing.
func (p *Pipeline) greet(ctx context.Context) error {
	if p.greeted {
		return nil
	}
	p.greeted = true
	var err error
	if p.hello, err = newHello(ctx, p.Dir+"/hello", p.Session+"-hello", p.visible(p.Env), len(p.Devices) > 0); err != nil {
		if full := p.diskFull(p.wasFull); full != nil {
			return full
		}
		return err
	}
	why, err := p.hello.fails(ctx)
	if why != "" {
		p.warnOnce(why + "\nhint: kbisect doctor")
	}
	return err
}

// Follow spares p the known-good program that another pipeline has made and run on the same machine.
// Devices differ, and are each greeted.
func (p *Pipeline) Follow(first *Pipeline) {
	if p.greeted || !first.greeted || len(p.Devices) > 0 {
		return
	}
	p.greeted = true
	if first.hello != nil {
		h := *first.hello
		h.cookie = p.Session + "-hello"
		p.hello = &h
	}
}

// lacksTorch says that a program failed because the Python that runs it has no PyTorch, or "". Nothing that a
// commit holds installs it.
func (p *Pipeline) lacksTorch(ctx context.Context, tail []byte) string {
	run := p.Plan.Run
	if n := len(p.Plan.Stages); n > 0 {
		run = p.Plan.Stages[n-1].Run
	}
	if !bytes.Contains(tail, []byte("No module named 'torch'")) || len(run) == 0 || !proc.PythonName(filepath.Base(run[0])) {
		return ""
	}
	cmd := exec.CommandContext(ctx, run[0], "-c", "import importlib.util, sys; sys.exit(3 if importlib.util.find_spec('torch') is None else 0)")
	cmd.Env = p.visible(p.Env)
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		return ""
	}
	return run[0] + " of this machine has no PyTorch: No module named 'torch'\nhint: install it for that Python, or activate the environment that has it"
}

// starved says that the machine's memory ran out in a step, or "".
func starved(res proc.Result) string {
	if res.OOMKilled && res.OOMWhere == "machine" {
		return "the kernel killed one of its processes because the machine, or a group above, ran out of memory"
	}
	return ""
}

// passing reports a trouble that may be over before anybody can look for it.
func passing(k protocol.FaultKind) bool {
	return k == protocol.DiskFull || k == protocol.HostMemory || k == protocol.FilesFull
}

// machineFault asks whether the machine rather than the candidate is to blame for how a trial
// ended, and says why. Words in the output only raise suspicion: a known-good program decides.
func (p *Pipeline) machineFault(ctx context.Context, c bisect.Candidate, o bisect.Outcome, res proc.Result, n note) (string, error) {
	switch {
	case n.fault != "":
		return n.fault, nil
	case starved(res) != "" && o.Class != bisect.OK:
		return starved(res), nil
	case res.Stall > 0 && o.Class == bisect.Timeout && !o.Whole:
		return fmt.Sprintf("kbisect itself did not run for %.1f s of the trial, so that nobody knows which limit was kept", res.Stall.Seconds()), nil
	case o.Class == bisect.OK || o.Class == bisect.Skip || o.Class == bisect.Infra:
		return "", nil
	}
	if why := p.lacksTorch(ctx, res.Tail); why != "" {
		return why, nil
	}
	words, accused := protocol.Trouble(res.Tail)
	if accused && passing(words.Kind) && !p.assaulted(c) {
		return fmt.Sprintf("the trial said: %s", words.Words), nil
	}
	if accused && words.Kind == protocol.NoDevice && len(p.Devices) == 0 {
		return fmt.Sprintf("there is no device here for the trial, which said: %s\nhint: kbisect doctor; what a build alone says, such as a static metric, needs none: leave out [run]", words.Words), nil
	}
	killed := res.Timeout != nil || res.Signal != 0
	if !accused && !(killed && len(p.Devices) > 0) {
		return "", nil
	}
	knew := p.hello != nil && p.hello.worked
	why, err := p.hello.fails(ctx)
	switch {
	case err != nil:
		return "", err
	case why != "" && accused:
		return fmt.Sprintf("%s; the trial said: %s", why, words.Words), nil
	case why != "" && knew:
		return why, nil
	case accused && words.Kind == protocol.DeviceMemory && n.shared != "":
		return fmt.Sprintf("%s, and %s", words.Words, n.shared), nil
	}
	return "", nil
}
