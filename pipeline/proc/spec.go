package proc

import (
	"crypto/rand"
	"syscall"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
	"github.com/kbisect/kbisect/pipeline/proc/internal/perf"
)

// cookieVariable is the environment variable that marks every process of a
// tree, see [Sweep].
const cookieVariable = "KBISECT_COOKIE"

const (
	defaultGrace     = 2 * time.Second
	defaultOutputMax = 1 << 20
	defaultTail      = 4096

	// cancelGrace bounds the grace after ctx is done: a person is waiting.
	cancelGrace = 500 * time.Millisecond

	// maxLine bounds one protocol or output line in bytes; the rest is cut.
	maxLine = 64 << 10
)

// The values of Result.Contained.
const (
	byGroup     = "cgroup"
	bySubreaper = "subreaper"
	byNamespace = "namespace"
)

// Delegated returns a control group (version 2) in which trials can have groups
// of their own, and whether there is one.
func Delegated() (dir string, ok bool) { return cgroup.Delegated() }

// Available is how many bytes processes may still take before memory runs out, and how many there are in all, by the
// machine and by the control groups of this process.
func Available() (free, all int64) { return cgroup.Available() }

// CanCount reports why this machine cannot count instructions, see
// [Spec.Instructions], and what to do; nil if it can.
func CanCount() error { return perf.Check() }

// Spec is a program to run and its limits.
type Spec struct {
	Argv []string // program and arguments; a name without a slash is looked up in PATH of Env
	Dir  string   // working directory, "" for the current one; relative programs are relative to it
	Env  []string // the complete environment, like exec.Cmd.Env; of equal names the last counts

	Limit time.Duration // limit of the whole process, 0 for none

	// Grace is the time from SIGTERM to SIGKILL; 0 means 2 s, negative none.
	// Python processes with faulthandler enabled (PYTHONFAULTHANDLER=1) get
	// SIGABRT instead of SIGTERM, which makes them write their stacks to
	// standard error. Those that catch SIGTERM get it first, and SIGABRT at
	// the end of the grace; they have 300 ms more.
	Grace time.Duration

	Phase      string        // the phase in force at the start
	PhaseLimit time.Duration // its limit, 0 for none

	// Protocol is the environment variable that holds the number of the descriptor
	// for protocol lines, for example "KBISECT_FD". "" for none.
	Protocol string

	Aliases []string // more variables that hold the same number

	// Watch is called for every protocol line, in order, from one goroutine;
	// at is the time from the start of the process to the arrival of the line,
	// less the time that the tree was frozen, see Pause.
	// It may be nil, and must not block: the program waits when its pipe is
	// full. Lines are cut at 64 KiB; it does not get those that come after a
	// limit was reached.
	Watch func(line string, at time.Duration) Transition

	// Closed, if not nil, is called once when all writing ends of the protocol
	// pipe are closed while the leader still runs: no more lines can come. It
	// is called as Watch is, and not after the leader's end.
	Closed func(at time.Duration) Transition

	// WaitOutput makes the limits hold until every process has closed standard
	// output, standard error and the protocol pipe, as for a caller that reads them
	// to their end. Without it, what the leader leaves behind is killed at once.
	WaitOutput bool

	// Pause freezes the whole tree when it yields true, and thaws it at false
	// or when it is closed. Meanwhile no limit runs, and the times given to
	// Watch, Closed and OnOutput stand still. It is not read after the end of
	// the leader: send in a select with an alternative.
	Pause <-chan bool

	// OnPause, when not nil, is called once for each pause when the tree stands still. still
	// is false where the kernel is busy with one of its processes, as it is at its end.
	OnPause func(still bool)

	// MemoryMax bounds the memory of the whole tree in bytes, 0 for no bound.
	// Where the tree has a control group with the memory controller the kernel
	// holds it; everywhere else what the processes hold alone is added up twice a
	// second, and above the bound the tree is killed.
	MemoryMax int64

	// Hurry, when it is closed, ends what Nice costs the tree, as far as the kernel allows it.
	Hurry <-chan struct{}

	CPUs []int // the processors that the tree may use, nil for all of kbisect's
	Nice int   // its nice value, 0 for kbisect's

	// Instructions has the kernel count the instructions that the tree executes in
	// user mode. Where it cannot, nothing is started; see [CanCount].
	Instructions bool

	// Sandbox is what the tree may reach, nil for all that the user may.
	Sandbox *Sandbox

	// Output is a file, created or truncated, that receives standard output
	// and standard error as they arrive; "" for none. It holds at most
	// OutputMax bytes (0 means 1 MiB), head and tail, with a line between
	// that says how many bytes were left out.
	Output    string
	OutputMax int64

	// Tail is the number of last bytes of output kept in Result.Tail: 0 means
	// 4096, negative none.
	Tail int

	// Cookie marks the processes of this tree, see Sweep; "" for a random one.
	Cookie string

	// OnOutput, when not nil, is called for every line of standard output
	// (stream 1) and standard error (stream 2), cut at 64 KiB. Calls of Watch
	// and OnOutput never overlap. With OnOutput the two streams are two pipes,
	// and their order in Output is that of arrival; without it they share one
	// pipe and the order is exact.
	OnOutput func(stream int, line string, at time.Duration)

	held      bool          // it waits at a gate, see Start
	killBound time.Duration // shorter in tests
	subreaper bool          // do without a control group, in tests
	count     *perf.Event   // something else than instructions, in tests
}

