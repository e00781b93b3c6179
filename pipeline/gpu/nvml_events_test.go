//go:build cgo && linux

package gpu

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

// answerTo is one answer of a scripted set of events.
type answerTo struct {
	data nvml.EventData
	r    nvml.Return
}

func xidEvent(xid uint64) answerTo {
	return answerTo{nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: xid, GpuInstanceId: 1<<32 - 1, ComputeInstanceId: 1<<32 - 1}, nvml.SUCCESS}
}

// eventful makes device 0 of s answer with what is sent to the channel.
type eventful struct {
	*dgxa100.Server
	answers chan answerTo
	mask    atomic.Uint64
	freed   atomic.Int32
}

func newEventful() *eventful {
	e := &eventful{Server: server(), answers: make(chan answerTo)}
	d := e.Devices[0].(*dgxa100.Device)
	d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) {
		return nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError | nvml.EventTypeClock, nvml.SUCCESS
	}
	d.RegisterEventsFunc = func(mask uint64, _ nvml.EventSet) nvml.Return { e.mask.Store(mask); return nvml.SUCCESS }
	e.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{
			FreeFunc: func() nvml.Return { e.freed.Add(1); return nvml.SUCCESS },
			WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
				if e.freed.Load() > 0 {
					panic("waits for a set that is freed")
				}
				select {
				case a := <-e.answers:
					return a.data, a.r
				case <-time.After(time.Duration(min(ms, 20)) * time.Millisecond):
					return nvml.EventData{}, nvml.ERROR_TIMEOUT
				}
			},
		}, nvml.SUCCESS
	}
	return e
}

func (e *eventful) open(t *testing.T, selector string) *Watch {
	t.Helper()
	dev, err := openWith(e, selector)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(dev)
	t.Cleanup(w.Close)
	return w
}

// eventually is for what another goroutine is about to do.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestEvents(t *testing.T) {
	e := newEventful()
	w := e.open(t, "0")
	began := time.Now()
	w.Follow()
	w.Follow()
	e.answers <- xidEvent(31)
	e.answers <- answerTo{nvml.EventData{EventType: nvml.EventTypeDoubleBitEccError}, nvml.SUCCESS}
	e.answers <- answerTo{nvml.EventData{EventType: nvml.EventTypePState}, nvml.SUCCESS}
	e.answers <- answerTo{r: nvml.ERROR_UNKNOWN}
	e.answers <- xidEvent(79)
	eventually(t, "three events", func() bool { return len(w.Events(began)) == 3 })
	got := w.Events(began)
	for i, want := range []string{"program Xid 31: the program touched memory that is not its own", "machine uncorrected memory error (ECC)", "machine Xid 79: the GPU has fallen off the bus"} {
		if s := got[i].Kind + " " + got[i].String(); s != want {
			t.Errorf("%d: %q", i, s)
		}
	}
	if len(w.Events(time.Now().Add(time.Second))) != 0 || len(w.Events(got[2].Time)) != 1 {
		t.Error("since")
	}
	if m := e.mask.Load(); m != nvml.EventTypeXidCriticalError|nvml.EventTypeDoubleBitEccError {
		t.Errorf("registered for %d", m)
	}
	if !w.Read().Has("Events") {
		t.Error("events are absent")
	}
	w.Close()
	w.Close()
	w.Follow()
	eventually(t, "the set is freed", func() bool { return e.freed.Load() == 1 })
	if len(w.Events(began)) != 3 {
		t.Error("closing forgot the events")
	}
}

// TestCloseDoesNotWait has a driver that hangs in the wait.
func TestCloseDoesNotWait(t *testing.T) {
	e := newEventful()
	hang := make(chan struct{})
	defer close(hang)
	entered := make(chan struct{}, 1)
	e.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{
			FreeFunc: func() nvml.Return { return nvml.SUCCESS },
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				entered <- struct{}{}
				<-hang
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			},
		}, nvml.SUCCESS
	}
	w := e.open(t, "0")
	w.Follow()
	<-entered
	w.Close() // the test would hang here
	if w.Read().SMClock != 1410 {
		t.Error("no reading beside a wait")
	}
}

