package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/remote"
	"github.com/kbisect/kbisect/pipeline/slots"
)

// slotCount is how many trials run at a time: as many as --jobs allows, each on a device of its own or, without
// devices, at most one for each processor. Without --jobs it is one, as a program may need all devices, or three if
// trials may run ahead with care: three settle two steps of a search at a time.
func slotCount(s *Session) int {
	const careful = 3
	deviceless := policy.Deviceless(s.Policy) || s.Devices.None
	switch jobs := s.Policy.Jobs; {
	case s.Policy.Spread != "":
		return max(1, len(s.Devices.Watches))
	case jobs == 0 && deviceless && policy.MayRunAhead(s.Policy):
		return min(careful, runtime.NumCPU())
	case jobs < 2:
		return 1
	case len(s.Devices.Watches) > 0:
		return min(jobs, len(s.Devices.Watches))
	case deviceless:
		return min(jobs, runtime.NumCPU())
	}
	return 1
}

// openPipes makes a pipeline for each slot, with a folder, a mark for its processes and, if there are several, a
// device of its own. All share what is built ahead, which the first one closes.
func (s *Session) openPipes(ctx context.Context, config pipeline.Config) error {
	n := slotCount(s)
	for i := range n {
		c := config
		if i > 0 {
			c.Slot, c.First = i, s.Pipes[0]
			c.Dir, c.Session = fmt.Sprintf("%s.%d", config.Dir, i+1), fmt.Sprintf("%s.%d", config.Session, i+1)
		}
		if (n > 1 || s.Policy.Spread != "") && len(config.Devices) > 0 {
			c.Devices = []*gpu.Watch{config.Devices[i]}
		}
		p, err := pipeline.New(ctx, c)
		if err != nil {
			return errors.Join(err, s.ClosePipes())
		}
		s.Pipes = append(s.Pipes, p)
	}
	s.Pipe = s.Pipes[0]
	return nil
}

// ClosePipes stops what still runs and removes the folders of all slots. It closes all of them, last first, and
// returns the first error.
func (s *Session) ClosePipes() (first error) {
	if s.Slots != nil {
		first = s.Slots.Stop()
	}
	useRest(s)
	for _, p := range slices.Backward(s.Pipes) {
		if err := p.Close(); first == nil {
			first = err
		}
	}
	if s.closeCluster != nil {
		if err := s.closeCluster(); first == nil {
			first = err
		}
	}
	return first
}

// newSlots makes what runs the trials of a session: one slot for each pipeline, for each job of a cluster, or the
// sampler of a test. past is the time of its earlier attempts.
func newSlots(s *Session, past time.Duration) *slots.Slots {
	// A launch is stamped with the time since the first attempt began: drift is a function of that time, and the
	// order of the launches of all attempts follows from it.
	began := time.Now().Add(-past)
	out := &slots.Slots{Alone: s.Alone, Wait: s.Stopwatch.Follow, Keep: func(r bisect.Request, o bisect.Outcome) error {
		_, err := s.Ledger.Keep(r, o)
		return err
	}}
	out.Careful = len(s.Pipes) > 1 && s.Policy.Jobs == 0 && s.Policy.Spread == ""
	t := &teaching{pipes: s.Pipes, upTo: make([]int, len(s.Pipes))}
	if len(s.Pipes) > 1 {
		out.Made, out.Begin = t.made, t.begin
		out.Holds = func(slot int, r bisect.Request) bool { return pipeline.Holds(s.Pipes[slot], r) }
	}
	if s.Policy.Budget > 0 {
		out.Until = began.Add(s.Policy.Budget)
	}
	since := func() time.Duration { return time.Since(began) }
	for _, p := range s.Pipes {
		out.Each = append(out.Each, clocked(p, since))
	}
	if s.Cluster != nil {
		s.Cluster.Until(out.Until)
		out.Each, out.Until = nil, time.Time{}
		since := func() time.Duration { return time.Since(began) - s.Cluster.Waited() }
		for i := range s.Policy.Executor.Width() {
			out.Each = append(out.Each, clocked(follower(s, s.Cluster.Slot(i)), since))
		}
	}
	if s.sampler != nil {
		out.Each = []bisect.Sampler{s.sampler(s)}
	}
	if len(out.Each) > 1 {
		out.OnEnd = s.Display.Idle
	}
	return out
}

// teaching tells each slot what launches of the good end have shown in the others, before it begins its next trial:
// limits that are multiples of the good end follow from these. Slots calls made and begin from one goroutine.
type teaching struct {
	pipes   []*pipeline.Pipeline
	lessons []lesson
	upTo    []int // lessons that each slot has had
}

type lesson struct {
	slot    int
	request bisect.Request
	outcome bisect.Outcome
}

func (t *teaching) made(slot int, r bisect.Request, o bisect.Outcome) {
	if r.Purpose == bisect.EndGood {
		t.lessons = append(t.lessons, lesson{slot, r, o})
	}
}

func (t *teaching) begin(slot int) {
	for _, l := range t.lessons[t.upTo[slot]:] {
		if l.slot != slot {
			t.pipes[slot].Learn(l.request, l.outcome)
		}
	}
	t.upTo[slot] = len(t.lessons)
}

// Redo makes every build from now on a clean one, because kept builds have turned out to be wrong.
func (s *Session) Redo() {
	if err := s.Slots.Stop(); err != nil {
		s.Display.Warn(err.Error())
	}
	for _, p := range s.Pipes {
		p.Clean()
	}
	if s.Cluster != nil {
		s.Cluster.Clean()
	}
}

