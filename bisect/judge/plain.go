// Package judge turns launches into verdicts.
//
// [SlowdownSearch] searches a history for what made a metric worse; it decides by [belief.Levels] what to launch,
// and leaves to [Plain] what one launch can settle. With All it looks for every culprit.
//
// [Plain] judges complaints that show in how a launch ends: a build failure, a crash, a wrong result, a
// time-out. One launch settles a commit while the complaint always comes; where it comes only sometimes,
// flakySearch goes on with [belief.Failures].
//
// [SetOracle] answers the same questions about sets of changes, for package sets.
//
// The package makes launches through a [bisect.Sampler] and does not know how.
package judge

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Options say what to look for and how surely.
type Options struct {
	Find    bisect.Class    // the class to look for; empty: read it off the bad end
	Any     bool            // every failure counts as the complaint
	Phase   string          // of the time-out to look for; empty: the one of the bad end
	Metrics []metric.Metric // what slow may be about, best first
	Effect  float64         // smallest change worth finding, as a fraction: 0.03
	Error   float64         // chance that the final answer is wrong
	Repeat  int             // launches of each candidate for a certain complaint; 0 stands for 1
	Commits int             // in the range; the error is shared among the steps of the search
	Fast    bool            // leave out what only proves the answer: clean builds, and the culprit at its full limit
	Builds  bool            // the complaint is of the build alone: nothing is run
	Untimed string          // what to do about launches that take no times by what the user chose; "": they may
}

// Plain implements bisect.Judge by the plain rule. It keeps its launches, and so is a [bisect.FlakySearcher]:
// what is launched again for proof, and what shows only sometimes, is judged by all of them together.
type Plain struct {
	Sampler bisect.Sampler
	Options

	good, bad bisect.Candidate
	complaint bisect.Complaint
	count     map[launchKey]int
	fails     int                       // launches of bad candidates that showed the complaint
	badRuns   int                       // launches of bad candidates
	looked    map[string]bisect.Outcome // trials made before the ends were known, by commit
	patient   bool                      // no trial is stopped before its limit any more
	timing    bool                      // launches are for their times now
	buildOnly bool                      // launches are for what was built now
	trials    []trial                   // all launches that were not for their times
	dropped   map[bisect.Purpose]dropped
}

// trial is one launch with what it showed.
type trial struct {
	bisect.Request
	bisect.Outcome
}

// Patient gives every trial from now on the whole of its limits.
func (p *Plain) Patient() { p.patient = true }

type launchKey struct {
	commit  string
	purpose bisect.Purpose
}

// launch makes the next trial of a candidate for a purpose.
func (p *Plain) launch(ctx context.Context, c bisect.Candidate, why bisect.Purpose) (bisect.Outcome, error) {
	if p.count == nil {
		p.count = map[launchKey]int{}
	}
	k := launchKey{c.Commit, why}
	n := p.count[k]
	p.count[k]++
	clean := !p.Fast && (why == bisect.ConfirmCulprit || why == bisect.ConfirmParent)
	r := bisect.Request{Candidate: c, Purpose: why, Nth: n, Clean: clean, Timing: p.timing, BuildOnly: p.buildOnly || p.Builds}
	if !p.patient && (why == bisect.Searching || why != bisect.ConfirmCulprit && p.MaybeFlaky()) {
		r.Hurry = p.hurry()
	}
	o, err := p.Sampler.Sample(ctx, r)
	if err == nil && !p.timing {
		p.trials = append(p.trials, trial{r, o})
	}
	return o, err
}

// hurry names the phase in which a candidate need not run to the limit: once no good run could
// still be in it, it shows the complaint. The culprit is confirmed at the whole limit.
func (p *Plain) hurry() string {
	switch {
	case p.complaint.Class != bisect.Timeout:
		return ""
	case p.complaint.Whole:
		return bisect.WholeTrial
	}
	return p.complaint.Phase
}

// launches makes the configured number of trials and returns the first that did not end well,
// or the last.
func (p *Plain) launches(ctx context.Context, c bisect.Candidate, why bisect.Purpose) (o bisect.Outcome, n int, err error) {
	for n < max(1, p.Repeat) {
		o, err = p.launch(ctx, c, why)
		n++
		if err != nil || o.Class != bisect.OK {
			break
		}
	}
	return o, n, err
}

// Look makes one trial of a candidate that may become an end, before the ends are known. Ends and
// Judge use what it showed.
func (p *Plain) Look(ctx context.Context, c bisect.Candidate, why bisect.Purpose) (bisect.Outcome, error) {
	o, err := p.Sampler.Sample(ctx, bisect.Request{Candidate: c, Purpose: why, BuildOnly: p.Builds})
	if p.looked == nil {
		p.looked = map[string]bisect.Outcome{}
	}
	if err == nil {
		p.looked[c.Commit] = o
	}
	return o, err
}

