// Package perf counts what the processes of a tree do in user mode, by the kernel's
// performance counters. Every thread and process that is started below inherits the
// counter, whatever session, parent or control group it moves to; none of them has
// its descriptor, so that none can change the number. The package must not know
// what is measured. Linux only.
package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect/hint"
)

// Event is what is counted, as perf_event_open(2) names it.
type Event struct {
	Type   uint32
	Config uint64
}

// Instructions are the instructions that the processor has completed.
func Instructions() Event { return Event{unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS} }

// Counter counts one event. A nil *Counter stands for none.
type Counter struct{ fd int }

// Count is what a counter has counted in Ran. The processes ran for Enabled: more
// than that where the counter was lent to others at times.
type Count struct {
	N            uint64
	Enabled, Ran time.Duration
}

// Open returns a counter for what the calling thread will start. It begins with the
// exec of each child: the thread itself and a child that is not yet the program do not
// count. The caller has locked the thread. The error is a sentence for the user.
func Open(e Event) (*Counter, error) {
	attr := unix.PerfEventAttr{
		Type: e.Type, Config: e.Config, Size: unix.PERF_ATTR_SIZE_VER0, // no field beyond is used
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		// Not pinned: a pinned counter that finds no place stops counting without telling how long.
		Bits: unix.PerfBitDisabled | unix.PerfBitEnableOnExec | unix.PerfBitInherit | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, refusal(err, paranoid())
	}
	return &Counter{fd}, nil
}

// Read returns what was counted so far, also in processes that have ended; nothing
// where the counter cannot be read.
func (c *Counter) Read() Count {
	var b [24]byte
	if c == nil {
		return Count{}
	}
	if n, err := unix.Read(c.fd, b[:]); err != nil || n != len(b) {
		return Count{}
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	return Count{word(0), time.Duration(word(1)), time.Duration(word(2))}
}

// Close ends the counting.
func (c *Counter) Close() {
	if c != nil {
		unix.Close(c.fd)
	}
}

// turn is more than one round of the turns, of a few ms each, that the kernel gives to
// those who share counters.
const turn = 500 * time.Millisecond

// Check reports why instructions cannot be counted here, by counting some; nil if they can.
func Check() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := Open(Instructions())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := unix.IoctlSetInt(c.fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return refusal(err, paranoid())
	}
	n := c.Read()
	for end := time.Now().Add(turn); n.Ran == 0 && time.Now().Before(end); {
		n = c.Read()
	}
	switch {
	case n.Ran == 0:
		return refusal(unix.EBUSY, paranoid())
	case n.N == 0: // in some virtual machines it stands still
		return refusal(unix.ENOENT, paranoid())
	}
	return nil
}

// paranoid is the kernel's limit for unprivileged users: above 2 there are no counters.
func paranoid() int {
	b, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

// refusal says why there is no counter, and what to do. It does not wrap the cause,
// which is not the program's.
func refusal(err error, paranoid int) error {
	denied := errors.Is(err, fs.ErrPermission)
	why, advice := fmt.Sprintf("perf_event_open: %v", err), ""
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		why = "the processor shows no counter for them, as in most virtual machines"
		advice = "give the virtual machine a PMU, or run outside of it; "
	case denied && paranoid > 2:
		why = fmt.Sprintf("kernel.perf_event_paranoid is %d, and may be 2 at most", paranoid)
		advice = "sudo sysctl kernel.perf_event_paranoid=2; "
	case denied:
		why = "this process may not use performance counters, as in most containers"
		advice = "docker run --cap-add PERFMON; "
	case errors.Is(err, unix.EBUSY):
		why = "other programs hold all counters of the processor"
		advice = "end perf and other profilers; "
	case errors.Is(err, unix.ENOSYS):
		why = "the kernel has no performance counters"
	}
	return hint.Add(errors.New("instructions cannot be counted here: "+why), advice+"--metric cpu, the processor time, works everywhere")
}
