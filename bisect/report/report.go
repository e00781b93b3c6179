// Package report turns a Finding and the launches behind it into what people and programs read.
package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// Schema names the JSON document and its version.
const Schema = "kbisect.finding/1"

// CommitInfo is what a reader wants to know of a commit.
type CommitInfo struct {
	ID, Subject, Author, Email string
	When                       time.Time
	Files                      []File // changed against the first parent
}

// File is one changed file.
type File struct {
	Kind string // added, deleted, modified, renamed, mode
	Path string
}

// Launch is one trial with what asked for it.
type Launch struct {
	Candidate bisect.Candidate
	Purpose   bisect.Purpose
	Nth       int
	Outcome   bisect.Outcome
	Replayed  bool // remembered from before an interruption
	Drill     bool // made after the search, of parts of a culprit or of its flags
}

// Input is everything that a report is made of.
type Input struct {
	Session   string
	Finding   bisect.Finding
	Good      CommitInfo
	Bad       CommitInfo
	Commits   map[string]CommitInfo // by id; those of the range
	Launches  []Launch
	Wall      time.Duration // of the whole job, all attempts
	GPUHour   float64       // price; 0 = none known
	Devices   []string      // what the trials ran on
	Unwatched string        // why no device was watched, when one was wanted
	Backend   string        // how the history was read
	Warnings  []string
	Error     string // machine trouble in words

	Axis   string            // history, flags or hunks; "" is history
	Sets   *Sets             // what a search over flags or hunks found
	Hunks  map[string][]Hunk // by culprit: what of it is to blame
	Terms  []Term            // what flags do to the metric
	Advice string            // what to do about that
	Switch map[string]string // by culprit: the flag that it switches on, in words
	// What pictures need besides; each may be missing.
	Order   []string           // the good end and the commits of the range, parents first, the bad end last
	Limits  map[string]float64 // seconds, by phase; "build" and [bisect.WholeTrial] among them
	Diffs   map[string]string  // what culprits changed, by commit, as a unified diff
	Explain *Table             // why the culprit differs from its parent
}

// Totals is what a job cost.
type Totals struct {
	Candidates int      `json:"candidates"` // of the search itself
	Drilled    int      `json:"drilled"`    // more, in which parts of a culprit or its flags were tried
	Trials     int      `json:"trials"`
	Inferred   int      `json:"inferred"`
	Builds     int      `json:"builds"`
	CacheHits  int      `json:"cache_hits"`
	Wall       float64  `json:"wall_s"`
	Device     float64  `json:"device_s"`
	Cost       *float64 `json:"cost"`
}

// Totals adds up the launches.
func (in Input) Totals() Totals {
	t := Totals{Trials: len(in.Launches), Inferred: in.Finding.Inferred, Wall: in.Wall.Seconds()}
	seen, drilled := map[bisect.Candidate]bool{}, map[bisect.Candidate]bool{}
	for _, l := range in.Launches {
		if l.Outcome.Shared != "" {
			t.Trials--
			t.Inferred++
		}
		if l.Drill {
			drilled[l.Candidate] = true
		} else {
			seen[l.Candidate] = true
		}
		if l.Outcome.Built {
			t.Builds++
		}
		if l.Outcome.CacheHit {
			t.CacheHits++
		}
		t.Device += l.Outcome.Wall
	}
	t.Candidates = len(seen)
	maps.DeleteFunc(drilled, func(c bisect.Candidate, _ bool) bool { return seen[c] })
	t.Drilled = len(drilled)
	if in.GPUHour > 0 {
		cost := t.Device / 3600 * in.GPUHour
		t.Cost = &cost
	}
	return t
}

// Spent is what one phase cost over all launches.
type Spent struct {
	Phase   string
	Seconds float64
	Trials  int
	Ended   int // trials that ended in it other than well
	Longest float64
}

// Economics is the table of time by phase: build first, then in the order of the launches.
func (in Input) Economics() []Spent {
	order := []string{"build"}
	at := map[string]*Spent{"build": {}}
	for _, l := range in.Launches {
		order = MergePhases(order, l.Outcome.Phases)
		for _, p := range l.Outcome.Phases {
			if at[p.Name] == nil {
				at[p.Name] = &Spent{}
			}
			x := at[p.Name]
			x.Seconds += p.Seconds
			x.Longest = max(x.Longest, p.Seconds)
			x.Trials++
			if l.Outcome.Class != bisect.OK && l.Outcome.Phase == p.Name {
				x.Ended++
			}
		}
	}
	var all []Spent
	for _, name := range order {
		if x := at[name]; x.Trials > 0 {
			x.Phase = name
			all = append(all, *x)
		}
	}
	return all
}

// MergePhases adds the phases of a launch to those of others, in an order: a new one comes after the phase
// before it, if that is known, else before the next one.
func MergePhases(order []string, launch []bisect.PhaseTime) []string {
	for k, p := range launch {
		if slices.Contains(order, p.Name) {
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

// Starts are the times of one phase of an end with cold and with warm caches, medians in seconds;
// negative where it was not seen.
type Starts struct {
	Phase                                string
	GoodCold, GoodWarm, BadCold, BadWarm float64
}

// ColdWarm compares first processes with later ones on the same caches, phase by phase, at both
// ends. It is empty for programs that use no caches.
func (in Input) ColdWarm() []Starts {
	var order []string
	times := map[string]*[4][]float64{}
	add := func(col int, phases []bisect.PhaseTime) {
		order = MergePhases(order, phases)
		for _, p := range phases {
			if times[p.Name] == nil {
				times[p.Name] = &[4][]float64{}
			}
			times[p.Name][col] = append(times[p.Name][col], p.Seconds)
		}
	}
	warm := false
	for _, l := range in.Launches {
		col := map[string]int{in.Good.ID: 0, in.Bad.ID: 2}
		c, end := col[l.Candidate.Commit]
		if !end || l.Outcome.Caches == "" {
			continue
		}
		add(c, l.Outcome.Cold)
		if l.Outcome.Caches == "warm" {
			warm = true
			c++
		}
		add(c, l.Outcome.Phases)
	}
	if !warm {
		return nil
	}
	var out []Starts
	for _, name := range order {
		t := times[name]
		out = append(out, Starts{name, median(t[0]), median(t[1]), median(t[2]), median(t[3])})
	}
	return out
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return -1
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// warnings are all things that a reader should know, without repeats.
func (in Input) warnings() []string {
	out := []string{}
	seen := map[string]bool{}
	add := func(ws []string) {
		for _, w := range ws {
			if !seen[w] {
				seen[w] = true
				out = append(out, w)
			}
		}
	}
	add(in.Warnings)
	add(in.Finding.Warnings)
	add(in.said())
	return out
}

// said is what launches warned of, each thing once with the candidates that it is about.
func (in Input) said() []string {
	const named = 3
	var order, out []string
	of := map[string][]string{}
	for _, l := range in.Launches {
		for _, w := range l.Outcome.Warnings {
			if of[w] == nil {
				order = append(order, w)
			}
			if who := l.Candidate.Brief(); !slices.Contains(of[w], who) {
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

func (in Input) info(id string) CommitInfo {
	if c, ok := in.Commits[id]; ok {
		return c
	}
	switch id {
	case in.Good.ID:
		return in.Good
	case in.Bad.ID:
		return in.Bad
	}
	return CommitInfo{ID: id}
}

func short(id string) string { return id[:min(10, len(id))] }
