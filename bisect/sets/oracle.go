package sets

import (
	"context"

	"github.com/kbisect/kbisect/bisect"
)

// Answer is what a test of a set showed.
type Answer string

// The answers.
const (
	Pass       Answer = "pass"
	Fail       Answer = "fail"       // shows the complaint
	Unresolved Answer = "unresolved" // does not build, or fails in another way: accuses nobody
)

// Purpose says why a set is tested; with the set and the ordinal it names the test.
type Purpose string

// The purposes of a test.
const (
	EndGood  Purpose = "end-good"
	EndBad   Purpose = "end-bad"
	Alone    Purpose = "alone"   // a claimed set, and nothing else
	Without  Purpose = "without" // all but a claimed set
	Prefix   Purpose = "search"
	Seed     Purpose = "seed" // all but the cheapest set that hits every guilty set known
	Certify  Purpose = "certify"
	Value    Purpose = "value" // another value of a guilty flag
	Builds   Purpose = "builds"
	Masking  Purpose = "mask"
	Keeping  Purpose = "keep"
	Rate     Purpose = "rate"     // everything on, for how often what is guilty fails
	Slowness Purpose = "slow"     // whether it is slow, where the complaint is a time-out
	Recorded Purpose = "recorded" // known from an earlier search
)

// Request asks for one test: one fresh launch with exactly the atoms of Set on.
type Request struct {
	Set     Set
	Purpose Purpose
	Nth     int     // ordinal among the tests of the same set and purpose, from 0
	Full    bool    // give it the full limit; else it may be stopped where no good run would still be running
	Past    float64 // seconds that some set needs without showing the complaint: not to be stopped before
	Clean   bool    // from a clean export and a clean build
	Chance  float64 // of a failure, as far as the search knows
}

// Result is what one test showed.
type Result struct {
	Answer   Answer
	Seconds  float64
	Class    bisect.Class
	Phase    string
	Early    bool    // a failure that rests on being stopped before the full limit
	Between  bool    // a pass that took longer than tests without Full are given: slow, no time-out
	Launches int     // launches that were weighed together for the answer; 0 stands for 1
	Slow     float64 // time as a multiple of that of nothing on; 0: unknown
	Why      string
}

// Oracle tests sets. An error means that the machine is at fault, or that the search was interrupted;
// it ends the search with what is known.
type Oracle interface {
	Test(ctx context.Context, r Request) (Result, error)
}

// Test is one row of the ledger: a test that was run, or an answer that follows from others.
type Test struct {
	Request
	Result
	Inferred bool
	From     Set // of an inferred answer: the set that showed it
}
