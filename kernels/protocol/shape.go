package protocol

import (
	"fmt"
	"hash/fnv"
	"time"
)

// Shape is how much a trial sent. It serves to recognise the last line of another trial.
type Shape struct {
	Phase  string         `json:"phase"`  // in force at the last line
	Before string         `json:"before"` // digest of the phases and cases up to the entry of Phase
	Lines  int            `json:"lines"`  // in total
	Kinds  map[string]int `json:"kinds"`  // lines since the entry of Phase, by kind
	Result bool           `json:"result"` // the last line was a sample, a metric or a check
}

// Least combines two good trials of a program that sends a varying number of lines into
// the least that a complete trial sends. ok is false if they end in different phases.
func (e Shape) Least(other Shape) (least Shape, ok bool) {
	if e.Phase != other.Phase {
		return e, false
	}
	least = e
	least.Kinds = map[string]int{}
	for kind, n := range e.Kinds {
		if m := min(n, other.Kinds[kind]); m > 0 {
			least.Kinds[kind] = m
		}
	}
	return least, true
}

// sent counts the lines that the program itself sent.
type sent struct {
	total  int            // lines
	facts  int            // lines that were understood
	kinds  map[string]int // since the last `phase:`
	trace  string         // digest of all phases and cases
	before string         // trace at the last `phase:`
	phase  bool           // the last line entered a phase
	result bool           // the last line was a result
	at     time.Duration  // arrival of the last line
	gap    time.Duration  // longest pause between two lines
	depth  int            // open spans at the last line
	top    string         // phase of the clock at the last line
}

// line counts a line. Numbers and reasons are left out of the digest: they differ between trials that send as much.
func (s *sent) line(kind, key, rest string, at time.Duration) {
	if s.total > 0 {
		s.gap = max(s.gap, at-s.at)
	}
	s.total++
	s.at = at
	if kind != malformedKind {
		s.facts++
	}
	if kind == "phase" || kind == "case" {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s\n%s: %s", s.trace, key, rest)
		s.trace = fmt.Sprintf("%016x", h.Sum64())
	}
	s.phase = kind == "phase"
	s.result = kind == "sample" || kind == "metric" || kind == "check"
	if s.phase {
		s.before, s.kinds = s.trace, nil
		return
	}
	if s.kinds == nil {
		s.kinds = map[string]int{}
	}
	s.kinds[kind]++
}
