package gpu

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// reader asks one device; it is what stands between a Watch and the driver.
type reader interface {
	identity() Device
	read() Reading
	// follow sends the device's events to put, from a goroutine of its own, until stop is called; stop does not wait
	// for its end. If the driver stops reporting before that, the goroutine calls ended with the reason and ends.
	follow(put func(Event), ended func(why string)) (stop func(), err error)
}

// Watch reads one device again and again. It may be used by several goroutines.
type Watch struct {
	dev  reader
	id   Device
	pull func() []Event // of a script: where events come from instead
	tick time.Duration  // see answer

	mu       sync.Mutex
	stop     func() // not nil once followed
	closed   bool
	noEvents string // why there are no events, or no more
	events   []Event
}

// Open finds one device by its index ("0") or its UUID ("GPU-…", "MIG-…").
// The error wraps ErrUnavailable where no device can be asked.
func Open(selector string) (*Watch, error) {
	dev, err := open(strings.TrimSpace(selector))
	if err != nil {
		return nil, err
	}
	return newWatch(dev), nil
}

func newWatch(dev reader) *Watch { return &Watch{dev: dev, id: dev.identity(), tick: time.Second} }

// Device returns the device as it was when it was opened.
func (w *Watch) Device() Device { return w.id }

// Read returns the state of the device now. It never fails: what the driver
// does not answer is listed in Absent. A driver that hangs, as one does whose
// device is wedged, is given up on after ten seconds; then the device is Lost.
func (w *Watch) Read() Reading {
	r := w.answer()
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noEvents != "" {
		r.Absent = append(slices.Clip(r.Absent), Absence{"Events", w.noEvents})
	}
	return r
}

// answer waits for the driver in ticks, not in one time: while this process is
// stopped a timer runs out and the driver cannot answer, and that must not look
// like a driver that hangs.
func (w *Watch) answer() Reading {
	answered := make(chan Reading, 1)
	go func() { answered <- w.dev.read() }()
	const patience = 10
	for range patience {
		select {
		case r := <-answered:
			return r
		case <-time.After(w.tick):
		}
	}
	return silent()
}

// silent is the reading of a device whose driver does not answer.
func silent() Reading {
	r := Reading{Lost: true}
	fields := []string{"SMClock", "MemClock", "Temperature", "PowerW", "Reasons", "ECCUncorrected", "RemappedRows", "RecoveryAction", "Processes"}
	for _, k := range counters {
		fields = append(fields, k.field)
	}
	for _, f := range fields {
		r.Absent = append(r.Absent, Absence{f, "the driver does not answer"})
	}
	return r
}

// Fits is how many programs the memory of the devices holds that take as much as all that is there now; 0: not known.
func Fits(devices []*Watch) (n int) {
	for _, d := range devices {
		used := uint64(0)
		for _, x := range d.Read().Processes {
			used += x.UsedBytes
		}
		if used == 0 {
			return 0
		}
		if all := int(d.Device().MemoryTotal * 9 / 10 / used); n == 0 || all < n {
			n = max(1, all)
		}
	}
	return n
}

// Follow begins to collect the device's events for Events. If the driver does not report them, Absent of every later
// Reading names "Events" with the reason. Calling it again, or after Close, does nothing.
func (w *Watch) Follow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil || w.closed {
		return
	}
	stop, err := w.dev.follow(w.put, w.ended)
	if err != nil {
		w.noEvents, stop = err.Error(), func() {}
	}
	w.stop = stop
}

// Close ends what Follow began and does not wait for it: the driver is asked
// for at most one short wait more, and never again. What Events has collected
// stays. A Watch that was never followed needs no Close.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.stop != nil {
		w.stop()
	}
}

// Events returns what was received at or after since, in order. An event comes a moment after its cause; that of a
// process usually comes before the process is gone from Reading.Processes.
func (w *Watch) Events(since time.Time) []Event {
	return slices.DeleteFunc(w.received(), func(e Event) bool { return !e.Time.IsZero() && e.Time.Before(since) })
}

// received is a copy of all events so far.
func (w *Watch) received() []Event {
	if w.pull != nil {
		return slices.Clone(w.pull())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// maxEvents bounds what a program that fails again and again can make us keep.
const maxEvents = 1000

// put keeps e. When there are too many, the oldest that does not accuse the
// machine goes first.
func (w *Watch) put(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) >= maxEvents {
		i := max(slices.IndexFunc(w.events, func(e Event) bool { return e.kind() != kindMachine }), 0)
		w.events = slices.Delete(w.events, i, i+1)
	}
	w.events = append(w.events, e)
}

// ended notes why there will be no more events.
func (w *Watch) ended(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noEvents = why
}

// Clear waits until the device lists no process that before did not list, for
// at most bound or until ctx ends: the context of a killed process disappears a
// moment after the process. It returns the processes that are left, and the
// last reading. Where the driver lists no processes at all there is nothing to
// wait for; then Has("Processes") of the reading is false. A driver that hangs
// can make it longer than bound by as long as Read waits.
func (w *Watch) Clear(ctx context.Context, before []Process, bound time.Duration) ([]Process, Reading) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		over := ctx.Err() != nil // asked before the look: whatever ends a pause, a look follows
		r := w.Read()
		left := r.others(pids(before)...)
		if len(left) == 0 || over {
			return left, r
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func pids(list []Process) []int {
	out := make([]int, len(list))
	for i, p := range list {
		out[i] = p.PID
	}
	return out
}
