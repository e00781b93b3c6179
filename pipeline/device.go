package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

const (
	// clearBound is how long the contexts of an ended trial may stay on a device.
	clearBound = 10 * time.Second

	// capMin is how long the power cap may hold the clocks down in one trial before its times
	// are doubted: negative, as at full load it is the normal state of many cards, and meets
	// every candidate alike.
	capMin = -1
)

// watched is what the devices told before a trial.
type watched struct {
	from   time.Time
	before []gpu.Reading
}

// watch reads the devices before a trial.
func (p *Pipeline) watch() watched {
	w := watched{from: time.Now()}
	for _, d := range p.Devices {
		w.before = append(w.before, d.Read())
	}
	return w
}

// note is what the devices of a trial went through.
type note struct {
	notes     []bisect.DeviceNote
	throttled string
	shared    string
	fault     string // the machine's
}

// since waits until the trial has left the devices, reads them again and compares.
func (p *Pipeline) since(ctx context.Context, w watched) note {
	var n note
	for i, d := range p.Devices {
		left, after := d.Clear(ctx, w.before[i].Processes, clearBound)
		c := gpu.Between(w.before[i], after, d.Events(w.from))
		x := bisect.DeviceNote{UUID: d.Device().UUID, Before: asJSON(w.before[i]), After: asJSON(after), Change: asJSON(c)}
		if yes, why := c.Throttled(capMin); yes {
			x.Throttled = why
			n.throttled = join(n.throttled, why)
		}
		if yes, why := c.Shared(); yes {
			x.Shared = why
			n.shared = join(n.shared, why)
		}
		if why := c.Fault(); why != "" {
			n.fault = join(n.fault, d.Device().UUID+": "+why)
		}
		if len(left) > 0 && after.Has("Processes") && len(w.before[i].Processes) == 0 && n.fault == "" {
			n.shared = join(n.shared, fmt.Sprintf("%d processes did not leave the device within %v", len(left), clearBound))
		}
		n.notes = append(n.notes, x)
	}
	return n
}

// visible limits a trial to the watched devices, so that it runs on what is read and locked.
func (p *Pipeline) visible(env []string) []string {
	if len(p.Devices) == 0 {
		return env
	}
	var ids []string
	for _, d := range p.Devices {
		ids = append(ids, d.Device().UUID)
	}
	env = slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "CUDA_VISIBLE_DEVICES=") || strings.HasPrefix(v, "CUDA_DEVICE_ORDER=")
	})
	return append(env, "CUDA_VISIBLE_DEVICES="+strings.Join(ids, ","), "CUDA_DEVICE_ORDER=PCI_BUS_ID")
}

func asJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
