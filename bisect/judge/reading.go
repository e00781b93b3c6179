package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// reading is how outcomes are read against a complaint. It launches nothing.
type reading struct {
	complaint bisect.Complaint
	fails     int // launches of bad candidates that showed the complaint
	badRuns   int // launches of bad candidates
}

// hurry names the phase in which a candidate need not run to the limit: once no good run could
// still be in it, it shows the complaint. The culprit is confirmed at the whole limit.
func (r reading) hurry() string {
	switch {
	case r.complaint.Class != bisect.Timeout:
		return ""
	case r.complaint.Whole:
		return bisect.WholeTrial
	}
	return r.complaint.Phase
}

// flaky reports that the complaint may show only in some launches.
func (r reading) flaky() bool {
	c := r.complaint
	return (c.Class == bisect.Timeout || c.Class == bisect.Crash || c.Class == bisect.Wrong) && c.Phase != "build"
}

// falseAlarm is the assumed chance that a good candidate fails once by accident.
const falseAlarm = 0.003

// verdict reads one outcome against the complaint.
func (r *reading) verdict(o bisect.Outcome, n int) bisect.Verdict {
	v := bisect.Verdict{Class: o.Class, Phase: o.Phase, Why: o.Describe(), Trials: n, Warnings: o.Warnings, Probability: 1, Early: o.Early}
	switch {
	case o.Class == bisect.OK, r.pastTheBuild(o):
		v.Call, v.Probability = bisect.Good, 1-r.missed(n)
	case r.complaint.Class == "" && !untestable(o), r.complaint.Matches(o):
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
func (r *reading) pastTheBuild(o bisect.Outcome) bool {
	about := r.complaint.Class == bisect.BuildFailed || r.complaint.Class == bisect.Timeout && r.complaint.Phase == "build"
	return about && !r.complaint.Any && o.Phase != "build" && (o.Class == bisect.Wrong || o.Class == bisect.Crash || o.Class == bisect.Timeout)
}

// missed is the chance that a bad candidate passed n launches: the share of launches of bad
// candidates that did pass, by the rule of succession.
func (r *reading) missed(n int) float64 {
	q := min(0.99, float64(r.fails+1)/(float64(r.badRuns)+1.1))
	return math.Pow(1-q, float64(n))
}

// confirmed adds the launch of the search to that of the confirmation.
func (r *reading) confirmed(v bisect.Verdict) bisect.Verdict {
	if v.Call == bisect.Good {
		v.Probability = 1 - r.missed(v.Trials+1)
	}
	return v
}

// shows is one launch as a count; zero when it tells nothing about the complaint.
func (r *reading) shows(o bisect.Outcome) belief.Tally {
	switch r.verdict(o, 1).Call {
	case bisect.Bad:
		return belief.Tally{Fails: 1}
	case bisect.Good:
		return belief.Tally{Passes: 1}
	}
	return belief.Tally{}
}

// wanted reports that the user named a failure to look for.
func (o Options) wanted() bool { return o.Any || o.Find != "" }

// comparable reports that both ends sent a value of some metric.
func (o Options) comparable(g, b bisect.Outcome) bool {
	return len(metric.Channels(o.Metrics, g, b)) > 0
}

// withVerdicts fills in the verdicts of two ends that both ended well.
func withVerdicts(e bisect.Ends, g, b bisect.Outcome) bisect.Ends {
	e.Good = bisect.Verdict{Call: bisect.Good, Probability: 1, Class: g.Class, Why: g.Describe(), Trials: 1}
	e.Bad = bisect.Verdict{Call: bisect.Good, Probability: 1, Class: b.Class, Why: b.Describe(), Trials: 1}
	return e
}

// readEnds settles what one launch of each end can settle.
func readEnds(o Options, g, b bisect.Outcome) bisect.Ends {
	var e bisect.Ends
	build := o.Find == bisect.BuildFailed
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
		if o.Find == "" {
			e.Hint = cmp.Or(o.Untimed, "to look for a slowdown of a program that sends no samples, give --find slow --metric wall")
			if why := unlike(o.Metrics, g, b); why != "" {
				e.Hint = why + "; --find slow --metric wall compares the time of the whole run instead"
			}
		}
	default:
		e = readComplaint(o, b)
		if build && e.Differ {
			e.Why = "the bad end does not build"
		}
	}
	return e
}

// readComplaint takes the complaint from a bad end that failed.
func readComplaint(o Options, b bisect.Outcome) bisect.Ends {
	c := bisect.Complaint{Class: b.Class, Any: o.Any}
	if b.Class == bisect.Timeout {
		c.Phase, c.Whole = b.Phase, b.Whole
		c.AnyPhase = o.Find == bisect.Timeout && o.Phase == ""
	}
	e := bisect.Ends{Complaint: c, Why: "bad end: " + b.Describe()}
	switch {
	case o.Find != "" && o.Find != b.Class:
		e.Why = fmt.Sprintf("the bad end does not show the complaint asked for (%s) but another: %s", o.Find, b.Describe())
	case o.Phase != "" && o.Phase != b.Phase && !strings.HasSuffix(b.Phase, "/"+o.Phase): // "check" is test/check, too
		e.Why = fmt.Sprintf("the bad end does not show the complaint asked for (phase %s) but another: %s", o.Phase, b.Describe())
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

// unmeasured is for ends that end well where a slow metric is wanted and neither sends one.
func unmeasured(o Options, e bisect.Ends, g, b bisect.Outcome) bisect.Ends {
	if o.Find == bisect.Slow && len(o.Metrics) > 0 {
		e.Why = fmt.Sprintf("both ends end well, and neither sent a value of %s", o.Metrics[0].Name)
		if why := unlike(o.Metrics, g, b); why != "" {
			e.Why = "both ends end well, and " + why
		}
		e.Hint = "send samples on KBISECT_FD, or choose one of " + strings.Join(metric.SentByBoth(g, b), ", ") + " with --metric"
	}
	return e
}

// unlike says why values that at least one end sent cannot be compared; "" when neither sent any.
func unlike(ms []metric.Metric, g, b bisect.Outcome) string {
	for _, m := range ms {
		sides := [2]string{"the good end", "the bad end"}
		for side, o := range []bisect.Outcome{g, b} {
			if named := slices.ContainsFunc(o.Series, func(s bisect.Series) bool { return s.Metric == m.Name }); named && len(metric.Cases(m, o)) == 0 {
				return fmt.Sprintf("%s of %s is not above 0, as a ratio needs it", m.Name, sides[side])
			}
		}
		switch a, c := metric.Cases(m, g), metric.Cases(m, b); {
		case len(a) > 0 && len(c) == 0:
			return "only the good end sent values of " + m.Name
		case len(c) > 0 && len(a) == 0:
			return "only the bad end sent values of " + m.Name
		case len(a) > 0 && metric.InCommon(a, c) == nil:
			return fmt.Sprintf("the ends have no case of %s in common: %s at the good end, %s at the bad one", m.Name, lists(a, 3), lists(c, 3))
		}
	}
	return ""
}
