//go:build cgo && linux

package gpu

import (
	"context"
	"errors"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// eventWait is how long the driver is asked to wait for the next event: an
	// event ends it at once, and closing a Watch leaves at most one behind.
	eventWait = 500 * time.Millisecond
	// maxFailures in a row mean that no more events will come.
	maxFailures = 5
	// waitV2 is the form of the call that says which slice an event is of.
	waitV2 = "nvmlEventSetWait_v2"
)

// eventTexts are the kinds of event that are a fault of the machine. An Xid comes
// with its number; corrected errors and changes of the clocks are ignored.
var eventTexts = map[uint64]string{
	nvml.EventTypeDoubleBitEccError:     "uncorrected memory error (ECC)",
	nvml.EventTypeDramRetirementFailure: "a bad part of memory could not be taken out of use",
	nvml.EventTypeFatalPoisonError:      "fatal poison error of the memory",
	nvml.EventTypeGpuUnavailableError:   "the GPU is unavailable",
	nvml.EventTypeGpuRecoveryAction:     "the driver asks for a recovery of the GPU, or no longer does",
}

// follow implements reader with a goroutine that waits for the driver's events.
func (d *device) follow(put func(Event), ended func(string)) (func(), error) {
	set, err := d.register()
	if err != nil {
		return nil, err
	}
	f := &follower{dev: d, set: set, put: put, ended: ended}
	ctx, stop := context.WithCancel(context.Background())
	go f.run(ctx)
	return stop, nil
}

// register makes the set of events; the caller frees it.
func (d *device) register() (nvml.EventSet, error) {
	for _, s := range []string{"nvmlDeviceGetSupportedEventTypes", "nvmlEventSetCreate", "nvmlEventSetFree", "nvmlDeviceRegisterEvents", d.newest(waitV2, "nvmlEventSetWait")} {
		if !d.has(s) {
			return nil, errors.New(lacks(s))
		}
	}
	mask := uint64(nvml.EventTypeXidCriticalError)
	for kind := range eventTexts {
		mask |= kind
	}
	supported, r := d.whole.GetSupportedEventTypes()
	if r != nvml.SUCCESS {
		return nil, errors.New(name(r))
	}
	if supported&nvml.EventTypeXidCriticalError == 0 {
		return nil, errors.New("the driver reports no Xids for this device")
	}
	set, r := d.lib.EventSetCreate()
	if r != nvml.SUCCESS {
		return nil, errors.New(name(r))
	}
	if r := d.whole.RegisterEvents(mask&supported, set); r != nvml.SUCCESS {
		set.Free()
		return nil, errors.New(name(r))
	}
	return set, nil
}

// follower waits for the events of one device. Only its goroutine touches set.
type follower struct {
	dev   *device
	set   nvml.EventSet
	put   func(Event)
	ended func(why string)
}

// run waits for events until ctx is done, in short waits: a wait of the driver cannot be interrupted. After an error it
// tries again, up to maxFailures times in a row; a device that is lost reports nothing more.
func (f *follower) run(ctx context.Context) {
	defer f.set.Free()
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		data, r := f.set.Wait(uint32(eventWait.Milliseconds()))
		switch {
		case ctx.Err() != nil:
			return
		case r == nvml.SUCCESS:
			failures = 0
			f.take(data)
			continue
		case r == nvml.ERROR_TIMEOUT:
			failures = 0
		case isLost(r):
			f.put(Event{Time: time.Now(), Kind: kindMachine, Text: name(r)})
			f.ended(name(r))
			return
		default:
			if failures++; failures == maxFailures {
				f.ended(name(r))
				return
			}
		}
		select { // a driver that does not wait must not make us spin
		case <-ctx.Done():
		case <-time.After(eventWait/2 - time.Since(began)):
		}
	}
}

// take passes an event on, unless it is of another slice.
func (f *follower) take(data nvml.EventData) {
	d := f.dev
	if d.slice != nil && d.has(waitV2) && !d.slice.covers(data.GpuInstanceId, data.ComputeInstanceId) {
		return
	}
	if data.EventType == nvml.EventTypeXidCriticalError {
		f.put(newXid(data.EventData, time.Now()))
		return
	}
	words, ok := eventTexts[data.EventType]
	if !ok {
		return
	}
	f.put(Event{Time: time.Now(), Kind: kindMachine, Text: words})
}
