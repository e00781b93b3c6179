package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// Devices are the GPUs of a session: locked against other runs of kbisect, and watched for disturbances, until
// Close. Names and Unwatched may be called on nil.
type Devices struct {
	gpu.Held
	driver string
	why    string        // why no device is watched, if none is
	None   bool          // the machine has no device files
	waited time.Duration // for devices that were in use; not charged to the budget
}

// openDevices chooses, locks and opens the devices of a session: all that its trials use or, if its trials are spread
// over several, the ones that are free now. It waits for devices that are in use, with a message. A machine without
// devices is fine unless the configuration names some. Devices that were named wrongly are a usage error, devices that
// cannot be opened are an InfraError.
func openDevices(ctx context.Context, p *policy.Policy, ui *progress.Display) (d *Devices, warnings []string, err error) {
	d = &Devices{}
	if policy.Deviceless(p) && p.Spread == "" {
		return d, nil, nil
	}
	report := gpu.Probe()
	d.driver = report.Driver
	ids, n, key := []string(nil), 0, "[device] gpus"
	if p.Spread != "" {
		key = "--gpus"
		ids, n, err = gpu.Several(p.Spread, p.GPUs)
	} else {
		ids, err = gpu.Select(p.GPUs)
	}
	switch {
	case errors.Is(err, gpu.ErrHidden) && (!report.Available || len(report.Devices) == 0):
		d.None = true
		return d, nil, nil
	case errors.Is(err, gpu.ErrHidden):
		return nil, nil, &bisect.InfraError{What: "choosing a device", Err: fmt.Errorf("%w\nhint: --gpus none runs without a device", err)}
	case errors.Is(err, gpu.ErrUnavailable):
		return nil, nil, exit.Usagef("%s: %w\nhint: [device] gpus = \"auto\" uses the devices of this machine, \"none\" uses no device; kbisect doctor lists them", key, err)
	case err != nil:
		return nil, nil, exit.Usagef("%s: %w", key, err)
	}
	waiting := func(why error) { ui.Say("waiting: " + strings.ReplaceAll(why.Error(), "\n", " ")) }
	began := time.Now()
	if p.Spread != "" {
		var busy map[string]string
		busy, err = d.TakeFree(ctx, ids, n, waiting)
		for _, id := range ids {
			if why := busy[id]; why != "" && len(d.Watches) < n {
				warnings = append(warnings, "searched without a device that was in use: "+why)
				ui.Warn("beginning without a device that is in use: " + why)
			}
		}
	} else {
		for _, id := range ids {
			if err == nil {
				err = d.Take(ctx, id, waiting)
			}
		}
	}
	d.waited = time.Since(began)
	if err != nil {
		d.Close()
		return nil, nil, &bisect.InfraError{What: "opening devices " + strings.Join(ids, ", "), Err: err}
	}
	if len(ids) == 0 {
		d.why, d.None = report.Why, deviceless()
	}
	return d, warnings, nil
}

// Unwatched says why no device was watched although one was wanted; "" otherwise.
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

// sandbox is the sandbox of builds and launches; nil if none was asked for. It is tried once here: on a machine that
// does not allow it, every launch would fail and look like the candidate's fault.
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
	if !policy.Deviceless(s.Policy) { // those that are watched are known by name
		box.Devices = []string{"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd", "/dev/dxg"}
	}
	network := "without a network"
	if box.Network {
		network = "with the network"
	}
	s.Warn("builds and launches ran in a sandbox, " + network)
	return box, nil
}
