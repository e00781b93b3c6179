package search

import (
	"math"

	"github.com/kbisect/kbisect/bisect/belief"
)

// Progress is how far a search is and what it will still take. Done never falls, and what is expected only falls,
// unless Reason says why it rose.
type Progress struct {
	Suspects         float64 // the number of equally likely suspects that would be as hard to tell apart
	Done             float64 // share of all launches
	ExpectedLaunches float64 // to the end, proof included
	Later            float64 // of these, for other culprits
	ExpectedSeconds  float64 // the same by what a launch has taken so far, builds and pauses included
	Reason           Reason  // why more is expected than was said last; "": it is not
}

// Reason is why a search will take longer than it has said.
type Reason string

// The reasons, the plainest first.
const (
	FindsMore    Reason = "more"         // one culprit is found, and others are looked for
	Contradicted Reason = "contradicted" // launches contradict those before: these are made again
	Intermittent Reason = "intermittent" // the complaint comes only in some launches, or in good commits as well
	Noisier      Reason = "noisier"      // launches scatter more than those before
	Slower       Reason = "slower"       // launches take longer than those before
	Unlucky      Reason = "unlucky"      // launches told less than they promised
)

// Outlook is what a question expects of the rest of its run.
type Outlook struct {
	Launches float64 // proof included
	Wavers   bool    // the complaint comes only in some launches, or in good commits as well
	Noise    float64 // standard deviation of a launch; 0: nothing is known of it
}

// The rules of a forecast. The estimates of a belief jump up and down from launch to launch, so they are not shown as
// they are; nor is their minimum, which after a third of a search is 0.05 to 0.5 of what is left. The values were
// chosen on traces of simulated searches: a forecast made after a third of a search then is 0.6 to 1.2 of what is left
// (medians of nine kinds of searches, 100 of each).
const (
	follows  = 0.5 // share of the way that it falls at a time to a lower estimate
	rises    = 1.5 // times what was said that an estimate must come to before it counts
	beyond   = 2.0 // launches by which it must besides
	doubtful = 0.5 // share of the launches last promised without which bad luck does not explain it
	cautious = 2.0 // times the estimate that is said then: where one was too low the next is as well
	changed  = 1.3 // times what it was that noise, or the time of a launch, has changed
	tangible = 10  // seconds by which a search must take longer to say so where its launches are no more than was said
)

// basis is the state of a search at one launch: its estimate, and all that can explain why the next one is higher.
type basis struct {
	Outlook
	run     *Run
	rounds  int
	patient bool
	pace    float64 // seconds of a launch
	made    int     // launches
}

// since names what has changed since an older basis and explains a higher estimate, the plainest reason first. Nothing
// having changed, the launches told less than they promised.
func (b basis) since(old basis) Reason {
	switch {
	case b.run != old.run:
		return FindsMore
	case b.rounds > old.rounds, b.patient && !old.patient:
		return Contradicted
	case b.Wavers && !old.Wavers:
		return Intermittent
	case b.Noise > changed*old.Noise && old.Noise > 0:
		return Noisier
	case b.pace > changed*old.pace:
		return Slower
	}
	return Unlucky
}

// forecast is what was last said of the end of a search.
type forecast struct {
	launches, seconds, done float64
	on                      basis // when it rose last
}

// take brings the forecast up to a new estimate. A lower one pulls it down part of the way (follows). A higher one
// counts only beyond `rises` and `beyond`, and with no reason but bad luck only once many of the promised launches
// were made (doubtful); then the forecast begins anew, and why is returned. Otherwise why is "". Launches that only
// take longer do not become more.
func (f *forecast) take(now basis, launches float64) (why Reason) {
	seconds, first := launches*now.pace, f.on.run == nil
	more := launches > rises*f.launches+beyond
	longer := more || seconds > rises*f.seconds+max(beyond*now.pace, tangible)
	if why = now.since(f.on); first || !longer || why == Unlucky && float64(now.made-f.on.made) < doubtful*f.on.Launches {
		why = ""
	}
	f.launches = foretold(f.launches, launches, first, more && why != "")
	f.seconds = foretold(f.seconds, seconds, first, why != "")
	if first || why != "" {
		f.on = now
		f.on.Launches = f.launches
	}
	f.done = max(f.done, float64(now.made)/(float64(now.made)+f.launches))
	return why
}

// foretold is what is said after what was said before, given an estimate. One that begins anew is never below what was
// said, and has a margin (cautious), except the first one.
func foretold(said, estimate float64, first, anew bool) float64 {
	switch {
	case first:
		return estimate
	case anew:
		return max(said, cautious*estimate)
	}
	return said - follows*max(0, said-estimate)
}

// Tell reports the progress of a run to Search.OnProgress; where there is no belief yet it does nothing. o is what the
// question expects of the rest of the run.
func Tell(r *Run, b belief.Belief, o Outlook) {
	if r.Search.OnProgress == nil || b == nil {
		return
	}
	l, f := r.Ledger, &r.Ledger.forecast
	why := f.take(basis{Outlook: o, run: r, rounds: r.Rounds, patient: l.Patient, pace: l.Pace(), made: len(l.Made)}, o.Launches+r.Later)
	r.Search.OnProgress(Progress{
		Suspects: math.Exp(belief.Entropy(b.Weights())), Done: f.done, ExpectedLaunches: f.launches, Later: min(r.Later, f.launches), ExpectedSeconds: f.seconds, Reason: why,
	})
}
