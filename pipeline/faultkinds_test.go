package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/gpu"
)

// fault is one thing that goes wrong with the machine.
type fault struct {
	kind  string
	at    int           // before or in which trial; for those of the device, at which reading
	lasts int           // for how many of them; 0: until the search ends
	delay time.Duration // from the beginning of the trial
	disk  bool          // needs a small file system of its own
	once  bool          // the candidate may have done it
	begin func()
	end   func() // may be nil

	on, done bool // it has begun; it has been injected at all
}

func (f *fault) String() string {
	s := fmt.Sprintf("%s at %d for %d", f.kind, f.at, f.lasts)
	if f.delay > 0 {
		s += fmt.Sprintf(", %v into it", f.delay.Round(time.Millisecond))
	}
	if !f.done {
		s += " (not reached)"
	}
	return s
}

// draw picks a fault at random.
func (r *rig) draw(disks bool) *fault {
	kinds := []func(*fault){
		r.deviceLost, r.deviceLost, r.recovery, r.xid, r.throttled, r.foreign, r.foreign, r.helloBroken,
		r.slotRemoved, r.slotReplaced, r.workRemoved, r.stampsShifted, r.cacheDamaged, r.logsRemoved, r.ledger,
		r.signals, r.signals, r.signals, r.signals,
	}
	if disks {
		kinds = append(kinds, r.diskFull, r.diskFull, r.diskFullForAMoment, r.diskFullForAMoment, r.diskReadOnly, r.diskReadOnly)
	}
	f := &fault{at: r.rng.IntN(6), lasts: r.rng.IntN(4)}
	kinds[r.rng.IntN(len(kinds))](f)
	return f
}

// turn begins and ends a fault when its time has come.
func (r *rig) turn(ctx context.Context, f *fault) {
	if f.begin == nil {
		return
	}
	if f.on && f.lasts > 0 && r.trials >= f.at+f.lasts {
		r.heal(f)
		return
	}
	if f.done || r.trials < f.at {
		return
	}
	f.on, f.done = true, true
	if f.delay == 0 {
		f.begin()
		return
	}
	r.pending.Go(func() {
		select {
		case <-time.After(f.delay):
			f.begin()
		case <-ctx.Done():
		}
	})
}

func (r *rig) heal(f *fault) {
	if f.on && f.end != nil {
		r.pending.Wait()
		f.end()
	}
	f.on = false
}

func (r *rig) healAll() {
	for _, f := range r.faults {
		r.heal(f)
	}
}

// must reports what a fault could not do, unless the thing was not there yet.
func (r *rig) must(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Errorf("injecting: %v", err)
	}
}

// aSlot is the folder of one of the slots that a search uses.
func (r *rig) aSlot() string {
	name := []string{"good", "bad", "search", "search"}[r.rng.IntN(4)]
	return filepath.Join(r.disk(), "work", r.session, name)
}

func (r *rig) helloBroken(f *fault) {
	f.kind = "known-good program broken"
	file := filepath.Join(r.disk(), "work", r.session, "hello", "hello")
	if r.rng.IntN(2) == 0 {
		f.kind = "known-good program removed"
		f.begin = func() { r.must(os.Rename(file, file+".away")) }
		f.end = func() { r.must(os.Rename(file+".away", file)) }
		return
	}
	set := func(body string) { r.must(os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o777)) }
	f.begin, f.end = func() { set("exit 1") }, func() { set("echo hello") }
}

func (r *rig) slotRemoved(f *fault) {
	f.kind = "slot removed"
	slot := r.aSlot()
	f.begin = func() { r.must(os.RemoveAll(slot)) }
}

func (r *rig) slotReplaced(f *fault) {
	f.kind = "slot cannot be written"
	slot := r.aSlot()
	f.begin = func() {
		r.must(os.RemoveAll(slot))
		r.must(os.WriteFile(slot, nil, 0o666))
	}
	f.end = func() { r.must(os.Remove(slot)) }
}

