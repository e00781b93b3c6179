// Package search is the core of the search for the commit of a range that introduced a complaint, whatever the
// complaint is. A [Run] asks one question about one range: it lets a [belief.Belief] choose the next commit, launches
// it, and adds what it showed, until one commit stands out. A [Question] says how an outcome is read and what proves
// an answer; package question has the two that there are, and package find runs a whole [Search].
//
// A [Ledger] makes the launches and keeps them, a [Span] knows which commits may be the culprit and which can be
// launched, and an [Account] holds the finding so far.
//
// The state of a search is the list of its outcomes: a Sampler that remembers them leads it to where it was. The
// package makes launches through a [bisect.Sampler] and does not know how that builds and runs, and it never looks at
// samples: what launches mean is for package belief.
package search

import (
	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Options say what to look for and how sure the answer must be.
type Options struct {
	Find    bisect.Class    // the class to look for; empty: read it off the bad end
	Any     bool            // every failure counts as the complaint
	Phase   string          // of the time-out to look for; empty: the one of the bad end
	Metrics []metric.Metric // what slow may be about, best first
	Effect  float64         // smallest change worth finding, as a fraction: 0.03; 0 stands for 0.005
	Error   float64         // chance that the final answer is wrong; 0 stands for 0.01
	Repeat  int             // launches of each candidate for a certain complaint; 0 stands for 1
	Fast    bool            // leave out what only proves the answer: clean builds, and the culprit at its full limit
	Builds  bool            // the complaint is of the build alone: nothing is run
	Untimed string          // what to do about launches that take no times by what the user chose; "": they may
}

// Search says where to look for the first bad commit of a range, and how. It is run by package find.
type Search struct {
	Commits []bisect.Commit  // parents first, the bad end last
	Good    bisect.Candidate // the good end, just before the range
	GoodKey string           // fingerprint of the good end's inputs
	Sampler bisect.Sampler   // its [bisect.ErrSpent] ends the search as Spent does
	Options
	Faster   bool // look for what made the metric better
	All      bool // look for every culprit in the range
	Launches int  // at most; 0 stands for 1200
	AtOnce   int  // launches at a time whose times count; 0 and 1: one after the other
	// Devices are the names of the devices that launches are assigned to ([bisect.Request.On]), because times on one
	// cannot be compared with times on another: as many as AtOnce, or none.
	Devices []string
	Width   int // builds at a time: as many commits are foreseen, and preferred; 0 or 1: none
	More    int // builds besides, when there is time for them
	// Looked are trials made before the ends were known, of commits that may have become ends.
	Looked []Trial

	// Differs says, for each of Commits and each of its parents, what differs of what launches have opened
	// (Outcome.Opened). halving is how many pairs of commits it may compare for each time that this halves a large range.
	// It returns nil where that is not enough, or it cannot be told. May be nil: nothing is learned.
	Differs func(opened []string, halving int) [][]bisect.Difference

	OnStep func(bisect.Step)      // progress; may be nil
	Spent  func() bool            // reports that the budget is used up; may be nil
	Left   func() float64         // seconds that the budget leaves; nil: there is none
	Ahead  func([]bisect.Request) // is told what will probably be asked for, likeliest first; may be nil
	// Listen makes builds call heard with the files opened so far, and the seconds since they began; nil stops that. May be nil.
	Listen func(heard func(opened []string, after float64))
	// Soon gets the launches that are likely next and may start while others run: the first of the bad end and those of a
	// proof and, if Eager, those of the commits that the next decisions lead to. It may be nil.
	Soon  func([]bisect.Request)
	Eager bool                   // a launch is announced as soon as it is somewhat likely: there are processors for a wrong guess
	Batch func([]bisect.Request) // receives the next requests, in order, so that they can be launched together; may be nil
	// Apart is told of a device, by its number from 1, that disagrees with the others: none of its launches counts.
	// May be nil.
	Apart func(device int)
	Redo  func() // from now on every build must be a clean one; may be nil
	// Weigh returns the prior weights of the commits, in place of those that they carry; nil where there
	// are none. It is asked when a search for a slow commit begins; may be nil.
	Weigh func() []float64
	// Past says what launches scattered by in earlier sessions; may be nil. It decides how soon the search begins.
	// What the search believes, its proof and its intervals rest on its own launches alone.
	Past func(metric.Channel) bisect.Scatter
	// OnProspect is called once if finding the wanted effect costs too much; its error ends the search. May be nil.
	OnProspect func(bisect.Prospect) error
	// OnProgress is told how far the search is, before every launch that a belief chooses; may be nil.
	OnProgress func(Progress)
}

// The rules of a search (judge.md 2, defaults); make bench-judge measures what they cost and are worth.
const (
	// MaxRounds is how often a search begins again after launches that contradict it.
	MaxRounds   = 2
	maxLaunches = 1200 // without a budget
	// unproven is the most that a fast search states: at the rates for which it is worst, that of a half, so
	// many of its answers are right. See TestFastIsAsSureAsItSays.
	unproven = 0.98
)

// Delta is the chance of a wrong answer that the search may leave: half of what Options.Error allows in all, at most
// 0.25. The proof may leave the other half (judge.md 3).
func (o Options) Delta() float64 {
	if o.Error > 0 {
		return min(0.25, o.Error/2)
	}
	return 0.005
}
