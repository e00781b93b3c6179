package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// draw makes a run under a fault. Seeds that follow each other draw all kinds in turn.
func (r *rig) draw(seed uint64, mounts bool) {
	kinds := []func(){r.killed, r.stopped, r.terminated, r.storeDamaged, r.stateUnwritable, r.cacheRemoved, r.twoAtOnce, r.stampsShifted, r.buildsDamaged}
	if mounts {
		kinds = append(kinds, r.cacheFull, r.stateFull)
	}
	kinds[seed%uint64(len(kinds))]()
}

const sigterm = "SIGTERM" // the only fault on which a search ends as interrupted

// moment is an instant of a run, drawn at random.
func (r *rig) moment() time.Duration {
	return time.Duration(20+r.rng.IntN(900)) * time.Millisecond
}

// underWay waits until a search has begun, and then for a time.
func (r *rig) underWay(wait time.Duration) {
	for stop := time.Now().Add(10 * time.Second); time.Now().Before(stop); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(r.state(), "kbisect.db")); err == nil {
			break
		}
	}
	time.Sleep(wait)
}

func (r *rig) killed() {
	r.kind = "SIGKILL"
	for range 1 + r.rng.IntN(3) {
		wait := r.moment()
		args := r.args
		if r.begun {
			args = []string{"run", "--json", "--resume"}
		}
		r.under(func(p *os.Process) { time.Sleep(wait); _ = p.Signal(syscall.SIGKILL) }, args...)
	}
}

// stopped is a Ctrl-Z, or a machine that has more to do: the candidates run on meanwhile.
func (r *rig) stopped() {
	r.kind = "SIGSTOP and SIGCONT"
	wait, rest := r.moment(), time.Duration(100+r.rng.IntN(2000))*time.Millisecond
	r.under(func(p *os.Process) {
		r.underWay(wait)
		_ = p.Signal(syscall.SIGSTOP)
		time.Sleep(rest)
		_ = p.Signal(syscall.SIGCONT)
	}, r.args...)
}

func (r *rig) terminated() {
	r.kind = sigterm
	wait := r.moment()
	r.under(func(p *os.Process) { r.underWay(wait); _ = p.Signal(syscall.SIGTERM) }, r.args...)
}

// storeDamaged spoils the files of the store between two runs, of which the first came to its end
// or not.
func (r *rig) storeDamaged() {
	r.kind = "store"
	wait := r.moment()
	r.start(func(p *os.Process) { r.underWay(wait); _ = p.Signal(syscall.SIGKILL) }, r.args...)
	r.looked()
	db := filepath.Join(r.state(), "kbisect.db")
	file := []string{db, db, db, db + "-wal"}[r.rng.IntN(4)]
	part := map[bool]string{true: " log", false: ""}[file != db]
	info, err := os.Stat(file)
	if err != nil || info.Size() == 0 {
		r.kind += part + " not there yet"
		return
	}
	switch r.rng.IntN(4) {
	case 0:
		r.kind += part + " cut off"
		r.must(os.Truncate(file, r.rng.Int64N(info.Size())))
	case 1:
		r.kind += part + " with flipped bits"
		data, err := os.ReadFile(file)
		r.must(err)
		for range 1 + r.rng.IntN(8) {
			data[r.rng.IntN(len(data))] ^= 1 << r.rng.IntN(8)
		}
		r.must(os.WriteFile(file, data, 0o666))
	case 2:
		r.kind += part + " removed"
		r.must(os.Remove(file))
		r.begun = file != db
	case 3:
		const at = 63 // the last byte of the schema's version in SQLite's header
		r.kind += " of another schema"
		data, err := os.ReadFile(db)
		r.must(err)
		data[at] = []byte{0, 3, 77}[r.rng.IntN(3)]
		r.must(os.WriteFile(db, data, 0o666))
	}
	r.said = append(r.said, "done")
}

func (r *rig) storeRemoved() {
	r.kind = "store removed in mid-search"
	wait := r.moment()
	r.under(func(*os.Process) {
		r.underWay(wait)
		files, _ := filepath.Glob(filepath.Join(r.state(), "kbisect.db*"))
		for _, f := range files {
			r.must(os.Remove(f))
		}
	}, r.args...)
}