// lookAgain drops the time-outs that were seen before the good end was known: only that tells which
// phases there are, and where a time-out was.
func (p *Plain) lookAgain(good bisect.Outcome) {
	if !good.Speaks {
		return
	}
	for commit, o := range p.looked {
		if o.Class == bisect.Timeout {
			delete(p.looked, commit)
		}
		if commit == p.bad.Commit && o.Class == bisect.Timeout {
			p.count[launchKey{commit, bisect.EndBad}]++
		}
	}
}

// Ends judges both ends and reads the complaint off the bad one.
func (p *Plain) Ends(ctx context.Context, good, bad bisect.Candidate) (bisect.Ends, error) {
	p.good, p.bad, p.trials = good, bad, nil
	g, ng, err := p.launches(ctx, good, bisect.EndGood)
	if err != nil {
		return bisect.Ends{}, err
	}
	p.lookAgain(g)
	b, nb, err := p.launches(ctx, bad, bisect.EndBad)
	if err != nil {
		return bisect.Ends{}, err
	}
	if p.mayPass(g, b) {
		return p.rareEnds(ctx, g, b)
	}
	e := p.compareEnds(g, b)
	if e.Differ || e.Untestable || g.Class != bisect.OK || b.Class != bisect.OK {
		p.complaint = e.Complaint
		p.fails, p.badRuns = nb, nb
		e.Good, e.Bad = p.verdict(g, ng), p.verdict(b, nb)
		return e, nil
	}
	e = withVerdicts(e, g, b)
	if p.Any || p.Find != "" && p.Find != bisect.Slow {
		return e, nil
	}
	return p.unmeasured(e, g, b), nil
}

// withVerdicts fills in the verdicts of two ends that both ended well.
func withVerdicts(e bisect.Ends, g, b bisect.Outcome) bisect.Ends {
	e.Good = bisect.Verdict{Call: bisect.Good, Probability: 1, Class: g.Class, Why: g.Describe(), Trials: 1}
	e.Bad = bisect.Verdict{Call: bisect.Good, Probability: 1, Class: b.Class, Why: b.Describe(), Trials: 1}
	return e
}

// compareEnds settles what one launch of each end can settle.
func (p *Plain) compareEnds(g, b bisect.Outcome) bisect.Ends {
	var e bisect.Ends
	build := p.Find == bisect.BuildFailed
	switch {
	case untestable(g) && b.Class == g.Class:
		e.Why = fmt.Sprintf("neither end can be tested: good end %s; bad end %s", g.Describe(), b.Describe())
		e.Hint, e.OtherGood = "name other ends with --good and --bad", true
		if g.Class == bisect.BuildFailed {
			e.Check = "does the build command work in a fresh clone? candidates hold only what is committed; "
			e.Hint = e.Check + "else name an older good end with --good"
		}
	case untestable(g):
		e.Untestable = true
		e.Why = "the good end cannot be tested: " + g.Describe()
		e.Hint, e.OtherGood = "name another good end with --good, one that builds and runs", true
	case g.Class != bisect.OK && b.Class == bisect.OK:
		e.Why = fmt.Sprintf("the good end is bad (%s) and the bad end is good", g.Describe())
		e.Hint = "either the ends are swapped, or the range holds a fix; kbisect looks for what got worse between a good end and a later bad one"
	case g.Class == b.Class && g.Class != bisect.OK:
		e.Why = fmt.Sprintf("both ends fail alike: good end %s; bad end %s", g.Describe(), b.Describe())
		e.Hint, e.OtherGood = "name an older good end with --good, or let --find-good look for one", true
		if g.Class == bisect.Timeout {
			e.Check = "is the limit too short (--limit, or the limits in kbisect.toml)? "
			e.Hint = e.Check + "else name an older good end with --good"
		}
	case g.Class != bisect.OK:
		e.Why = "the good end is bad: " + g.Describe()
		e.Hint, e.OtherGood = "name a good end that runs well with --good, or let --find-good look for one", true
	case b.Class == bisect.Skip:
		e.Untestable = true
		e.Why = "the bad end cannot be tested: " + b.Describe()
		e.Hint = "name another bad end with --bad"
	case b.Class == bisect.OK:
		e.Why = "both ends end well"
		if p.Find == "" {
			e.Hint = cmp.Or(p.Untimed, "to look for a slowdown of a program that sends no samples, give --find slow --metric wall")
			if why := unlike(p.Metrics, g, b); why != "" {
				e.Hint = why + "; --find slow --metric wall compares the time of the whole run instead"
			}
		}
	default:
		e = p.readComplaint(b)
		if build && e.Differ {
			e.Why = "the bad end does not build"
		}
	}
	return e
}

