package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
)

// ahead builds, while the device is busy with one candidate, those that the search is likely to ask
// for next. Builds ahead keep to processors of their own, and stand still while times are taken:
// beside seven compilers a kernel of 40 µs has been seen to read 115.
type ahead struct {
	*Pipeline
	wishes []bisect.Candidate
	group  sync.WaitGroup
	mu     sync.Mutex
	spares []*spare
	frozen bool
}

// spare is a slot in which a candidate is built ahead.
type spare struct {
	slot   *slot
	wanted bisect.Candidate
	cancel context.CancelFunc
	done   chan struct{} // closed when the build is over
	built  bisect.Outcome
	ready  bool // after done: the slot holds the candidate, built
}

// aheadSlots is how many builds ahead n jobs allow: one job is the candidate that is asked for.
func aheadSlots(jobs, cpus int) int {
	switch {
	case jobs > 0:
		return jobs - 1
	case cpus >= 8:
		return 2
	case cpus >= 4:
		return 1
	}
	return 0 // on so few processors a build would disturb, or stand still
}

// newAhead prepares for builds ahead; it returns nil where there are to be none.
func newAhead(p *Pipeline) *ahead {
	if len(p.Plan.Build) == 0 || p.Jobs == 1 {
		return nil
	}
	cpus := usable()
	n := aheadSlots(p.Jobs, len(cpus))
	if n == 0 {
		return nil
	}
	if share := len(cpus) / 4; share > 0 {
		p.trialCPUs, p.aheadCPUs = cpus[:len(cpus)-share], cpus[len(cpus)-share:]
	}
	a := &ahead{Pipeline: p}
	for i := range n {
		a.spares = append(a.spares, &spare{slot: p.newSlot(fmt.Sprintf("ahead-%d", i))})
	}
	return a
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

// Ahead tells the pipeline what will probably be asked for after the next candidate, likeliest
// first. It is built while that one runs.
func (p *Pipeline) Ahead(next []bisect.Candidate) {
	if p.ahead != nil && !p.clean {
		p.ahead.wishes = next
	}
}

// begin starts to build what is wished for, now that the candidate before is built.
func (a *ahead) begin(ctx context.Context) {
	if a == nil || a.wishes == nil {
		return
	}
	next := a.wishes
	a.wishes = nil
	a.want(ctx, next)
}

func (a *ahead) want(ctx context.Context, next []bisect.Candidate) {
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
				s.cancel() // nobody will ask for it; the slot is free at the next call
				continue
			}
			a.start(ctx, s, c)
			break
		}
	}
}

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

// start builds a candidate in a spare slot.
func (a *ahead) start(ctx context.Context, s *spare, c bisect.Candidate) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.wanted, s.ready, s.done = c, false, make(chan struct{})
	s.slot.pause = make(chan bool, 1)
	if a.frozen {
		s.slot.pause <- true
	}
	done := s.done
	a.group.Go(func() {
		defer close(done)
		defer s.cancel()
		o, ready, err := s.slot.prepare(ctx, bisect.Request{Candidate: c, Purpose: bisect.Searching})
		s.built, s.ready = o, ready && err == nil // what fails is built again when it is asked for
		if err != nil && ctx.Err() == nil {
			a.Log.Info("building ahead", "candidate", c.Brief(), "err", err)
		}
	})
}

// take waits for a candidate that is built ahead and trades its slot for another one. It returns
// nil when the candidate is to be built in the ordinary way.
func (a *ahead) take(ctx context.Context, c bisect.Candidate, other *slot) (*slot, bisect.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.spares, func(s *spare) bool { return s.wanted == c })
	if i < 0 {
		return nil, bisect.Outcome{}
	}
	s := a.spares[i]
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, bisect.Outcome{}
	}
	s.wanted = bisect.Candidate{}
	if !s.ready {
		return nil, bisect.Outcome{}
	}
	got := s.slot
	s.slot = other
	return got, s.built
}

// freeze lets the builds ahead stand still, or go on.
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
		case <-s.slot.pause:
		default:
		}
		s.slot.pause <- on
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

// close ends the builds and removes the slots.
func (a *ahead) close() (err error) {
	if a == nil {
		return nil
	}
	a.stop()
	for _, s := range a.spares {
		if e := s.slot.remove(); e != nil && err == nil {
			err = e
		}
	}
	return err
}