// Transition is how a protocol line changes the phase. The zero value changes
// nothing. A Transition with a Phase enters that phase, even if it is in force
// already: its time starts anew, with Limit (0 for none).
type Transition struct {
	Phase string
	Limit time.Duration
}

// Result is how a process tree ended. All of it is data about the program: a
// crash, a time-out and leftovers are not errors.
type Result struct {
	Exit   int            // exit status of the leader, -1 when it was ended by a signal
	Signal syscall.Signal // the signal that ended the leader, else 0

	Started time.Time     // when the leader was started
	Wall    time.Duration // from there to the end of the leader, not of its descendants or pipes, less Paused
	Paused  time.Duration // how long the tree was frozen in this time, see Spec.Pause
	User    time.Duration // processor time of the whole tree in user mode
	System  time.Duration // the same in the kernel

	// Instructions were counted in the whole tree during Counted of the processor
	// time Enabled; these differ where the counter was lent to others at times.
	// What escapes is what is not of the tree, and setuid programs of others.
	Instructions     uint64
	Enabled, Counted time.Duration

	MaxRSS int64 // largest resident set of any one process in bytes; a few MiB are always seen

	// Contained is how the tree is held together: "cgroup" by a control group
	// (version 2) of its own, "subreaper" where there can be none; "namespace" in
	// a sandbox, with or without a control group.
	Contained string

	MemoryPeak int64 // the most memory that the tree used at one time in bytes, 0 where no group counts it

	// OOMKilled says that the kernel killed a process of the tree because memory
	// ran out; OOMWhere which memory: "trial" when the tree came to its own
	// limit, "machine" when that of the machine or of a group above ran out.
	// Without the memory controller the latter is concluded from the kernel
	// having killed a process of our own memory group (of the machine, where
	// there is none) meanwhile, and a process of the tree having been ended by
	// a SIGKILL that was not ours. Where none was seen, OOMWhere is "near": a
	// process that waits for its children may have lost one.
	OOMKilled bool
	OOMWhere  string

	// OOMOwn says that one process of the tree, or the tree where its group counts that,
	// has held more than half of the memory of the machine or the group above.
	OOMOwn bool

	// KilledParent says that the program killed the process that supervised it,
	// and with it itself; Signal is the one that it sent.
	KilledParent bool

	// StoppedParent says that it was ended because it kept that process, or kbisect,
	// stopped by signals.
	StoppedParent bool

	Timeout *Timeout // the limit that ended it, nil when it ended by itself

	// Halted says that a signal, not ours, had stopped the leader when the time-out
	// came: it did not run until its limit.
	Halted bool

	// Held says that the leader had ended when the time-out came, and that processes
	// it left behind kept its output open; see Spec.WaitOutput.
	Held bool

	// Stall is how long kbisect itself did not run while it should have: it was
	// stopped, or starved. The program ran on, and what it sent then is stamped
	// too late.
	Stall time.Duration

	// Leftover is the number of processes that were still alive when the leader had
	// ended, or was killed, and that had to be killed, too.
	Leftover int

	// Strays are the names of processes that began meanwhile and work in Spec.Dir, but are not of
	// the tree. They were left alone.
	Strays []string

	Tail          []byte // the last bytes of output, both streams
	OutputBytes   int64  // all bytes of output, kept or not
	ProtocolLines int    // lines given to Watch

	// Canceled says that the end of ctx ended the process (or kept it from
	// being started: then Started is zero). The error is nil in this case.
	Canceled bool
}

// Timeout says which limit a process exceeded.
type Timeout struct {
	Phase   string        // the phase in force when the limit was reached
	Limit   time.Duration // the limit
	Elapsed time.Duration // time in the phase, or in the whole process if Whole, less pauses
	Whole   bool          // the limit of the whole process, not of the phase
}

// withDefaults returns s with its zero values replaced.
func (s Spec) withDefaults() Spec {
	if s.Grace == 0 {
		s.Grace = defaultGrace
	}
	s.Grace = max(s.Grace, 0)
	if s.OutputMax <= 0 {
		s.OutputMax = defaultOutputMax
	}
	if s.Tail == 0 {
		s.Tail = defaultTail
	}
	s.Tail = max(s.Tail, 0)
	if s.Instructions {
		s.count = new(perf.Instructions())
	}
	if s.killBound == 0 {
		s.killBound = defaultKillBound
	}
	if s.Cookie == "" {
		s.Cookie = rand.Text()
	}
	return s
}
