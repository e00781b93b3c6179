package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrHidden is wrapped by the error of Select when CUDA_VISIBLE_DEVICES is set
// and names no device. Somebody at a shell may have meant that: go on without a
// device. Inside a job that asked a scheduler for one, the machine is at fault.
var ErrHidden = errors.New("CUDA_VISIBLE_DEVICES hides every device")

const visibleDevices = "CUDA_VISIBLE_DEVICES"

// Select turns a configuration's list of devices into UUIDs.
//
//   - nil or "auto" alone: the devices of CUDA_VISIBLE_DEVICES if that is set, else the first device; no device, and no
//     error, if there is no driver or it knows none. Of a device in MIG mode it takes the first slice, as CUDA does.
//   - "none" alone: no device.
//   - else each is the driver's index of a device, or a UUID or the beginning of one. Of a device that is cut into
//     several slices, one must be named.
//
// Errors wrap ErrHidden or ErrUnavailable; one for an unknown device lists those that are there.
func Select(spec []string) ([]string, error) {
	if slices.Equal(spec, []string{"none"}) {
		return nil, nil
	}
	visible, set := os.LookupEnv(visibleDevices)
	if len(spec) > 0 && !slices.Equal(spec, []string{"auto"}) {
		return selectNamed(spec, Probe())
	}
	if !set {
		return selectFirst(Probe())
	}
	if hides(visible) {
		return nil, fmt.Errorf("%w: it is %q\nhint: unset it, or name a device in it", ErrHidden, visible)
	}
	return selectVisible(visible, Probe())
}

// Several turns what a search may use at a time into UUIDs to choose from, and how many of them: spec is a number of
// devices, "all", or a list with commas of what Select understands. A number and "all" choose among the devices that
// Select takes for among or, if that leaves the choice to Select, among all of the machine. It fails if there are
// fewer, and wraps ErrUnavailable if no device can be asked.
func Several(spec string, among []string) (ids []string, n int, err error) {
	n, number := strconv.Atoi(spec)
	if number != nil && spec != "all" {
		ids, err = selectNamed(strings.Split(strings.TrimSuffix(spec, ","), ","), Probe())
		return ids, len(ids), err
	}
	rep := Probe()
	_, visible := os.LookupEnv(visibleDevices)
	switch {
	case !rep.Available:
		return nil, 0, fmt.Errorf("%w: %s", ErrUnavailable, rep.Why)
	case visible || len(among) > 0 && !slices.Equal(among, []string{"auto"}):
		if ids, err = Select(among); err != nil {
			return nil, 0, err
		}
	default:
		ids = everyDevice(rep)
	}
	switch {
	case spec == "all" && len(ids) > 0:
		return ids, len(ids), nil
	case n > len(ids) || n < 1:
		return nil, 0, fmt.Errorf("%s devices asked for, %d found%s", spec, len(ids), noted(ids))
	}
	return ids, n, nil
}

// everyDevice is what programs can use as a device of their own: a device, or the slices that it is cut into.
func everyDevice(rep Report) (ids []string) {
	for _, d := range rep.Devices {
		if d.MIG {
			ids = append(ids, d.Slices...)
		} else if d.UUID != "" {
			ids = append(ids, d.UUID)
		}
	}
	return ids
}

// noted lists devices behind a text.
func noted(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ": " + strings.Join(ids, ", ")
}

// hides reports whether CUDA sees no device: it stops at the first entry that it cannot use. The words are what
// schedulers and container runtimes write.
func hides(visible string) bool {
	first, _, _ := strings.Cut(visible, ",")
	first = strings.TrimSpace(first)
	n, err := strconv.Atoi(first)
	return slices.Contains([]string{"", "NoDevFiles", "none", "void"}, first) || err == nil && n < 0
}

// selectFirst is the device that CUDA would use by default.
func selectFirst(rep Report) ([]string, error) {
	if len(rep.Devices) == 0 {
		return nil, nil
	}
	uuid, err := usable(rep.Devices[0], rep, false)
	if err != nil {
		return nil, err
	}
	return []string{uuid}, nil
}

// selectVisible follows CUDA: what comes after an entry that is not there does
// not count. An index is taken as the driver's, which is CUDA's too where all
// devices are alike or CUDA_DEVICE_ORDER is PCI_BUS_ID.
func selectVisible(visible string, rep Report) ([]string, error) {
	if len(rep.Devices) == 0 { // nothing to ask: trials run unwatched, on what CUDA finds
		return nil, nil
	}
	var out []string
	for _, name := range strings.Split(visible, ",") {
		uuid, err := find(strings.TrimSpace(name), rep, false)
		if err != nil && out == nil {
			return nil, fmt.Errorf("%s=%s: %w", visibleDevices, visible, err)
		}
		if err != nil {
			break
		}
		out = append(out, uuid)
	}
	return out, nil
}