// stateUnwritable makes .git/kbisect read-only for a run: a mount where that can be, since
// permissions do not hold for root.
func (r *rig) stateUnwritable() {
	r.kind = "store read-only"
	if r.rng.IntN(2) == 0 { // there is one
		wait := r.moment()
		r.start(func(p *os.Process) { r.underWay(wait); _ = p.Signal(syscall.SIGKILL) }, r.args...)
		r.looked()
	}
	r.must(os.MkdirAll(r.state(), 0o777))
	args := r.args
	if r.begun {
		args = []string{"run", "--json", "--resume"}
	}
	if os.Geteuid() != 0 {
		r.must(os.Chmod(r.state(), 0o555))
		r.under(nil, args...)
		r.must(os.Chmod(r.state(), 0o777))
		return
	}
	if err := errors.Join(unix.Mount(r.state(), r.state(), "", unix.MS_BIND, ""), unix.Mount("none", r.state(), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")); err != nil {
		r.t.Logf("NOT TESTED: %v", err)
		_ = unix.Unmount(r.state(), unix.MNT_DETACH)
		return
	}
	r.under(nil, args...)
	r.must(unix.Unmount(r.state(), unix.MNT_DETACH))
	r.looked()
}

func (r *rig) cacheRemoved() {
	r.kind = "cache removed in mid-search"
	wait := r.moment()
	r.under(func(*os.Process) {
		r.underWay(wait)
		for range 100 { // as rm -r, which loses against a process that writes there
			if os.RemoveAll(filepath.Join(r.cache(), "kbisect")) == nil {
				return
			}
		}
	}, r.args...)
}

func (r *rig) twoAtOnce() {
	r.kind = "two at once"
	wait := time.Duration(r.rng.IntN(200)) * time.Millisecond
	var both sync.WaitGroup
	var said [2]*outcome
	for i := range said {
		both.Go(func() {
			time.Sleep(time.Duration(i) * wait)
			said[i] = r.start(nil, r.args...)
		})
	}
	both.Wait()
	for _, o := range said {
		r.said = append(r.said, map[bool]string{true: "busy"}[o.code == exit.Machine && strings.Contains(o.stderr.String(), "run.lock")])
	}
	if said[0].code != exit.OK && said[1].code != exit.OK {
		r.t.Errorf("neither came to an answer: %s\n%s", said[0].stderr.String(), said[1].stderr.String())
	}
	r.looked()
}

// stampsShifted is what a jump of the wall clock leaves between two runs: files of years to come, or
// of years ago.
func (r *rig) stampsShifted() {
	r.kind = "clock jump"
	wait, shift := r.moment(), []time.Duration{-10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour, -time.Minute, time.Minute}[r.rng.IntN(4)]
	r.under(func(p *os.Process) { r.underWay(wait); _ = p.Signal(syscall.SIGKILL) }, r.args...)
	r.files(func(path string, info fs.FileInfo) {
		r.must(os.Chtimes(path, info.ModTime().Add(shift), info.ModTime().Add(shift)))
	}, r.dir, r.cache())
}

// buildsDamaged flips a bit in every kept build between two runs.
func (r *rig) buildsDamaged() {
	r.kind = "kept builds damaged"
	wait := r.moment()
	r.under(func(p *os.Process) { r.underWay(wait); _ = p.Signal(syscall.SIGKILL) }, r.args...)
	r.files(func(path string, info fs.FileInfo) {
		data, err := os.ReadFile(path)
		r.must(err)
		if len(data) > 0 {
			data[r.rng.IntN(len(data))] ^= 1 << r.rng.IntN(8)
			r.must(os.Chmod(path, 0o777))
			r.must(os.WriteFile(path, data, 0o777))
		}
	}, filepath.Join(r.cache(), "kbisect/builds"))
}

// files calls f for the regular files below some folders.
func (r *rig) files(f func(path string, info fs.FileInfo), dirs ...string) {
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			if info, err := d.Info(); err == nil {
				f(path, info)
			}
			return nil
		})
	}
}

func (r *rig) cacheFull() {
	r.kind = "disk of the cache full"
	r.full(r.cache())
}

func (r *rig) stateFull() {
	r.kind = "disk of the store full"
	r.full(r.state())
}

// full makes a run on a small disk that is full from the start, or from a moment on.
func (r *rig) full(dir string) {
	r.must(os.MkdirAll(dir, 0o777))
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.must(unix.Unmount(dir, unix.MNT_DETACH)) })
	filler := filepath.Join(dir, "filler")
	wait, begin := r.moment(), r.rng.IntN(3) == 0
	if begin {
		fill(filler)
	}
	r.under(func(*os.Process) {
		if !begin {
			r.underWay(wait)
			fill(filler)
		}
	}, r.args...)
	r.must(os.Truncate(filler, 0)) // a process that is just being started may hold it for a moment longer
	r.must(os.Remove(filler))
}

// fill takes all the room of a file system.
func fill(path string) {
	f, err := os.Create(path)
	if err != nil {
		return
	}
	defer f.Close()
	for size := 64 << 10; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
}

// must reports what a fault could not do.
func (r *rig) must(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Errorf("injecting: %v", err)
	}
}
