//go:build cgo && linux

package gpu

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// instance is the place of a slice on its GPU.
type instance struct {
	gpu     int
	compute int
	parent  string // UUID of the GPU
}

// newSlice wraps the handle of a slice.
func newSlice(lib nvml.Interface, dev nvml.Device) (*device, error) {
	d := newDevice(lib, dev, 0)
	if !d.has("nvmlDeviceGetDeviceHandleFromMigDeviceHandle") {
		return nil, fmt.Errorf("%s", lacks("nvmlDeviceGetDeviceHandleFromMigDeviceHandle"))
	}
	whole, r := dev.GetDeviceHandleFromMigDeviceHandle()
	if r != nvml.SUCCESS {
		return nil, fmt.Errorf("the GPU that the slice belongs to: %s", name(r))
	}
	parent := newDevice(lib, whole, -1)
	d.whole, d.index = whole, parent.index
	a := &asking{d: parent}
	at, ok := d.instance(a, dev)
	at.parent = a.present()
	if !ok { // without its place, its processes and events look like those of other slices
		return nil, fmt.Errorf("the place of the slice on its GPU: %s", a.absent[0].Why)
	}
	d.slice = &at
	return d, nil
}

// instance asks for the place of a slice.
func (d *device) instance(a *asking, dev nvml.Device) (instance, bool) {
	var at instance
	ok := a.ask("GPUInstance", "nvmlDeviceGetGpuInstanceId", func() (r nvml.Return) { at.gpu, r = dev.GetGpuInstanceId(); return r })
	ok = ok && a.ask("ComputeInstance", "nvmlDeviceGetComputeInstanceId", func() (r nvml.Return) { at.compute, r = dev.GetComputeInstanceId(); return r })
	return at, ok
}

// mig asks whether the device is cut, and into what.
func (d *device) mig(a *asking, out *Device) {
	if d.slice != nil {
		out.Parent = d.slice.parent
		return
	}
	a.ask("MIG", "nvmlDeviceGetMigMode", func() nvml.Return {
		mode, _, r := d.dev.GetMigMode()
		out.MIG = r == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
		if r == nvml.ERROR_NOT_SUPPORTED { // a card without MIG: an answer, not a gap
			return nvml.SUCCESS
		}
		return r
	})
	if out.MIG {
		out.Slices = d.slices(a)
	}
}

// slices lists what the device is cut into; the places for slices may have gaps.
func (d *device) slices(a *asking) []string {
	if !d.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		a.absent = append(a.absent, Absence{"Slices", lacks("nvmlDeviceGetMigDeviceHandleByIndex")})
		return nil
	}
	places := 0
	a.ask("Slices", "nvmlDeviceGetMaxMigDeviceCount", func() (r nvml.Return) { places, r = d.dev.GetMaxMigDeviceCount(); return r })
	var out []string
	for i := range places {
		dev, r := d.dev.GetMigDeviceHandleByIndex(i)
		if r == nvml.ERROR_NOT_FOUND || r == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		uuid := ""
		if a.note("Slices", r) && a.ask("Slices", "nvmlDeviceGetUUID", func() (r nvml.Return) { uuid, r = dev.GetUUID(); return r }) {
			out = append(out, uuid)
		}
	}
	return out
}

// newest is the first of the forms of a call that the library has, or the last:
// the wrapper picks among them in the same order.
func (d *device) newest(forms ...string) string {
	if i := slices.IndexFunc(forms, d.has); i >= 0 {
		return forms[i]
	}
	return forms[len(forms)-1]
}

// processes asks the slice itself. A driver that answers for whole GPUs only
// lists all processes, with the place of each.
func (d *device) processes() ([]nvml.ProcessInfo, nvml.Return) {
	procs, r := d.dev.GetComputeRunningProcesses()
	if d.slice == nil {
		return procs, r
	}
	if r == nvml.ERROR_NOT_SUPPORTED {
		procs, r = d.whole.GetComputeRunningProcesses()
	}
	procs = slices.DeleteFunc(slices.Clone(procs), func(p nvml.ProcessInfo) bool {
		return !d.slice.covers(p.GpuInstanceId, p.ComputeInstanceId)
	})
	return procs, r
}

// covers reports whether something at that place concerns the slice; what has
// no place concerns the whole GPU, and so the slice too.
func (at *instance) covers(gpu, compute uint32) bool {
	const nowhere = 1<<32 - 1
	same := func(have int, of uint32) bool { return of == nowhere || int(of) == have }
	return same(at.gpu, gpu) && same(at.compute, compute)
}
