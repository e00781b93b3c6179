package gpu

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestScripted(t *testing.T) {
	began := time.Now()
	w := Scripted(Device{UUID: "GPU-1"}, func(n int) Reading { return Reading{Temperature: uint32(n)} }, func() []Event {
		return []Event{{Time: began.Add(-time.Hour), Xid: 13}, {Xid: 79}, {Time: began, Xid: 48}}
	})
	w.Follow()
	if w.Device().UUID != "GPU-1" {
		t.Errorf("got %+v", w.Device())
	}
	for n := range 3 {
		if r := w.Read(); r.Temperature != uint32(n) || r.Time.Before(began) || !r.Has("Events") {
			t.Errorf("%d: %+v", n, r)
		}
	}
	if got := w.Events(began); len(got) != 2 || got[0].Xid != 79 || got[1].Xid != 48 {
		t.Errorf("got %v", got)
	}
	w.Close()
	if w := Scripted(Device{}, nil, nil); w.Events(began) != nil || w.Read().Processes != nil {
		t.Error("an empty script")
	}
}

// TestScriptedByMany reads from several goroutines: each n comes once.
func TestScriptedByMany(t *testing.T) {
	seen := map[int]int{}
	w := Scripted(Device{}, func(n int) Reading { seen[n]++; return Reading{} }, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				w.Read()
			}
		})
	}
	wg.Wait()
	if len(seen) != 400 || seen[399] != 1 {
		t.Errorf("%d different reads", len(seen))
	}
}

// leaving lists process 7 for the first reads, and process 1 always.
func leaving(reads int) *Watch {
	return Scripted(Device{}, func(n int) Reading {
		r := Reading{Processes: []Process{{PID: 1}}, Temperature: uint32(n)}
		if n < reads {
			r.Processes = append(r.Processes, Process{PID: 7})
		}
		return r
	}, nil)
}

func TestClear(t *testing.T) {
	before := []Process{{PID: 1}}
	left, r := leaving(4).Clear(t.Context(), before, time.Minute)
	if len(left) != 0 || r.Temperature != 4 {
		t.Errorf("left %v at read %d", left, r.Temperature)
	}
	left, r = leaving(1<<30).Clear(t.Context(), before, 30*time.Millisecond)
	if diff := cmp.Diff([]Process{{PID: 7}}, left); diff != "" || len(r.Processes) != 2 {
		t.Error(diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if left, r = leaving(1).Clear(ctx, before, time.Hour); len(left) != 1 || r.Temperature != 0 {
		t.Errorf("left %v at read %d", left, r.Temperature)
	}
	if left, _ = leaving(0).Clear(ctx, before, 0); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// TestClearLooksOnceMore has the time end, and then the process go, in a pause.
func TestClearLooksOnceMore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := Scripted(Device{}, func(n int) Reading {
		cancel()
		return Reading{Processes: []Process{{PID: 7}}[min(n, 1):]}
	}, nil)
	if left, r := w.Clear(ctx, nil, time.Hour); len(left) != 0 {
		t.Errorf("left %v, %+v", left, r)
	}
}

// TestHangingDriver never answers a question.
func TestHangingDriver(t *testing.T) {
	hang := make(chan struct{})
	w := Scripted(Device{}, func(int) Reading { <-hang; return Reading{} }, nil)
	defer close(hang)
	w.tick = time.Millisecond
	left, r := w.Clear(t.Context(), nil, time.Minute)
	if left != nil || !r.Lost || r.Has("Processes") || r.Has("HWPowerBrake") || r.Time.IsZero() {
		t.Errorf("left %v, %+v", left, r)
	}
	if fault := Between(Reading{}, r, nil).Fault(); fault != "the GPU is lost" {
		t.Errorf("got %q", fault)
	}
}

func TestExplainXid(t *testing.T) {
	kinds := map[string][]uint64{
		kindProgram: {8, 11, 13, 31, 43, 45, 68, 109},
		kindMachine: {46, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143, 144, 145, 146, 147, 148, 149, 150, 154},
		kindUnknown: {0, 1, 32, 151, 999, 1 << 40},
	}
	for kind, xids := range kinds {
		for _, xid := range xids {
			if got, text := explainXid(xid); got != kind || text == "" {
				t.Errorf("%d: %s, %q", xid, got, text)
			}
		}
	}
	if len(programXids)+len(machineXids) != len(kinds[kindProgram])+len(kinds[kindMachine]) {
		t.Error("the table has what is not tested")
	}
	if s := (Event{Xid: 79}).String(); s != "Xid 79: the GPU has fallen off the bus" {
		t.Errorf("got %q", s)
	}
}

// So many programs as large as what is there now fit into nine tenths of the memory of each device.
func TestFits(t *testing.T) {
	const gb = 1 << 30
	for name, c := range map[string]struct {
		used []uint64 // by one process each, on two devices
		want int
	}{
		"what takes most of a device counts": {[]uint64{1 * gb, 10 * gb}, 8},
		"it is larger than nine tenths":      {[]uint64{85 * gb, gb}, 1},
		"the driver does not tell":           {[]uint64{gb, 0}, 0},
	} {
		var devices []*Watch
		for _, n := range c.used {
			devices = append(devices, Scripted(Device{MemoryTotal: 90 * gb}, func(int) Reading {
				return Reading{Processes: []Process{{PID: 7, UsedBytes: n}}}
			}, nil))
		}
		if got := Fits(devices); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
