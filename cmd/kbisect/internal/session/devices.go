package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// Devices are the GPUs of a job: locked against other kbisects, and watched.
type Devices struct {
	Watches []*gpu.Watch
	locks   []func()
	driver  string
	why     string // why nobody watches, when there are none
	None    bool   // no program can find any here
}

// openDevices chooses, locks and opens the devices of a job. A machine without any does as well,
// unless the configuration names some.
func openDevices(ctx context.Context, gpus []string, ui *progress.Display) (*Devices, error) {
	d := &Devices{}
	if slices.Equal(gpus, []string{"none"}) {
		return d, nil
	}
	report := gpu.Probe()
	d.driver = report.Driver
	ids, err := gpu.Select(gpus)
	switch {
	case errors.Is(err, gpu.ErrHidden) && (!report.Available || len(report.Devices) == 0):
		d.None = true
		return d, nil
	case errors.Is(err, gpu.ErrHidden):
		return nil, &bisect.InfraError{What: "choosing a device", Err: fmt.Errorf("%w\nhint: write [device] gpus = \"none\" to do without", err)}
	case errors.Is(err, gpu.ErrUnavailable):
		return nil, exit.Usagef("[device] gpus: %w\nhint: \"auto\" takes what there is, \"none\" does without; kbisect doctor says what this machine has", err)
	case err != nil:
		return nil, exit.Usagef("[device] gpus: %w", err)
	}
	for _, id := range ids {
		if err := d.open(ctx, id, ui); err != nil {
			d.Close()
			return nil, &bisect.InfraError{What: "opening device " + id, Err: err}
		}
	}
	if len(ids) == 0 {
		d.why, d.None = report.Why, deviceless()
	}
	return d, nil
}

func (d *Devices) open(ctx context.Context, id string, ui *progress.Display) error {
	release, err := gpu.TryLock(id)
	if errors.Is(err, gpu.ErrLocked) {
		ui.Say("waiting: " + strings.ReplaceAll(err.Error(), "\n", " "))
		release, err = gpu.Lock(ctx, id)
	}
	if err != nil {
		return err
	}
	d.locks = append(d.locks, release)
	w, err := gpu.Open(id)
	if err != nil {
		return err
	}
	w.Follow()
	d.Watches = append(d.Watches, w)
	return nil
}

// Close stops watching and gives the devices back.
func (d *Devices) Close() {
	if d == nil {
		return
	}
	for _, w := range d.Watches {
		w.Close()
	}
	for _, release := range d.locks {
		release()
	}
	d.Watches, d.locks = nil, nil
}

// Unwatched says why no device was watched, when one was wanted.
func (d *Devices) Unwatched() string {
	if d == nil {
		return ""
	}
	return d.why
}

// Names are the devices for people.
func (d *Devices) Names() (out []string) {
	if d == nil {
		return nil
	}
	for _, w := range d.Watches {
		x := w.Device()
		out = append(out, fmt.Sprintf("%s %s (driver %s)", x.Name, x.UUID, d.driver))
	}
	return out
}
