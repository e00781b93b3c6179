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
	"context"
	"fmt"
	"maps"
	"slices"

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
	read      reading
	count     map[launchKey]int
	looked    map[string]bisect.Outcome // trials made before the ends were known, by commit
	patient   bool                      // no trial is stopped before its limit any more
	timing    bool                      // launches are for their times now
	buildOnly bool                      // launches are for what was built now
	trials    trialLog                  // all launches that were not for their times
	dropped   droppedLog
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
		r.Hurry = p.read.hurry()
	}
	o, err := p.Sampler.Sample(ctx, r)
	if err == nil && !p.timing {
		p.trials = append(p.trials, trial{r, o})
	}
	return o, err
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
	e := readEnds(p.Options, g, b)
	if e.Differ || e.Untestable || g.Class != bisect.OK || b.Class != bisect.OK {
		p.read.complaint = e.Complaint
		p.read.fails, p.read.badRuns = nb, nb
		e.Good, e.Bad = p.read.verdict(g, ng), p.read.verdict(b, nb)
		return e, nil
	}
	e = withVerdicts(e, g, b)
	if p.Any || p.Find != "" && p.Find != bisect.Slow {
		return e, nil
	}
	return unmeasured(p.Options, e, g, b), nil
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
	v := p.read.verdict(o, n)
	if v.Call == bisect.Bad {
		p.read.fails++
		p.read.badRuns += n
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
	conf.Culprit = p.read.verdict(o, n)
	if conf.Culprit.Call != bisect.Bad {
		return conf, nil
	}
	p.read.fails++
	p.read.badRuns += n
	for _, c := range parents {
		o, n, err := p.launches(ctx, c, bisect.ConfirmParent)
		if err != nil {
			return conf, err
		}
		conf.Parents = append(conf.Parents, p.read.confirmed(p.read.verdict(o, n)))
	}
	conf.Culprit.Probability = 1 - falseAlarm*falseAlarm
	return conf, nil
}

// MaybeFlaky reports that the complaint may show only in some launches.
func (p *Plain) MaybeFlaky() bool { return p.read.flaky() }

// Ratio is what a failing launch of the search cost so far in units of one that passes, builds
// included; 0 before both were seen.
func (p *Plain) Ratio() float64 { return p.trials.ratio(p.read) }

// steady launches an end that has ended well before. One failure among many launches is set aside;
// an end that keeps failing cannot serve as a reference.
func (p *Plain) steady(ctx context.Context, c bisect.Candidate, why bisect.Purpose) (bisect.Outcome, error) {
	const tries = 3
	for n := 1; ; n++ {
		o, err := p.launch(ctx, c, why)
		if err == nil {
			p.dropped.note(why, o)
		}
		if err != nil || o.Class == bisect.OK {
			return o, err
		}
		if n == tries {
			what := fmt.Sprintf("launching %s (%s) again", bisect.ShortID(c.Commit), why)
			return o, &bisect.InfraError{What: what, Err: fmt.Errorf("it ended well before and failed %d times in a row now: %s", tries, o.Describe())}
		}
	}
}

// Clone returns a Plain that goes on from here by itself.
func (p *Plain) Clone() *Plain {
	c := *p
	c.count, c.looked, c.dropped = maps.Clone(p.count), maps.Clone(p.looked), maps.Clone(p.dropped)
	c.trials = slices.Clone(p.trials)
	return &c
}
