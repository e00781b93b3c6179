package self

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// wakeAfter is how long a process with an alarm may stand still.
const wakeAfter = time.Second

// Alarm has the kernel continue this process when it is stopped: a timer sends it SIGCONT, which does nothing to one
// that runs. No other process has to look, so that all of them can be stopped at once. It goes off once: a timer that
// repeats would be lost with a SIGCONT that the next SIGSTOP removes from the queue.
type Alarm struct{ timer int32 }

// NewAlarm makes an alarm that is off. It is nil, and does nothing, where the kernel makes no timer.
func NewAlarm() *Alarm {
	event := struct { // struct sigevent of 64-bit machines
		value         uintptr
		signo, notify int32 // notify 0 is SIGEV_SIGNAL
		_             [48]byte
	}{signo: int32(unix.SIGCONT)}
	a := &Alarm{}
	if _, _, err := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&a.timer))); err != 0 {
		return nil
	}
	return a
}

// Set has an alarm go off in a second, unless it is set again before, or off.
func (a *Alarm) Set(on bool) {
	if a == nil {
		return
	}
	var spec unix.ItimerSpec
	if on {
		spec.Value = unix.NsecToTimespec(int64(wakeAfter))
	}
	_, _, _ = unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(a.timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0) // cannot fail
}
