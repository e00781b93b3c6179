package search

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// Devices lists the numbers of the devices to launch on, from 1, less those set apart. Where devices are not told
// apart it is a single 0, which stands for any.
func Devices(l *Ledger) (out []int) {
	for k := range l.Search.Devices {
		if !l.apart[k+1] {
			out = append(out, k+1)
		}
	}
	if len(out) == 0 {
		return []int{0}
	}
	return out
}

// madeOn is the number of the device that a trial was really made on, which may not be the one asked for: the machine
// of a resumed search may have other devices. A device seen for the first time gets the next number.
func madeOn(l *Ledger, t Trial) int {
	if len(t.Devices) != 1 {
		return t.On
	}
	if l.seen == nil {
		l.seen = slices.Clone(l.Search.Devices)
	}
	if !slices.Contains(l.seen, t.Devices[0].UUID) {
		l.seen = append(l.seen, t.Devices[0].UUID)
	}
	return slices.Index(l.seen, t.Devices[0].UUID) + 1
}

// IsApart reports whether a device, by its number, was set apart.
func IsApart(l *Ledger, device int) bool { return l.apart[device] }

// DeviceName is the name of a device for people.
func DeviceName(l *Ledger, device int) string {
	return fmt.Sprintf("device %d (%s)", device, l.Search.Devices[device-1])
}

// SetApart drops a device that disagrees with the others: nothing more is launched on it, and its launches stay in the
// ledger but count no more.
func SetApart(r *Run, device int, why string) {
	l := r.Ledger
	l.apart[device] = true
	l.void(func(t Trial) bool { return t.On == device })
	r.Account.Warn(fmt.Sprintf("devices disagree: %s\nhint: none of its launches counts; --gpus with a list searches on it alone", why))
	if l.Search.Apart != nil {
		l.Search.Apart(device)
	}
}

// spent reports whether the budget is used up.
func spent(r *Run) bool { return r.Search.Spent != nil && r.Search.Spent() }

// LookAt launches an end once on each device, all at the same time where that is possible, and returns the trials in
// the order of Devices.
func LookAt(r *Run, id string, why bisect.Purpose) (out []Trial, err error) {
	var next []Wanted
	for _, on := range Devices(r.Ledger) {
		next = append(next, Wanted{id, why, on})
	}
	Announce(r, next)
	for range next {
		t, err := r.Ledger.Launch(r.Ctx, r.Question, id, why)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// PairsAtOnce is how many pairs of launches are made at a time, where so many are needed. A device makes one pair.
func PairsAtOnce(r *Run, need int) int {
	return max(1, min(need, max(len(r.Search.Devices), r.Search.AtOnce/2)))
}

// DeviceOfPair is the device on which a pair of launches is made, by its number.
func DeviceOfPair(r *Run, pair int) int {
	all := Devices(r.Ledger)
	return all[pair%len(all)]
}

// tellsApart is how many launches in a row must end differently on two devices, always in the same two ways, before
// the devices count as different: a complaint may be flaky.
const tellsApart = 4

// Compare sets apart the devices on which an end keeps ending in another class than on the first. all holds a launch
// from each device, as LookAt returns them. An error is that of a launch.
func Compare(r *Run, all []Trial) error {
	for _, t := range all[1:] {
		if t.Class == all[0].Class || t.On == 0 {
			continue
		}
		same := true
		for n := 1; n < tellsApart && same && !spent(r); n++ {
			var next []Wanted
			for _, x := range []Trial{all[0], t} {
				next = append(next, Wanted{x.Candidate.Commit, x.Purpose, x.On})
			}
			Announce(r, next)
			for _, was := range []Trial{all[0], t} {
				x, err := r.Ledger.Launch(r.Ctx, r.Question, was.Candidate.Commit, was.Purpose)
				if err != nil {
					return err
				}
				same = same && x.Class == was.Class
			}
		}
		if same {
			SetApart(r, t.On, fmt.Sprintf("on %s commit %s ends as %s, on %s as %s, in %d launches each", DeviceName(r.Ledger, t.On), bisect.ShortID(t.Candidate.Commit),
				t.Outcome.Describe(), DeviceName(r.Ledger, all[0].On), all[0].Outcome.Describe(), tellsApart))
		}
	}
	return nil
}
