package ps

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Population lists processes that are to be stopped or killed: the descendants of a process, for example, or the
// members of a control group. It is called again and again, since they may fork meanwhile.
type Population func() ([]Process, error)

// Halt calls stop once for each process of a population, until no new one appears, and returns the last list. It gives
// up on a population that never stops growing, without an error. Errors are those of the population.
func Halt(all Population, stop func(Process)) ([]Process, error) {
	const rounds = 20 // a fork bomb may fork faster than it is stopped: then its processes are killed as they run
	stopped := make(map[ID]bool)
	for range rounds {
		list, err := all()
		if err != nil {
			return nil, err
		}
		fresh := false
		for _, p := range list {
			if p.Alive() && !stopped[p.ID()] {
				stopped[p.ID()], fresh = true, true
				stop(p)
			}
		}
		if !fresh {
			return list, nil
		}
	}
	return all()
}

// Strike kills a population once and returns those that were alive. It stops all of them first, so that none can fork
// or react to the death of another. It does not wait for their end.
func Strike(all Population) ([]Process, error) {
	list, err := Halt(all, func(p Process) { p.Signal(unix.SIGSTOP) })
	var hit []Process
	for _, p := range list {
		if p.Alive() {
			hit = append(hit, p)
		}
		p.Signal(unix.SIGKILL)
	}
	return hit, err
}

// Stuck is a process that could not be killed. All but PID may be unknown.
type Stuck struct {
	PID     int
	State   string // as in /proc/PID/stat: D waits in the kernel
	Wchan   string // where in the kernel
	Command string
}

// String describes p in one phrase.
func (p Stuck) String() string {
	s := fmt.Sprintf("process %d (%s, state %s", p.PID, p.Command, p.State)
	if p.Wchan != "" && p.Wchan != "0" {
		s += " in " + p.Wchan
	}
	return s + ")"
}

// Describe says what is known of those processes of a list that were alive when it was made.
func Describe(list []Process) []Stuck {
	var out []Stuck
	for _, p := range list {
		if !p.Alive() {
			continue
		}
		out = append(out, Stuck{PID: p.PID, State: string(p.State), Wchan: p.File("wchan"), Command: p.Command})
	}
	return out
}

// Within waits for a condition and reports whether it came true in time. It looks at ever longer intervals, from 0.1 to
// 20 ms, so that what happens at once costs little.
func Within(bound time.Duration, ok func() bool) bool {
	stop := time.Now().Add(bound)
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(stop) {
			return false
		}
		time.Sleep(wait)
	}
}