// workRemoved is somebody who clears the cache folder in mid-search.
func (r *rig) workRemoved(f *fault) {
	f.kind = "working folder removed"
	f.delay = time.Duration(r.rng.IntN(60)) * time.Millisecond
	f.begin = func() { // as rm -r, which loses against a process that writes there
		for range 100 {
			if os.RemoveAll(filepath.Join(r.disk(), "work")) == nil {
				return
			}
		}
	}
}

// stampsShifted is what a jump of the wall clock leaves: files of tomorrow, or of the year before.
func (r *rig) stampsShifted(f *fault) {
	shift := []time.Duration{24 * time.Hour, -365 * 24 * time.Hour, 10 * time.Second, -10 * time.Second}[r.rng.IntN(4)]
	f.kind = "clock jump"
	f.begin = func() {
		for _, dir := range []string{filepath.Join(r.disk(), "work"), filepath.Join(r.home, "builds")} {
			_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil {
					info, err := d.Info()
					if err == nil && info.Mode().IsRegular() {
						_ = os.Chtimes(path, info.ModTime().Add(shift), info.ModTime().Add(shift))
					}
				}
				return nil
			})
		}
	}
}

// cacheDamaged flips a byte of every kept build.
func (r *rig) cacheDamaged(f *fault) {
	f.kind = "build cache damaged"
	at := r.rng.Float64()
	f.begin = func() {
		_ = filepath.WalkDir(filepath.Join(r.home, "builds"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			data, err := os.ReadFile(path)
			if err == nil && len(data) > 0 {
				data[int(at*float64(len(data)))] ^= 0x20
				_ = os.Chmod(path, 0o666)
				_ = os.WriteFile(path, data, 0o666)
			}
			return nil
		})
	}
}

func (r *rig) logsRemoved(f *fault) {
	f.kind = "logs folder removed"
	f.begin = func() { r.must(os.RemoveAll(filepath.Join(r.home, "logs"))) }
	f.end = func() { r.must(os.MkdirAll(filepath.Join(r.home, "logs"), 0o777)) }
}

// ledger is a store that cannot be written for a while.
func (r *rig) ledger(f *fault) {
	f.kind, f.begin = "ledger", func() {}
}

// signals hits the leader of a trial or its warden from outside, at any instant.
func (r *rig) signals(f *fault) {
	f.once = true
	toWarden := r.rng.IntN(2) == 0
	sig := []unix.Signal{unix.SIGKILL, unix.SIGSTOP}[r.rng.IntN(2)]
	again := time.Duration(r.rng.IntN(2)*(1+r.rng.IntN(200))) * time.Millisecond // till SIGCONT, 0: never
	f.delay = time.Duration(1+r.rng.IntN(60)) * time.Millisecond
	f.kind = unix.SignalName(sig) + map[bool]string{true: " to warden", false: " to leader"}[toWarden]
	f.begin = func() {
		for stop := time.Now().Add(time.Second); time.Now().Before(stop); time.Sleep(5 * time.Millisecond) {
			pid := leaderOf(r.session)
			if pid == 0 {
				continue
			}
			if toWarden {
				pid = parentOf(pid)
			}
			_ = unix.Kill(pid, sig)
			if sig == unix.SIGSTOP && again > 0 {
				time.Sleep(again)
				_ = unix.Kill(pid, unix.SIGCONT)
			}
			return
		}
	}
}

// leaderOf finds the leader of the trial of a session that is running now, or 0.
func leaderOf(session string) int {
	for _, warden := range childrenOf(os.Getpid()) {
		for _, pid := range childrenOf(warden) {
			data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if strings.Contains(string(data), "KBISECT_COOKIE="+session) {
				return pid
			}
		}
	}
	return 0
}