// TestEventsEnd has a device that is lost while it is followed, and a driver
// that fails for good.
func TestEventsEnd(t *testing.T) {
	for r, n := range map[nvml.Return]int{nvml.ERROR_GPU_IS_LOST: 1, nvml.ERROR_UNINITIALIZED: maxFailures} {
		e := newEventful()
		w := e.open(t, "0")
		w.Follow()
		for range n {
			e.answers <- answerTo{r: r}
		}
		eventually(t, "the set is freed", func() bool { return e.freed.Load() == 1 })
		reading := w.Read()
		if reading.Has("Events") || reading.Absent[len(reading.Absent)-1].Why != name(r) {
			t.Errorf("%d: absent %v", r, reading.Absent)
		}
		events := w.Events(time.Time{})
		if lost := len(events) == 1 && events[0].Kind == kindMachine; lost != isLost(r) {
			t.Errorf("%d: events %v", r, events)
		}
		w.Close()
	}
}

// TestNoEvents has drivers that refuse at every step.
func TestNoEvents(t *testing.T) {
	refuse := func(change func(*eventful, *dgxa100.Device)) *Watch {
		e := newEventful()
		change(e, e.Devices[0].(*dgxa100.Device))
		w := e.open(t, "0")
		w.Follow()
		return w
	}
	for why, change := range map[string]func(*eventful, *dgxa100.Device){
		"not supported by this device": func(_ *eventful, d *dgxa100.Device) {
			d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		},
		"the driver reports no Xids for this device": func(_ *eventful, d *dgxa100.Device) {
			d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypePState, nvml.SUCCESS }
		},
		"driver error 999": func(e *eventful, _ *dgxa100.Device) {
			e.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return nil, nvml.ERROR_UNKNOWN }
		},
		"no permission": func(_ *eventful, d *dgxa100.Device) {
			d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.ERROR_NO_PERMISSION }
		},
		"the driver is too old: it lacks nvmlEventSetWait": func(e *eventful, _ *dgxa100.Device) {
			e.LookupSymbolFunc = func(s string) error {
				if strings.HasPrefix(s, "nvmlEventSetWait") {
					return fmt.Errorf("no %s", s)
				}
				return nil
			}
		},
	} {
		w := refuse(change)
		if a := w.Read().Absent; a[len(a)-1] != (Absence{"Events", why}) {
			t.Errorf("%s: absent %v", why, a)
		}
		if w.Events(time.Time{}) != nil {
			t.Errorf("%s: events", why)
		}
	}
}

// TestImpatientDriver returns from each wait at once: that must not become a
// loop without pause.
func TestImpatientDriver(t *testing.T) {
	e := newEventful()
	var waits atomic.Int32
	e.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{
			FreeFunc: func() nvml.Return { return nvml.SUCCESS },
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				waits.Add(1)
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			},
		}, nvml.SUCCESS
	}
	w := e.open(t, "0")
	w.Follow()
	time.Sleep(100 * time.Millisecond)
	if n := waits.Load(); n > 100 {
		t.Errorf("%d waits in a tenth of a second", n)
	}
}

func TestManyEvents(t *testing.T) {
	w := newWatch(&script{})
	w.put(newXid(13, time.Now()))
	w.put(newXid(79, time.Now()))
	for range 3 * maxEvents {
		w.put(newXid(13, time.Now()))
	}
	got := w.Events(time.Time{})
	if len(got) != maxEvents || got[0].Xid != 79 {
		t.Errorf("%d events, the first is %v", len(got), got[0])
	}
	for range 2 * maxEvents {
		w.put(newXid(48, time.Now()))
	}
	if got := w.Events(time.Time{}); len(got) != maxEvents || got[0].Xid != 48 {
		t.Errorf("%d events, the first is %v", len(got), got[0])
	}
}
