package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// Devices are the GPUs of a session: locked against other runs of kbisect, and watched for disturbances.
type Devices struct {
	Watches []*gpu.Watch
	locks   []func()
	driver  string
	why     string // why no device is watched, where there is none
	None    bool   // the machine has no device files
}

// openDevices chooses, locks and opens the devices of a session. A machine without devices is fine, unless the
// configuration names some.
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
		return nil, &bisect.InfraError{What: "choosing a device", Err: fmt.Errorf("%w\nhint: set [device] gpus = \"none\" to run without a device", err)}
	case errors.Is(err, gpu.ErrUnavailable):
		return nil, exit.Usagef("[device] gpus: %w\nhint: \"auto\" uses the devices of this machine, \"none\" uses no device; kbisect doctor lists them", err)
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

// open locks and watches one device. What it has taken before an error is given back by Close.
func (d *Devices) open(ctx context.Context, id string, ui *progress.Display) error {
	// Whoever waits wants to know for whom; without anybody on the device nothing is said.
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

// Close stops watching and unlocks the devices.
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

// Unwatched says why no device was watched although one was wanted, "" otherwise.
func (d *Devices) Unwatched() string {
	if d == nil {
		return ""
	}
	return d.why
}

// Names are the devices as shown in reports.
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

// sandbox is that of builds and launches, nil where none was asked for.
func sandbox(ctx context.Context, s *Session) (*proc.Sandbox, error) {
	if !s.Policy.Sandbox {
		return nil, nil
	}
	dir, remove, err := machine.Scratch(ctx)
	if err != nil {
		return nil, exit.Usage(err)
	}
	defer remove()
	if err := proc.CheckSandbox(ctx, dir); err != nil {
		return nil, exit.Usage(err)
	}
	box := &proc.Sandbox{Network: s.Policy.Network, Read: []string{s.Repo.CommonDir()}}
	if dir := s.Repo.WorkDir(); dir != "" {
		box.Read = append(box.Read, dir)
	}
	if !slices.Equal(s.Policy.GPUs, []string{"none"}) { // those that are watched are known by name
		box.Devices = []string{"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd", "/dev/dxg"}
	}
	network := "without a network"
	if box.Network {
		network = "with the network"
	}
	s.Warn("builds and launches ran in a sandbox, " + network)
	return box, nil
}
