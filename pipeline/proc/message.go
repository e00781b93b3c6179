package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// The descriptors of a warden.
const (
	controlFD  = 3 + iota // order, then commands; its end means that kbisect is gone
	reportFD              // reports, one JSON document per line
	stdoutFD              // for the leader
	stderrFD              // for the leader
	protocolFD            // for the leader, if there is a protocol
)

// leaderProtocolFD is where the leader finds the protocol pipe.
const leaderProtocolFD = 3

// order tells a warden what to start. Paths, arguments and environment are
// bytes, which JSON strings cannot hold.
type order struct {
	Path     []byte
	Dir      []byte
	Argv     [][]byte
	Env      [][]byte
	Protocol bool
	Bound    time.Duration // how long to try to kill

	Group  []byte // name of the control group, none for the old way
	Memory int64  // its limit in bytes
	CPUs   []int
	Nice   int

	Hold bool // the tree is left alone after the leader's end, until a command comes
}

// command tells a warden what to do with the tree.
type command struct {
	Do    action
	Grace time.Duration // doEnd: from SIGTERM to SIGKILL
}

// action is the kind of a command.
type action string

const (
	doEnd    action = "end"    // end the tree
	doFreeze action = "freeze" // bring it to a halt
	doThaw   action = "thaw"   // let it go on
)

// report is what a warden has to say.
type report struct {
	Event event
	Mono  int64 `json:",omitempty"` // CLOCK_MONOTONIC in ns: of the start, of the leader's end, of a pause

	Errno unix.Errno `json:",omitempty"` // refused: why
	Error string     `json:",omitempty"` // refused, when there is no Errno

	Leader  int  `json:",omitempty"` // started: its pid
	Grouped bool `json:",omitempty"` // started: in a control group

	Killed bool `json:",omitempty"` // ended: a command came first
	Halted bool `json:",omitempty"` // ended: the leader stood still when the command came, by a signal not ours

	Reaped   bool           `json:",omitempty"` // gone: Status is known
	Status   uint32         `json:",omitempty"` // wait status of the leader
	User     time.Duration  `json:",omitempty"`
	System   time.Duration  `json:",omitempty"`
	MaxRSS   int64          `json:",omitempty"` // bytes
	Peak     int64          `json:",omitempty"` // bytes
	OOM      string         `json:",omitempty"` // whose memory ran out
	Leftover int            `json:",omitempty"`
	Stuck    []StuckProcess `json:",omitempty"`
}

// event is the kind of a report. A warden sends hello, then refused or started,
// frozen and thawed in turns, ended, gone.
type event string

const (
	eventHello   event = "hello"   // the warden runs
	eventRefused event = "refused" // the kernel did not start the program
	eventStarted event = "started" // the leader runs
	eventFrozen  event = "frozen"  // nothing of the tree runs any more
	eventThawed  event = "thawed"  // it runs again
	eventEnded   event = "ended"   // the leader has ended
	eventGone    event = "gone"    // the whole tree has, or is stuck
)

// monotonic reads CLOCK_MONOTONIC, which all processes share, in ns.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot happen on Linux
	}
	return ts.Nano()
}

func toBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