func childrenOf(pid int) (out []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for _, f := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// carriersOf lists the live processes that bear the cookie of a session.
func carriersOf(session string) (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		data, _ := os.ReadFile(path)
		if strings.Contains(string(data), "KBISECT_COOKIE="+session) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func parentOf(pid int) int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

func mountDisk(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func (r *rig) diskFull(f *fault) {
	f.kind, f.disk = "disk full", true
	f.delay = time.Duration(r.rng.IntN(2)*r.rng.IntN(60)) * time.Millisecond
	filler := filepath.Join(r.disk(), "filler")
	f.begin = func() {
		w, err := os.Create(filler)
		if err != nil {
			return // it is read-only just now
		}
		defer w.Close()
		for size := 64 << 10; size > 0; size /= 2 {
			for err = nil; err == nil; {
				_, err = w.Write(make([]byte, size))
			}
			if !errors.Is(err, syscall.ENOSPC) {
				return
			}
		}
	}
	f.end = func() { // a process that is just being started may hold it for a moment longer
		r.must(os.Truncate(filler, 0))
		r.must(os.Remove(filler))
	}
}

// diskFullForAMoment is over before anybody looks for it.
func (r *rig) diskFullForAMoment(f *fault) {
	r.diskFull(f)
	f.kind, f.once = "disk full for a moment", true
	f.delay = time.Duration(1+r.rng.IntN(40)) * time.Millisecond
	moment := time.Duration(1+r.rng.IntN(60)) * time.Millisecond
	fill, free := f.begin, f.end
	f.begin = func() {
		fill()
		time.Sleep(moment)
		free()
	}
}

func (r *rig) diskReadOnly(f *fault) {
	f.kind, f.disk = "disk read-only", true
	remount := func(flags uintptr) error {
		return unix.Mount("none", r.disk(), "", unix.MS_REMOUNT|flags, "size=8m")
	}
	f.begin = func() {
		for range 200 { // while a file is open for writing it cannot be
			if remount(unix.MS_RDONLY) == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	f.end = func() { r.must(remount(0)) }
}

// device is what a scripted device goes through.
type device struct {
	id string

	mu     sync.Mutex
	spells []spell
	xids   []gpu.Event
}

// spell is a state of the device for some readings.
type spell struct {
	fault *fault
	put   func(*gpu.Reading)
}

func (d *device) read(n int) gpu.Reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := gpu.Reading{Time: time.Now(), SMClock: 1980, RecoveryAction: "none"}
	for _, s := range d.spells {
		if n >= s.fault.at && (s.fault.lasts == 0 || n < s.fault.at+s.fault.lasts) {
			s.fault.done = true
			s.put(&r)
		}
	}
	return r
}

func (d *device) events() []gpu.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.xids
}

// state makes f a state of the device, from a reading on, and for a number of them.
func (r *rig) state(f *fault, kind string, put func(*gpu.Reading)) {
	f.kind = kind
	f.at = r.rng.IntN(12)
	r.device.spells = append(r.device.spells, spell{f, put})
}

func (r *rig) deviceLost(f *fault) {
	r.state(f, "device lost", func(g *gpu.Reading) { g.Lost = true })
}

func (r *rig) recovery(f *fault) {
	r.state(f, "device asks for recovery", func(g *gpu.Reading) { g.RecoveryAction = "reset the GPU" })
}

func (r *rig) throttled(f *fault) {
	r.state(f, "device throttled", func(g *gpu.Reading) { g.Reasons |= gpu.ReasonHWThermal })
	f.lasts *= 4
}

// foreign is a process of somebody else. One that comes in mid-trial is waited for for ten seconds,
// since it may be the trial's own.
func (r *rig) foreign(f *fault) {
	r.state(f, "foreign process", func(g *gpu.Reading) {
		g.Processes = append(g.Processes, gpu.Process{PID: 77, UsedBytes: 1 << 30})
	})
	if f.lasts == 0 {
		f.kind = "foreign process for ever"
	}
	f.lasts *= 5
}

func (r *rig) xid(f *fault) {
	f.kind = "machine Xid"
	xid := []uint64{48, 74, 79, 95, 119}[r.rng.IntN(5)]
	f.delay = time.Duration(1+r.rng.IntN(50)) * time.Millisecond
	f.begin = func() {
		r.device.mu.Lock()
		defer r.device.mu.Unlock()
		e := gpu.Event{Time: time.Now(), Xid: xid}
		if f.lasts == 0 {
			e.Time = time.Time{} // again and again
		}
		r.device.xids = append(r.device.xids, e)
	}
}
