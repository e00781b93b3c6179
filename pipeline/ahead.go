package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// ahead builds, while the device is busy with one candidate, those that the search is likely to ask for next. Builds
// ahead keep to processors of their own, and are paused while times are taken: beside seven compilers a kernel of
// 40 µs has been seen to take 115.
//
// A build ahead runs in a goroutine of its own. It gets a [trial.Job], which is a value, and a workspace that nothing
// else uses meanwhile; it cannot reach the pipeline.
type ahead struct {
	cpus   []int // of the builds; nil is all
	wishes []bisect.Candidate
	group  sync.WaitGroup
	mu     sync.Mutex
	spares []*spare
	frozen bool
}

// spare is a workspace in which a candidate is built ahead.
type spare struct {
	w      *workspace.Workspace
	wanted bisect.Candidate
	cancel context.CancelFunc
	pause  chan bool     // see [proc.Spec.Pause]
	done   chan struct{} // closed when the build is over
	built  trial.Built
	ready  bool // after done: the workspace holds the candidate, built
}

// aheadNice lets a build ahead give way to everything else.
const aheadNice = 10

// aheadCount is how many builds ahead n jobs allow: one job is the candidate that is asked for. Without a number it
// depends on the processors, a quarter of which the builds get.
func aheadCount(jobs, cpus int) int {
	switch {
	case jobs > 0:
		return jobs - 1
	case cpus >= 8:
		return 2
	case cpus >= 4:
		return 1
	}
	return 0 // on so few processors a build would disturb, or be paused all the time
}

// newAhead prepares for the builds ahead that n jobs allow; it is nil where there are none. Trials have the other
// processors then; nil is all.
func newAhead(root *workspace.Root, jobs int) (a *ahead, trials []int) {
	cpus := usable()
	n := aheadCount(jobs, len(cpus))
	if n == 0 {
		return nil, nil
	}
	a = &ahead{}
	if share := len(cpus) / 4; share > 0 {
		trials, a.cpus = cpus[:len(cpus)-share], cpus[len(cpus)-share:]
	}
	for i := range n {
		a.spares = append(a.spares, &spare{w: root.New(fmt.Sprintf("ahead-%d", i))})
	}
	return a, trials
}

// usable lists the processors that this process may use.
func usable() (out []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for i := range max(1024, runtime.NumCPU()) {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out
}

// begin starts to build what is wished for, now that the candidate of a job is built.
func (a *ahead) begin(ctx context.Context, job trial.Job) {
	if a == nil || a.wishes == nil {
		return
	}
	next := a.wishes
	a.wishes = nil
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := map[bisect.Candidate]bool{}
	for _, c := range next {
		wanted[c] = true
	}
	for _, c := range next {
		if slices.ContainsFunc(a.spares, func(s *spare) bool { return s.wanted == c }) {
			continue
		}
		for _, s := range a.spares {
			if wanted[s.wanted] {
				continue
			}
			if s.busy() {
				s.cancel() // it will not be asked for; the workspace is free at the next call
				continue
			}
			a.start(ctx, s, c, job)
			break
		}
	}
}

// busy reports that a build runs in the workspace: it may not be touched until that has ended.
func (s *spare) busy() bool {
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// start builds a candidate in a spare workspace, like that of the job.
func (a *ahead) start(ctx context.Context, s *spare, c bisect.Candidate, job trial.Job) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.wanted, s.ready, s.done, s.pause = c, false, make(chan struct{}), make(chan bool, 1)
	s.w.Share = workspace.Share{CPUs: a.cpus, Nice: aheadNice, Pause: s.pause}
	if a.frozen {
		s.pause <- true
	}
	// From here on the job is the build's own: nothing of the request that it was made for is left in it.
	job.Request = bisect.Request{Candidate: c, Purpose: bisect.Searching}
	job.Bounds.Hurry, job.Bounds.Past = "", 0
	job.Clean, job.Ahead, job.Suspected, job.Report = false, true, false, nil
	w, cancel, done := s.w, s.cancel, s.done
	a.group.Go(func() {
		defer close(done)
		defer cancel()
		built, err := trial.Build(ctx, w, job)
		s.built, s.ready = built, err == nil && built.Outcome.Class == "" // what fails is built again when it is asked for
		if err != nil && ctx.Err() == nil {
			job.Recipe.Log.Info("building ahead", "candidate", c.Brief(), "err", err)
		}
	})
}

// take waits for a candidate that is built ahead and trades its workspace for another one. It returns nil when the
// candidate is to be built in the ordinary way.
func (a *ahead) take(ctx context.Context, c bisect.Candidate, other *workspace.Workspace) (*workspace.Workspace, trial.Built) {
	if a == nil {
		return nil, trial.Built{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.spares, func(s *spare) bool { return s.wanted == c })
	if i < 0 {
		return nil, trial.Built{}
	}
	s := a.spares[i]
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, trial.Built{}
	}
	s.wanted = bisect.Candidate{}
	if !s.ready { // it failed, and fails again where the user can see it
		return nil, trial.Built{}
	}
	ready := s.w
	s.w = other
	return ready, s.built
}

// freeze pauses the builds ahead, or lets them go on.
func (a *ahead) freeze(on bool) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frozen = on
	for _, s := range a.spares {
		if !s.busy() {
			continue
		}
		select { // only the newest word counts
		case <-s.pause:
		default:
		}
		s.pause <- on
	}
}

// stop ends the builds.
func (a *ahead) stop() {
	if a == nil {
		return
	}
	a.mu.Lock()
	for _, s := range a.spares {
		if s.busy() {
			s.cancel()
		}
	}
	a.mu.Unlock()
	a.group.Wait()
}

// close ends the builds and removes the workspaces.
func (a *ahead) close() (err error) {
	if a == nil {
		return nil
	}
	a.stop()
	for _, s := range a.spares {
		if e := s.w.Remove(); e != nil && err == nil {
			err = e
		}
	}
	return err
}