// selectNamed finds what the user named, each device once. Here a missing driver is an error: a device was asked for.
func selectNamed(spec []string, rep Report) ([]string, error) {
	if !rep.Available {
		return nil, fmt.Errorf("devices %s: %w: %s", strings.Join(spec, ", "), ErrUnavailable, rep.Why)
	}
	var out []string
	for _, name := range spec {
		uuid, err := find(strings.TrimSpace(name), rep, true)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, uuid) {
			out = append(out, uuid)
		}
	}
	return out, nil
}

// find returns the UUID of what name names; strict as in usable.
func find(name string, rep Report, strict bool) (string, error) {
	if n, err := strconv.Atoi(name); err == nil {
		i := slices.IndexFunc(rep.Devices, func(d Device) bool { return d.Index == n })
		if i < 0 {
			return "", noDevice(name, "", rep)
		}
		return usable(rep.Devices[i], rep, strict)
	}
	if !strings.HasPrefix(name, "GPU-") && !strings.HasPrefix(name, "MIG-") {
		return "", noDevice(name, "", rep)
	}
	return findUUID(name, rep, strict)
}

// findUUID finds a device or slice by its UUID, or by the beginning of it if no other one begins like that.
func findUUID(name string, rep Report, strict bool) (string, error) {
	owners := map[string]Device{}
	for _, d := range rep.Devices {
		for _, uuid := range append(slices.Clone(d.Slices), d.UUID) {
			if strings.HasPrefix(uuid, name) {
				owners[uuid] = d
			}
		}
	}
	if d, ok := owners[name]; ok {
		owners = map[string]Device{name: d}
	}
	if len(owners) > 1 {
		return "", noDevice(name, "more than one UUID begins with it", rep)
	}
	for uuid, d := range owners {
		if uuid == d.UUID {
			return usable(d, rep, strict)
		}
		return uuid, nil
	}
	return "", noDevice(name, "", rep)
}

// usable is the UUID by which a program can use d: that of a slice in MIG mode.
// Where there are several slices, strict refuses to choose.
func usable(d Device, rep Report, strict bool) (string, error) {
	name := strconv.Itoa(d.Index)
	switch {
	case d.UUID == "" && len(d.Absent) > 0:
		return "", noDevice(name, "the driver does not open it: "+d.Absent[0].Why, rep)
	case d.UUID == "":
		return "", noDevice(name, "the driver does not open it", rep)
	case !d.MIG:
		return d.UUID, nil
	case len(d.Slices) == 0:
		return "", noDevice(name, "MIG mode is on and it has no slices", rep)
	case len(d.Slices) > 1 && strict:
		return "", noDevice(name, "it is cut into slices; name one of them", rep)
	}
	return d.Slices[0], nil
}

// noDevice explains why name cannot be used, and lists what is there.
func noDevice(name, why string, rep Report) error {
	if why != "" {
		why = ": " + why
	}
	var list []string
	for _, d := range rep.Devices {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d %s", d.Index, d.UUID)))
		list = append(list, d.Slices...)
	}
	there := "this machine has no device"
	if list != nil {
		there = "this machine has " + strings.Join(list, ", ")
	}
	return fmt.Errorf("device %q: %w%s\nhint: %s", name, errNoDevice, why, there)
}

// Held are devices that this process has locked and watches.
type Held struct {
	Watches  []*Watch
	releases []func()
}

// Take locks a device and watches it. If another process has it, Take calls waiting with the reason and waits until ctx
// ends; if waiting is nil, it fails at once with an error that wraps errLocked.
func (h *Held) Take(ctx context.Context, id string, waiting func(why error)) error {
	release, err := TryLock(id)
	if errors.Is(err, errLocked) && waiting != nil {
		waiting(err)
		release, err = lock(ctx, id)
	}
	if err != nil {
		return err
	}
	w, err := Open(id)
	if err != nil {
		release()
		return err
	}
	w.Follow()
	h.Watches, h.releases = append(h.Watches, w), append(h.releases, release)
	return nil
}

// TakeFree takes up to n of the devices that no other process has locked or computes on. If there is none it waits for the
// first of ids, as Take does. busy says, by device, why others were not taken.
func (h *Held) TakeFree(ctx context.Context, ids []string, n int, waiting func(why error)) (busy map[string]string, err error) {
	busy = map[string]string{}
	for _, id := range ids {
		if len(h.Watches) == n {
			break
		}
		err := h.Take(ctx, id, nil)
		if errors.Is(err, errLocked) {
			busy[id] = err.Error()
			continue
		}
		if err != nil {
			return busy, err
		}
		last := len(h.Watches) - 1
		if others := h.Watches[last].Read().Processes; len(others) > 0 {
			busy[id] = fmt.Sprintf("process %d computes on device %s", others[0].PID, id)
			h.Watches[last].Close()
			h.releases[last]()
			h.Watches, h.releases = h.Watches[:last], h.releases[:last]
		}
	}
	if len(h.Watches) == 0 && len(ids) > 0 {
		delete(busy, ids[0])
		return busy, h.Take(ctx, ids[0], waiting)
	}
	return busy, nil
}

// Close stops watching and unlocks the devices.
func (h *Held) Close() {
	for _, w := range h.Watches {
		w.Close()
	}
	for _, release := range h.releases {
		release()
	}
	h.Watches, h.releases = nil, nil
}
