package proc

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

// groupBound is how long the members of a killed control group are waited for
// before they are killed one by one.
const groupBound = time.Second

// Sweep kills every process of this user whose environment carries a cookie
// that begins with the prefix, and all below them, and returns how many it
// killed. It is for what is left when both kbisect and a warden were killed.
// This process and those above it are spared.
//
// Where trials have control groups, those of this user with such a cookie are
// killed and removed first, so that a process that wiped its environment and
// lost its parent is found too; without groups it is not. The error is a
// *StuckError when a process cannot be killed.
func Sweep(cookiePrefix string) (killed int, err error) {
	if cookiePrefix == "" {
		return 0, errors.New("sweep: empty cookie prefix")
	}
	return sweep(func(cookie string) bool { return strings.HasPrefix(cookie, cookiePrefix) })
}

// sweepTrial kills the processes that carry the cookie of a trial.
func sweepTrial(s Spec) (killed int, err error) {
	return sweep(func(cookie string) bool { return cookie == s.Cookie })
}

// sweep kills the processes whose cookie matches.
func sweep(match func(cookie string) bool) (killed int, err error) {
	hit := make(map[ps.ID]bool)
	for _, g := range cgroup.Find(match) {
		if err := sweepGroup(g, hit); err != nil {
			return len(hit), err
		}
	}
	// Empty twice in a row: a process on its way through exec has no environment.
	err = sweepAll(func() ([]ps.Process, error) { return carriers(match) }, 2, hit)
	return len(hit), err
}

// sweepAll kills a population until it was empty several times in a row.
func sweepAll(all ps.Population, times int, hit map[ps.ID]bool) error {
	stop := time.Now().Add(defaultKillBound)
	for clean := 0; clean < times; time.Sleep(5 * time.Millisecond) {
		list, err := ps.Strike(all)
		if err != nil {
			return err
		}
		note(list, hit)
		if clean++; len(list) > 0 {
			clean = 0
		}
		if len(list) > 0 && time.Now().After(stop) {
			return &StuckError{After: defaultKillBound, Processes: ps.Describe(list)}
		}
	}
	return nil
}

// sweepGroup kills what is in a group and removes it, unless we are in it.
func sweepGroup(g *cgroup.Group, hit map[ps.ID]bool) error {
	members, err := g.Members()
	if err != nil {
		return err
	}
	all, err := ps.All()
	if err != nil {
		return err
	}
	spared := ps.Ancestors(all, os.Getpid())
	for _, p := range members {
		if spared[p.PID] {
			return nil
		}
	}
	if g.Kill() {
		note(members, hit)
		g.Empties(groupBound)
	}
	if err := sweepAll(g.Members, 1, hit); err != nil {
		return err
	}
	g.Remove() // at worst an empty folder stays
	return nil
}

// strays finds what began during a trial outside of its tree: some other program has started it on its behalf, such
// as one that runs jobs later. What carries the cookie is killed; what only works in the trial's folder may be the
// user's own, and is named.
func strays(s Spec, before int) (killed int, names []string, err error) {
	marked := false
	for _, p := range ps.Since(before) {
		if !p.Alive() || !p.Ours() || p.Descends(os.Getpid()) {
			continue
		}
		cookie := Getenv(strings.Split(p.File("environ"), "\x00"), cookieVariable)
		dir := p.Link("cwd")
		switch {
		case cookie == s.Cookie:
			marked = true
		case s.Dir != "" && (dir == s.Dir || strings.HasPrefix(dir, s.Dir+"/")):
			names = append(names, p.Command)
		}
	}
	if marked {
		killed, err = sweepTrial(s)
	}
	return killed, names, err
}

// note adds those of a list that are alive to hit.
func note(list []ps.Process, hit map[ps.ID]bool) {
	for _, p := range list {
		if p.Alive() {
			hit[p.ID()] = true
		}
	}
}

// carriers lists the processes of this user whose cookie matches, and all below
// them.
func carriers(match func(cookie string) bool) ([]ps.Process, error) {
	list, err := ps.All()
	if err != nil {
		return nil, err
	}
	spared := ps.Ancestors(list, os.Getpid())
	list = ps.Closure(list, func(p ps.Process) bool {
		if spared[p.PID] || !p.Ours() {
			return false
		}
		cookie := Getenv(strings.Split(p.File("environ"), "\x00"), cookieVariable)
		return cookie != "" && match(cookie)
	})
	var out []ps.Process
	for _, p := range list {
		if !spared[p.PID] && p.Alive() {
			out = append(out, p)
		}
	}
	return out, nil
}