// Several is how many launches can be made at a time whose times count, and the UUIDs of the devices that trials are
// spread over. For jobs there are no devices to tell apart, as each has its reference beside it.
func Several(s *Session) (atOnce int, devices []string) {
	switch {
	case s.Cluster != nil:
		return s.Policy.Executor.Width(), nil
	case len(s.Pipes) > 1 && len(s.Devices.Watches) > 1 && s.Policy.Spread != "":
		for _, w := range s.Devices.Watches {
			devices = append(devices, w.Device().UUID)
		}
		return len(s.Pipes), devices
	}
	return 1, nil
}

// Alone reports that nothing may run beside a trial: its times matter, or limits follow from them, or it has to
// prove a time-out while all slots share the processors. If nobody has said that trials share nothing, an answer
// rests on the culprit and each of its parents launched alone once.
func (s *Session) Alone(r bisect.Request) bool {
	atOnce, devices := Several(s)
	if len(devices) > 0 && r.On > 0 || s.Cluster != nil && r.Timing && r.Nth > 0 { // each launch has a device to itself
		return false
	}
	switch r.Purpose {
	case bisect.EndGood, bisect.EndBad, bisect.FindGood:
		return true
	case bisect.ConfirmCulprit, bisect.ConfirmParent:
		if s.Slots != nil && s.Slots.Careful && (r.Purpose == bisect.ConfirmCulprit || r.Nth == 0) {
			return true
		}
	}
	if s.OneByOne {
		return true
	}
	_, fail, ok := Examples(s.Launches)
	return r.Timing && atOnce < 2 || ok && fail.Class == bisect.Timeout && r.Hurry == "" && len(s.Devices.Watches) == 0 && s.Cluster == nil
}

// Disagree reports a commit whose launches beside others ended differently from those alone: the commands share
// something.
func Disagree(s *Session) bool {
	type seen struct {
		bisect.Candidate
		beside, passed bool
	}
	ended := map[seen]bool{}
	for id, all := range s.Ledger.Known {
		for _, o := range all {
			passed := o.Class == bisect.OK
			if ended[seen{id.Candidate, !o.Beside, !passed}] {
				return true
			}
			ended[seen{id.Candidate, o.Beside, passed}] = true
		}
	}
	return false
}

// Separate forgets the launches that ran beside others, and makes every launch run alone from now on. The store keeps
// them; only this session decides as if they had never been made.
func Separate(s *Session) error {
	beside := func(o bisect.Outcome) bool { return o.Beside }
	s.OneByOne = true
	err := s.Slots.Stop()
	for id, all := range s.Ledger.Known {
		s.Ledger.Known[id] = slices.DeleteFunc(all, beside)
	}
	s.Launches = slices.DeleteFunc(s.Launches, func(l report.Launch) bool { return l.Outcome.Beside })
	maps.DeleteFunc(s.used, func(p patience, _ bool) bool { return p.beside })
	return err
}

// Examples are the latest launch of an end that passed and the latest that failed, by which the outcome of a trial is
// guessed before it ends. ok is false if either is missing, or if the failure is a build that takes too long: such a
// trial has no launch to compare with.
func Examples(launches []report.Launch) (pass, fail bisect.Outcome, ok bool) {
	for _, l := range launches {
		end := l.Purpose.IsEnd() || l.Purpose == bisect.FindGood
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

// deviceless reports a machine without device files (NVIDIA, WSL, AMD, any other), on which no program can find a
// device.
func deviceless() bool {
	for _, pattern := range []string{"/dev/nvidia*", "/dev/dxg", "/dev/kfd", "/dev/dri/renderD*"} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 {
			return false
		}
	}
	return true
}

// openCluster opens the executor of the policy, if it has one. The pipelines of this machine then launch nothing,
// but keep what launches elsewhere have shown.
func openCluster(ctx context.Context, s *Session, c pipeline.Config, folder string) (err error) {
	p := s.Policy
	if !p.Executor.Away() {
		return nil
	}
	block := remote.Block{
		Recipe: c.Recipe, OwnScripts: p.OwnScripts, Limits: p.Limits, Cases: p.Cases, Caches: p.Caches, GPUs: p.GPUs, Sandbox: c.Sandbox,
	}
	block.Recipe.Env = p.MoreEnv
	ends := slices.DeleteFunc([]string{p.Good, p.Bad, s.Candidate.Commit}, func(id string) bool { return id == "" })
	s.Cluster, err = remote.Open(ctx, remote.Config{
		Settings: p.Executor, Session: s.Record.ID, Version: s.Record.Version, Block: block, Repo: s.Repo, Commits: ends, Folder: folder, Logs: c.Recipe.Logs,
		Say: s.Display.Say, OnPhase: func(a pipeline.Activity) {
			s.Stopwatch.Doing(a.Slot, a.Doing)
			s.Display.Activity(a)
		},
	})
	if err != nil {
		return err
	}
	s.closeCluster = sync.OnceValue(func() error { return s.Cluster.Close(ctx) })
	return nil
}

// follower lets the pipelines and the cluster learn of what a job has shown. Jobs end side by side, and a pipeline is
// for one goroutine.
func follower(s *Session, next bisect.Sampler) bisect.Sampler {
	return bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
		o, err := next.Sample(ctx, r)
		if err == nil {
			s.following.Lock()
			defer s.following.Unlock()
			learn(s, r, o)
		}
		return o, err
	})
}