// readComplaint takes the complaint from a bad end that failed.
func (p *Plain) readComplaint(b bisect.Outcome) bisect.Ends {
	c := bisect.Complaint{Class: b.Class, Any: p.Any}
	if b.Class == bisect.Timeout {
		c.Phase, c.Whole = b.Phase, b.Whole
		c.AnyPhase = p.Find == bisect.Timeout && p.Phase == ""
	}
	e := bisect.Ends{Complaint: c, Why: "bad end: " + b.Describe()}
	switch {
	case p.Find != "" && p.Find != b.Class:
		e.Why = fmt.Sprintf("the bad end does not show the complaint asked for (%s) but another: %s", p.Find, b.Describe())
	case p.Phase != "" && p.Phase != b.Phase && !strings.HasSuffix(b.Phase, "/"+p.Phase): // "check" is test/check, too
		e.Why = fmt.Sprintf("the bad end does not show the complaint asked for (phase %s) but another: %s", p.Phase, b.Describe())
	default:
		e.Differ = true
		return e
	}
	e.Complaint = bisect.Complaint{}
	e.Hint = "leave out --find and --phase to search for what the bad end does show"
	return e
}

// untestable outcomes say nothing about the complaint.
func untestable(o bisect.Outcome) bool {
	return o.Class == bisect.Skip || o.Class == bisect.BuildFailed
}

// Judge says whether a candidate shows the complaint.
func (p *Plain) Judge(ctx context.Context, c bisect.Candidate) (bisect.Verdict, error) {
	o, n := p.looked[c.Commit], 1
	if o.Class == "" {
		var err error
		if o, n, err = p.launches(ctx, c, bisect.Searching); err != nil {
			return bisect.Verdict{}, err
		}
	} else {
		p.trials = append(p.trials, trial{bisect.Request{Candidate: c, Purpose: bisect.EndGood}, o})
	}
	v := p.verdict(o, n)
	if v.Call == bisect.Bad {
		p.fails++
		p.badRuns += n
	}
	return v, nil
}

// Confirm launches the culprit and its parents anew.
func (p *Plain) Confirm(ctx context.Context, culprit bisect.Candidate, parents []bisect.Candidate) (bisect.Confirmation, error) {
	var conf bisect.Confirmation
	o, n, err := p.launches(ctx, culprit, bisect.ConfirmCulprit)
	if err != nil {
		return conf, err
	}
	conf.Culprit = p.verdict(o, n)
	if conf.Culprit.Call != bisect.Bad {
		return conf, nil
	}
	p.fails++
	p.badRuns += n
	for _, c := range parents {
		o, n, err := p.launches(ctx, c, bisect.ConfirmParent)
		if err != nil {
			return conf, err
		}
		conf.Parents = append(conf.Parents, p.confirmed(p.verdict(o, n)))
	}
	conf.Culprit.Probability = 1 - falseAlarm*falseAlarm
	return conf, nil
}

// falseAlarm is the assumed chance that a good candidate fails once by accident.
const falseAlarm = 0.003

// verdict reads one outcome against the complaint.
func (p *Plain) verdict(o bisect.Outcome, n int) bisect.Verdict {
	v := bisect.Verdict{Class: o.Class, Phase: o.Phase, Why: o.Describe(), Trials: n, Warnings: o.Warnings, Probability: 1, Early: o.Early}
	switch {
	case o.Class == bisect.OK, p.pastTheBuild(o):
		v.Call, v.Probability = bisect.Good, 1-p.missed(n)
	case p.complaint.Class == "" && !untestable(o), p.complaint.Matches(o):
		v.Call, v.Probability = bisect.Bad, 1-falseAlarm
	case o.Class == bisect.Skip, o.Class == bisect.BuildFailed:
		v.Call = bisect.Untestable
	default:
		v.Call, v.Other = bisect.Untestable, true
		v.Why = "fails in another way: " + v.Why
	}
	return v
}

// pastTheBuild reports that the complaint is about the build and this candidate was built.
func (p *Plain) pastTheBuild(o bisect.Outcome) bool {
	about := p.complaint.Class == bisect.BuildFailed || p.complaint.Class == bisect.Timeout && p.complaint.Phase == "build"
	return about && !p.complaint.Any && o.Phase != "build" && (o.Class == bisect.Wrong || o.Class == bisect.Crash || o.Class == bisect.Timeout)
}

// missed is the chance that a bad candidate passed n launches: the share of launches of bad
// candidates that did pass, by the rule of succession.
func (p *Plain) missed(n int) float64 {
	q := min(0.99, float64(p.fails+1)/(float64(p.badRuns)+1.1))
	return math.Pow(1-q, float64(n))
}

// confirmed adds the launch of the search to that of the confirmation.
func (p *Plain) confirmed(v bisect.Verdict) bisect.Verdict {
	if v.Call == bisect.Good {
		v.Probability = 1 - p.missed(v.Trials+1)
	}
	return v
}
