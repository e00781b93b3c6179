package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// slotCount is how many trials are made at a time: as many as --jobs allows, each on a device of its own;
// where no device is used, as many as there are processors. Without --jobs it is one: what is given
// several devices may need them all.
func slotCount(j *Session) int {
	switch jobs := j.Policy.Jobs; {
	case jobs < 2:
		return 1
	case len(j.Devices.Watches) > 0:
		return min(jobs, len(j.Devices.Watches))
	case slices.Equal(j.Policy.GPUs, []string{"none"}), j.Devices.None:
		return min(jobs, runtime.NumCPU())
	}
	return 1
}

// OpenPipes makes a pipeline for each slot. Only the first builds ahead of trials.
func (j *Session) OpenPipes(config pipeline.Config) error {
	n := slotCount(j)
	for i := range n {
		c := config
		if i > 0 {
			c.Slot, c.Jobs = i, 1
			c.Dir, c.Session = fmt.Sprintf("%s.%d", config.Dir, i+1), fmt.Sprintf("%s.%d", config.Session, i+1)
		}
		if n > 1 && len(config.Devices) > 0 {
			c.Devices = []*gpu.Watch{config.Devices[i]}
		}
		p, err := pipeline.New(c)
		if err != nil {
			return errors.Join(err, j.ClosePipes())
		}
		j.Pipes = append(j.Pipes, p)
	}
	j.Pipe = j.Pipes[0]
	return nil
}

// ClosePipes ends what still runs and removes the folders of all slots.
func (j *Session) ClosePipes() (first error) {
	if j.Slots != nil {
		first = j.Slots.Stop()
	}
	for _, p := range j.Pipes {
		if err := p.Close(); first == nil {
			first = err
		}
	}
	return first
}

// Sampler makes trials in the slots; past is what earlier attempts of the session took.
func (j *Session) Sampler(past time.Duration) *pipeline.Slots {
	began := time.Now().Add(-past)
	s := &pipeline.Slots{Alone: j.Alone, Keep: func(r bisect.Request, o bisect.Outcome) error { return j.Ledger.Keep(r, o) }}
	for i, p := range j.Pipes {
		each := bisect.Sampler(p)
		if i == 0 {
			each = leader{p, j.Pipes[1:]}
		}
		s.Each = append(s.Each, clocked{each, began})
	}
	if len(j.Pipes) > 1 {
		s.OnEnd = j.Display.Idle
	}
	return s
}

// leader is the slot in which the good end is launched; the others learn from it.
type leader struct {
	*pipeline.Pipeline
	others []*pipeline.Pipeline
}

// Sample implements bisect.Sampler.
func (l leader) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o, err := l.Pipeline.Sample(ctx, r)
	if err == nil && r.Purpose == bisect.EndGood {
		for _, p := range l.others {
			p.Learn(r, o)
			p.Follow(l.Pipeline)
		}
	}
	return o, err
}

// learn tells every slot of a remembered trial.
func (j *Session) learn(r bisect.Request, o bisect.Outcome) {
	for _, p := range j.Pipes {
		p.Learn(r, o)
	}
}

// Redo makes every build from now on a clean one.
func (j *Session) Redo() {
	if err := j.Slots.Stop(); err != nil {
		j.Display.Warn(err.Error())
	}
	for _, p := range j.Pipes {
		p.Clean()
	}
}

// Alone reports that nothing may run beside a trial: its times matter, or it tells how long trials take;
// or it is to prove a time-out, where all slots share the processors.
func (j *Session) Alone(r bisect.Request) bool {
	switch r.Purpose {
	case bisect.EndGood, bisect.EndBad, bisect.FindGood:
		return true
	}
	_, fail, ok := j.Examples()
	return r.Timing || ok && fail.Class == bisect.Timeout && r.Hurry == "" && len(j.Devices.Watches) == 0
}

// Examples are a launch that ended well and one that showed the complaint, of the ends; ok is false where
// there are none, and where the complaint is about the time that builds take.
func (j *Session) Examples() (pass, fail bisect.Outcome, ok bool) {
	for _, l := range j.Launches {
		end := l.Purpose == bisect.EndGood || l.Purpose == bisect.EndBad || l.Purpose == bisect.FindGood
		switch o := l.Outcome; {
		case !end || o.Class == bisect.Skip:
		case o.Class == bisect.OK:
			pass = o
		default:
			fail = o
		}
	}
	timedBuild := fail.Class == bisect.Timeout && fail.Phase == "build"
	return pass, fail, pass.Class != "" && fail.Class != "" && !timedBuild
}

// deviceless reports a machine on which no program can find a device to run on.
func deviceless() bool {
	for _, pattern := range []string{"/dev/nvidia*", "/dev/dxg", "/dev/kfd", "/dev/dri/renderD*"} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 {
			return false
		}
	}
	return true
}
