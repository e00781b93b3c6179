package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// Ledger is what a document rests on: the launches themselves, and what the repository and the configuration say of
// them. It is never part of the JSON. Each part may be missing; the document then says less.
type Ledger struct {
	Launches []Launch
	Commits  map[string]CommitInfo // by id; those of the range
	Order    []string              // the good end and the commits of the range, parents first, the bad end last
	Limits   map[string]float64    // seconds, by phase; "build" and [bisect.WholeTrial] among them
	Call     Call
	Setup    Setup
	Forge    Forge
	Diffs    map[string]string // what culprits changed, by commit, as a unified diff
}

// Launch is one trial with what asked for it.
type Launch struct {
	Candidate bisect.Candidate
	Purpose   bisect.Purpose
	Nth       int
	Outcome   bisect.Outcome
	Drill     bool // made after the search, of parts of a culprit or of its flags
}

// ID names the trial.
func (l Launch) ID() bisect.TrialID {
	return bisect.TrialID{Candidate: l.Candidate, Purpose: l.Purpose, Nth: l.Nth}
}

// Info is what is known of a commit, at least its id.
func (l Ledger) Info(id string) CommitInfo {
	if c, ok := l.Commits[id]; ok {
		return c
	}
	return CommitInfo{ID: id}
}

// Totals is what a job cost.
type Totals struct {
	Candidates int      `json:"candidates"` // of the search itself
	Drilled    int      `json:"drilled"`    // more, in which parts of a culprit or its flags were tried
	Trials     int      `json:"trials"`
	Inferred   int      `json:"inferred"`
	Reused     int      `json:"reused"` // trials of earlier sessions that were not made again
	Builds     int      `json:"builds"`
	CacheHits  int      `json:"cache_hits"`
	Wall       float64  `json:"wall_s"`
	Spent      []Spent  `json:"spent"` // where the wall time went: adds up to it
	Device     float64  `json:"device_s"`
	Cost       *float64 `json:"cost"`
}

// Spent is a part of the wall time.
type Spent struct {
	Account string  `json:"account"` // a phase, or what else was done
	Seconds float64 `json:"seconds"`
}

// Totals adds up the launches. spent, where the wall time of all attempts went, and gpuHour, the price of an hour of a
// device (0: not known), come from outside. The price counts the seconds of running, not those of building. Launches
// taken over from earlier sessions cost nothing and are only counted.
func (l Ledger) Totals(spent []Spent, gpuHour float64) Totals {
	t := Totals{Trials: len(l.Launches), Spent: append([]Spent{}, spent...)}
	for _, s := range spent {
		t.Wall += s.Seconds
	}
	seen, drilled := map[bisect.Candidate]bool{}, map[bisect.Candidate]bool{}
	for _, x := range l.Launches {
		switch {
		case x.Outcome.From != "":
			t.Trials--
			t.Reused++
			continue
		case x.Outcome.Shared != "":
			t.Trials--
			t.Inferred++
		}
		if x.Drill {
			drilled[x.Candidate] = true
		} else {
			seen[x.Candidate] = true
		}
		if x.Outcome.Built {
			t.Builds++
		}
		if x.Outcome.CacheHit {
			t.CacheHits++
		}
		t.Device += x.Outcome.Wall + x.Outcome.Paired
	}
	t.Candidates = len(seen)
	maps.DeleteFunc(drilled, func(c bisect.Candidate, _ bool) bool { return seen[c] })
	t.Drilled = len(drilled)
	if gpuHour > 0 {
		cost := t.Device / 3600 * gpuHour
		t.Cost = &cost
	}
	return t
}

// Made leaves out the launches that were taken over from earlier sessions, which cost nothing.
func Made(all []Launch) []Launch {
	return slices.DeleteFunc(slices.Clone(all), func(x Launch) bool { return x.Outcome.From != "" })
}

// PhaseCost is what one phase cost over all launches.
type PhaseCost struct {
	Phase   string
	Seconds float64
	Trials  int
	Ended   int // trials that ended in it other than well
	Longest float64
}

// PhaseCosts is the time of all launches by phase: build first, then in the order in which programs enter them.
func (l Ledger) PhaseCosts() []PhaseCost {
	order := []string{"build"}
	at := map[string]*PhaseCost{"build": {}}
	for _, x := range l.Launches {
		order = MergePhases(order, x.Outcome.Phases)
		for _, p := range x.Outcome.Phases {
			if at[p.Name] == nil {
				at[p.Name] = &PhaseCost{}
			}
			c := at[p.Name]
			c.Seconds += p.Seconds
			c.Longest = max(c.Longest, p.Seconds)
			c.Trials++
			if x.Outcome.Class != bisect.OK && x.Outcome.Phase == p.Name {
				c.Ended++
			}
		}
	}
	var all []PhaseCost
	for _, name := range order {
		if c := at[name]; c.Trials > 0 {
			c.Phase = name
			all = append(all, *c)
		}
	}
	return all
}

// mostPhases bounds what tables show of phases, whose names and number programs choose.
const mostPhases = 256

// MergePhases adds the phases of a launch to an order of phases: a new one comes after the phase that it followed in
// this launch, or else before the first phase that is known. Beyond mostPhases new ones are left out. It may change
// order.
func MergePhases(order []string, launch []bisect.PhaseTime) []string {
	for k, p := range launch {
		if slices.Contains(order, p.Name) || len(order) >= mostPhases {
			continue
		}
		at := len(order)
		if k > 0 {
			at = slices.Index(order, launch[k-1].Name) + 1
		} else if i := slices.IndexFunc(order, func(name string) bool {
			return slices.ContainsFunc(launch, func(x bisect.PhaseTime) bool { return x.Name == name })
		}); i >= 0 {
			at = i
		}
		order = slices.Insert(order, at, p.Name)
	}
	return order
}

// Median is the middle of some values, unknown without any.
func Median(v []float64) Number {
	if len(v) == 0 {
		return Unknown()
	}
	v = slices.Sorted(slices.Values(v))
	return Number((v[(len(v)-1)/2] + v[len(v)/2]) / 2)
}

// warnings are what launches warned of, each text once with the candidates that it is about.
func (l Ledger) warnings() []string {
	const named = 3
	var order, out []string
	of := map[string][]string{}
	for _, x := range l.Launches {
		for _, w := range x.Outcome.Warnings {
			if of[w] == nil {
				order = append(order, w)
			}
			if who := x.Candidate.Brief(); !slices.Contains(of[w], who) {
				of[w] = append(of[w], who)
			}
		}
	}
	for _, w := range order {
		who := "commit " + of[w][0]
		if n := len(of[w]); n > named {
			who = fmt.Sprintf("%d commits, such as %s", n, of[w][0])
		} else if n > 1 {
			who = "commits " + strings.Join(of[w], ", ")
		}
		out = append(out, who+": "+w)
	}
	return out
}
