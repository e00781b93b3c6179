package warden

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/perf"
	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

// controlFD is the socket to kbisect: commands come, reports go, one JSON document per line. Its end means that kbisect
// is gone.
const controlFD = 3

// maxEnds is how many descriptors an order comes with at most: standard output, standard error, the protocol, and the
// gate.
const maxEnds = 4

// LeaderProtocolFD is where the leader finds the protocol pipe.
const LeaderProtocolFD = 3

// LeaderGateFD is where one that was started before its turn reads that it is, see proc.Start.
const LeaderGateFD = 4

// Order says what to start. The descriptors of the leader, from standard output on, come before it with one byte of
// space (SCM_RIGHTS). Paths, arguments and environment are bytes, because
// JSON strings hold UTF-8 only.
type Order struct {
	Path  []byte
	Dir   []byte
	Argv  [][]byte
	Env   [][]byte
	Bound time.Duration // how long to try to kill

	Group  []byte // name of the control group, empty for none
	Memory int64  // its limit in bytes
	CPUs   []int
	Nice   int

	Count *perf.Event // what to count in the tree, nil for nothing

	Sandbox *Sandbox // nil for none; the warden is the first process of its namespaces then

	Hold bool // the tree is left alone after the leader's end, until a command comes
}

// Command says what to do with the tree.
type Command struct {
	Do    Action
	Grace time.Duration `json:",omitempty"` // DoEnd: from SIGTERM to SIGKILL
	Order *Order        `json:",omitempty"` // DoStart

	ends []int // DoStart: the descriptors that came with it
}

// Action is the kind of a command.
type Action string

const (
	DoStart  Action = "start"  // start one
	DoEnd    Action = "end"    // end the tree
	DoFreeze Action = "freeze" // bring it to a halt
	DoThaw   Action = "thaw"   // let it go on
	DoHurry  Action = "hurry"  // undo Order.Nice, as far as we may
)

// Report is what a warden sends about its tree.
type Report struct {
	Event Event
	Mono  int64 `json:",omitempty"` // CLOCK_MONOTONIC in ns: of the start, of the leader's end, of a pause

	Errno  unix.Errno `json:",omitempty"` // refused: why
	Error  string     `json:",omitempty"` // refused, when there is no Errno
	Denied string     `json:",omitempty"` // refused: the step of making a sandbox that failed, and why

	Leader  int  `json:",omitempty"` // started: its pid
	Grouped bool `json:",omitempty"` // started: in a control group

	Killed bool `json:",omitempty"` // ended: a command came first
	Halted bool `json:",omitempty"` // ended: the leader stood still when the command came, by a signal not ours

	Still bool `json:",omitempty"` // frozen: nothing runs any more, not even in the kernel

	Reaped   bool          `json:",omitempty"` // gone: Status is known
	Status   uint32        `json:",omitempty"` // wait status of the leader
	User     time.Duration `json:",omitempty"`
	System   time.Duration `json:",omitempty"`
	Counted  perf.Count    // of Order.Count
	MaxRSS   int64         `json:",omitempty"` // bytes
	Peak     int64         `json:",omitempty"` // bytes
	OOM      string        `json:",omitempty"` // whose memory ran out
	Leftover int           `json:",omitempty"`
	Stuck    []ps.Stuck    `json:",omitempty"`
	Stopper  bool          `json:",omitempty"` // it was ended because something kept kbisect stopped
	Again    bool          `json:",omitempty"` // the warden is as it was, and waits for another order
}

// Event is the kind of a report. A warden sends hello, then of each tree refused or started,
// frozen and thawed in turns, ended, gone.
type Event string

const (
	EventHello   Event = "hello"   // the warden runs
	EventRefused Event = "refused" // the kernel did not start the program
	EventStarted Event = "started" // the leader runs
	EventFrozen  Event = "frozen"  // the tree was told to stand still
	EventThawed  Event = "thawed"  // it runs again
	EventEnded   Event = "ended"   // the leader has ended
	EventGone    Event = "gone"    // the whole tree has, or is stuck
)

// Monotonic reads CLOCK_MONOTONIC, which all processes share, in ns.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot happen on Linux
	}
	return ts.Nano()
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
