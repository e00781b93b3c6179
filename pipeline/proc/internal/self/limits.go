package self

import (
	"fmt"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Threads makes threads, once, that the runtime keeps for later. A program that lowers the limit of processes forbids us
// new ones until the limits are restored, and a runtime that needs a new one in the meantime aborts.
var Threads = sync.OnceFunc(func() {
	const kept = 8
	var begun sync.WaitGroup
	end := make(chan struct{})
	for range kept {
		begun.Add(1)
		go func() {
			runtime.LockOSThread()
			begun.Done()
			<-end
			runtime.UnlockOSThread() // else the thread would end with us
		}()
	}
	begun.Wait()
	close(end)
})

// names are those of the limits of a process, by their numbers.
func names() []string {
	return []string{
		"processor time", "file size", "data", "stack", "core dump", "resident memory", "processes", "open files", "locked memory",
		"address space", "file locks", "pending signals", "message queues", "nice value", "real-time priority", "real-time processor time",
	}
}

// Limits are the resource limits of a process, by their numbers.
type Limits []unix.Rlimit

// ReadLimits returns the limits of this process.
func ReadLimits() Limits {
	l := make(Limits, len(names()))
	for i := range l {
		if unix.Prlimit(0, i, nil, &l[i]) != nil {
			l[i] = unix.Rlimit{} // the kernel does not know it: nothing is lower
		}
	}
	return l
}

// Restore raises what has been lowered since the limits were read: prlimit(2) lets any process of the same user do
// that. Only root may undo it whole; what stays lower is named.
func (l Limits) Restore() (lowered []string) {
	for i, want := range l {
		var now unix.Rlimit
		if unix.Prlimit(0, i, nil, &now) != nil || now.Cur >= want.Cur && now.Max >= want.Max {
			continue
		}
		if unix.Prlimit(0, i, &want, nil) == nil {
			continue
		}
		now.Cur = min(want.Cur, now.Max)
		_ = unix.Prlimit(0, i, &now, nil)
		if now.Cur < want.Cur {
			lowered = append(lowered, fmt.Sprintf("%s %d", names()[i], now.Cur))
		}
	}
	return lowered
}

// LimitError says that limits of this process were lowered for good.
type LimitError struct{ Lowered []string }

// Error implements error.
func (e *LimitError) Error() string {
	return "the program has lowered limits of kbisect itself: " + strings.Join(e.Lowered, ", ") +
		"\nhint: kbisect run --resume goes on with the limits of your shell; with --sandbox no program can do that"
}
