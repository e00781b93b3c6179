package bisect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Class is what one trial ended as. Slow is a verdict, never the class of one trial.
type Class string

// The classes of a trial.
const (
	OK          Class = "ok"
	Timeout     Class = "timeout"
	Wrong       Class = "wrong"
	Crash       Class = "crash"
	BuildFailed Class = "build-failed"
	Skip        Class = "skip"
	Infra       Class = "infra"
)

// The classes of a complaint about a metric. Improved is what a search in the other direction finds.
const (
	Slow     Class = "slow"
	Improved Class = "improved"
)

// Candidate is one thing to build and run: a commit, and flags that are set.
type Candidate struct {
	Commit string // commit id, hex; where hunks are searched, one that is made in memory
	Assign string // flags that are set, "compile=off,graph=on", in the order of the configuration
}

// String writes a candidate as COMMIT[:ASSIGN]; [ParseCandidate] reads it back.
func (c Candidate) String() string {
	if c.Assign == "" {
		return c.Commit
	}
	return c.Commit + ":" + c.Assign
}

// Brief names a candidate for people, its commit abbreviated.
func (c Candidate) Brief() string {
	c.Commit = ShortID(c.Commit)
	return c.String()
}

// ShortID abbreviates a commit id for people, to ten characters. What is shorter, such as a name, stays as it is.
func ShortID(id string) string { return id[:min(10, len(id))] }

// ParseCandidate reads what [Candidate.String] writes. It cannot fail: whatever stands before the first colon is the
// commit.
func ParseCandidate(s string) Candidate {
	commit, assign, _ := strings.Cut(s, ":")
	return Candidate{commit, assign}
}

// Purpose says why a trial is asked for; with the candidate and the ordinal it names the trial,
// so that a resumed search finds it again.
type Purpose string

// The purposes of a trial.
const (
	EndGood        Purpose = "end-good"
	EndBad         Purpose = "end-bad"
	FindGood       Purpose = "find-good"
	Searching      Purpose = "search"
	ConfirmCulprit Purpose = "confirm-culprit"
	ConfirmParent  Purpose = "confirm-parent"
)

// IsEnd reports a launch of one of the ends, for what they show.
func (p Purpose) IsEnd() bool { return p == EndGood || p == EndBad }

// Other is the purpose of the launches that are set beside those for p: of the other end, or of the other side of a proof; "" if there
// are none.
func (p Purpose) Other() Purpose {
	switch p {
	case EndGood:
		return EndBad
	case EndBad:
		return EndGood
	case ConfirmCulprit:
		return ConfirmParent
	case ConfirmParent:
		return ConfirmCulprit
	}
	return ""
}

// Request asks for one trial: one fresh launch of a candidate.
type Request struct {
	Candidate Candidate
	Purpose   Purpose
	Nth       int     // ordinal of this launch among those of the same candidate and purpose, from 0
	Clean     bool    // from a clean export and a clean build
	Timing    bool    // its times will be compared: caches as the user wants them judged, no probe
	AnyStart  bool    // nothing that is asked for depends on how long its process takes to start or to compile: it may be started early, and find caches
	Tentative bool    // a failure may rest on a process that was started early, since a proof is made without
	Wants     string  // the metric that is compared, if the program measures it itself and the first process of a candidate may give it; else ""
	BuildOnly bool    // only what its build says is wanted: nothing is run
	Hurry     string  // the phase, or [WholeTrial], that may end as soon as no good run could still be in it; or [SlowTrial]
	Past      float64 // seconds for which the phase in a hurry must be let run, beyond what good runs took; of a SlowTrial, for which it is let run
	On        int     // the device to launch on, from 1, where several are kept apart; 0: any
}

// Patience is how long, in seconds, a good run could take that took `good` seconds before (judge.md 7, the adaptive
// limit): six standard deviations of a launch of 10 % spread, and five seconds for what is late once, or at least
// twice the time.
func Patience(good float64) float64 {
	const spread = 0.1
	return max(2*good, good*math.Exp(6*spread)+5)
}

// What stands where a phase is named.
const (
	WholeTrial = "*"    // the trial as a whole
	SlowTrial  = "slow" // in a [Request.Hurry]: the trial as a whole, which a slow one is known by before it ends
)

// TrialID names a trial: what it was and is asked for again in a resumed search.
type TrialID struct {
	Candidate Candidate
	Purpose   Purpose
	Nth       int
}

// ID names the trial that r asks for.
func (r Request) ID() TrialID { return TrialID{r.Candidate, r.Purpose, r.Nth} }

// PhaseTime is the time that a trial spent in one phase.
type PhaseTime struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Series holds the samples of one metric for one case (a shape, an input), in the order in which
// the program sent them.
type Series struct {
	Metric string    `json:"metric"`
	Case   string    `json:"case,omitempty"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
}

// Outcome is what one trial showed. Whatever is the fault of the candidate is data in here; only a broken machine is
// an error. Times are in seconds.
type Outcome struct {
	Class    Class       `json:"class"`
	Phase    string      `json:"phase,omitempty"`    // the phase in which it ended, unless it ended well
	Whole    bool        `json:"whole,omitempty"`    // a time-out of the whole trial, not of one phase
	Limit    float64     `json:"limit_s,omitempty"`  // of a time-out: the limit that ended it, seconds
	Supposed bool        `json:"supposed,omitempty"` // a time-out in teardown that rests on how much good trials say; of one that ended otherwise: it had been taken for that
	Early    bool        `json:"early,omitempty"`    // a failure that only a proof shows in full: it was stopped before the limit, where no good run could still be running, or its process was started early
	Ahead    bool        `json:"ahead,omitempty"`    // its process was started before its turn or, with [Request.AnyStart], found caches
	Hurried  string      `json:"hurried,omitempty"`  // as it was asked for: [Request.Hurry]
	Beyond   float64     `json:"beyond,omitempty"`   // likewise: [Request.Past]
	Timed    bool        `json:"timed,omitempty"`    // likewise: [Request.Timing]
	Caches   string      `json:"caches,omitempty"`   // cold or warm, where the program uses caches at all
	Unfit    string      `json:"unfit,omitempty"`    // why its times must not be compared with others
	Why      string      `json:"why,omitempty"`
	Error    string      `json:"error,omitempty"` // the exception that a Python program ended with
	Exit     int         `json:"exit"`
	Signal   string      `json:"signal,omitempty"`
	Speaks   bool        `json:"speaks,omitempty"` // the program sent lines of the trial protocol
	Phases   []PhaseTime `json:"phases,omitempty"`
	Cold     []PhaseTime `json:"cold_phases,omitempty"` // of the process before, which filled the caches
	Series   []Series    `json:"series,omitempty"`
	ColdRun  []Series    `json:"cold_series,omitempty"` // as Cold
	Only     string      `json:"only,omitempty"`        // it filled the caches, which shows in all its times but those of this metric
	Wall     float64     `json:"wall_s"`                // run without build, seconds
	At       float64     `json:"at_s"`                  // when it was launched, seconds since the job began
	Paired   float64     `json:"reference_s,omitempty"` // seconds of the launch of the good end before it on the same device, which its times are relative to
	Built    bool        `json:"built,omitempty"`
	CacheHit bool        `json:"cache_hit,omitempty"`
	Build    float64     `json:"build_s,omitempty"`
	Tail     string      `json:"tail,omitempty"` // last bytes of the output
	Log      string      `json:"log,omitempty"`  // file that keeps the output
	Warnings []string    `json:"warnings,omitempty"`
	Notices  []string    `json:"notices,omitempty"` // what this trial was the first to show of all of them

	Shape    json.RawMessage `json:"shape,omitempty"`    // how much it said, see the trial protocol
	Devices  []DeviceNote    `json:"devices,omitempty"`  // what the devices went through
	Repeated []string        `json:"repeated,omitempty"` // why earlier tries of this trial were dropped
	Marks    []Mark          `json:"marks,omitempty"`    // what disturbed its times anyway
	CPU      float64         `json:"cpu_s,omitempty"`    // processor time of all its processes
	Memory   int64           `json:"memory,omitempty"`   // most memory used at a time, bytes; 0 is unknown
	Artefact *Artefact       `json:"artefact,omitempty"` // what was built; nil where that is unknown
	Opened   []string        `json:"opened,omitempty"`   // files and folders of the candidate that its build and launch opened, by paths from its root; nil: not known
	Ran      []string        `json:"ran,omitempty"`      // those that its launch opened; nil: not known
	Beside   bool            `json:"beside,omitempty"`   // it ran beside another launch that was begun ahead, by kbisect's own choice
	Shared   string          `json:"shared,omitempty"`   // the commit that was launched instead, of which the same was built
	From     string          `json:"from,omitempty"`     // the earlier launch that this is, as "session/number"; it was not made again
}

// MarkKind is what the times of a launch suffered from.
type MarkKind string

// The kinds of marks.
const (
	Throttled MarkKind = "throttled" // the clocks of a device were held down
	Shared    MarkKind = "shared"    // another process used a device
	Stalled   MarkKind = "stalled"   // kbisect itself did not run for a while
)

// Mark is something that the times of a launch suffered from, although they count. In JSON it is one text.
type Mark struct {
	Kind MarkKind
	Text string // the details
}

// String is the mark as "kind: details".
func (m Mark) String() string { return strings.TrimSuffix(string(m.Kind)+": "+m.Text, ": ") }

// MarshalText implements encoding.TextMarshaler.
func (m Mark) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mark) UnmarshalText(text []byte) error {
	kind, details, _ := strings.Cut(string(text), ": ")
	*m = Mark{MarkKind(kind), details}
	return nil
}

// Artefact identifies what a build made by what it does: debug information, folders and identities that tools make up
// leave no trace in it. Two builds behave alike only if both parts are equal.
type Artefact struct {
	Device string `json:"device,omitempty"` // digest of the device code; "" without any
	Host   string `json:"host"`             // digest of all the rest
}

// DeviceNote is the state of one device around a trial. Before, After and Change are documents of the device's own
// kind, which this package does not read.
type DeviceNote struct {
	UUID      string          `json:"uuid"`
	Before    json.RawMessage `json:"before"`
	After     json.RawMessage `json:"after"`
	Change    json.RawMessage `json:"change"`
	Throttled string          `json:"throttled,omitempty"` // what held the clocks down
	Shared    string          `json:"shared,omitempty"`    // who else was on it
}

// Sampler makes trials. An error means that the machine, not the candidate, is at fault, that ctx has ended, or is
// [ErrSpent].
type Sampler interface {
	Sample(ctx context.Context, r Request) (Outcome, error)
}

// SamplerFunc lets a function be a Sampler.
type SamplerFunc func(ctx context.Context, r Request) (Outcome, error)

// Sample calls f.
func (f SamplerFunc) Sample(ctx context.Context, r Request) (Outcome, error) { return f(ctx, r) }

// ErrSpent is the error of a trial that the budget cut off. It says nothing about its candidate; what was known before
// is the answer.
var ErrSpent = errors.New("the budget is used up")

// InfraError is machine trouble: it stops a search, and never accuses a commit.
// It is returned by pointer; ask for it with errors.As and a *InfraError.
type InfraError struct {
	What string // what was being done, on which commit
	Err  error
}

func (e *InfraError) Error() string { return fmt.Sprintf("%s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *InfraError) Unwrap() error { return e.Err }

// Call is the answer of a verdict.
type Call string

// The calls.
const (
	Good       Call = "good"
	Bad        Call = "bad"
	Untestable Call = "skip"
)

// Verdict is a judgement of one candidate with its doubt.
type Verdict struct {
	Call        Call     `json:"call"`
	Probability float64  `json:"probability"`      // that the call is right
	Why         string   `json:"why"`              // one line of evidence
	Metric      string   `json:"metric,omitempty"` // the number that it is about, with its case; "" for a failure
	Class       Class    `json:"class"`
	Phase       string   `json:"phase,omitempty"`
	Ratio       *Effect  `json:"ratio,omitempty"` // against the good end, for a metric
	Trials      int      `json:"trials"`
	Other       bool     `json:"other,omitempty"` // untestable because it fails in another way than the complaint
	Early       bool     `json:"early,omitempty"` // rests on a failure that only a proof shows in full, see [Outcome]
	Warnings    []string `json:"warnings,omitempty"`
}

// Word is the call for people, who should not take a commit that cannot be decided for one that
// cannot be built.
func (v Verdict) Word() string {
	switch {
	case v.Call != Untestable:
		return string(v.Call)
	case v.Other:
		return "other"
	case v.Class == OK:
		return "unsure"
	}
	return string(v.Call)
}

// Effect is a ratio of a metric with its 95 % interval; above 1 means a larger value.
type Effect struct {
	Metric string  `json:"metric"`
	Case   string  `json:"case,omitempty"` // "" for all cases together
	Ratio  float64 `json:"ratio"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Higher bool    `json:"higher_is_better"`
	Exact  *Exact  `json:"exact,omitempty"` // of a culprit and a metric that has no noise

	Statistic string `json:"statistic,omitempty"` // that stands for the samples of a launch; "" for the median
}

// FastestTenth is a statistic of a launch's samples: the mean of the fastest tenth, or of the highest where more is better.
const FastestTenth = "fastest tenth"

// Exact are the two numbers that a ratio is of.
type Exact struct {
	Value  float64 `json:"value"`
	Parent float64 `json:"parent"` // where it is 0, the ratio says nothing
}

// Name is the metric with the case that the ratio is of.
func (e Effect) Name() string {
	if e.Case == "" {
		return e.Metric
	}
	return e.Metric + " of " + e.Case
}

// Complaint is what the bad end shows and the good end does not.
type Complaint struct {
	Class    Class   // Timeout, Wrong, Crash, BuildFailed, Slow or Improved; empty while nothing is known
	Phase    string  // of a time-out
	AnyPhase bool    // a time-out in another phase counts too
	Whole    bool    // the time-out is of the whole trial, whatever its phase
	Any      bool    // every failure counts, as with git bisect
	Metric   string  // of Slow and Improved
	Error    string  // a program of Python's that ends with another exception fails in another way; empty: whatever it is
	Ends     *Effect // of these: bad end against good end
}

// String names the complaint for people.
func (c Complaint) String() string {
	switch {
	case c.Any:
		return "any failure"
	case c.Class == Slow, c.Class == Improved:
		return string(c.Class) + " in " + c.Metric
	case c.Class == Timeout && c.Phase != "":
		return "timeout in " + c.Phase
	}
	return string(c.Class)
}

// Matches reports whether a failed outcome shows this complaint rather than another one.
func (c Complaint) Matches(o Outcome) bool {
	if c.Error != "" && o.Error != "" && o.Error != c.Error {
		return false
	}
	if c.Any {
		return slices.Contains([]Class{Timeout, Wrong, Crash}, o.Class) || o.Class == c.Class
	}
	if o.Class != c.Class {
		return false
	}
	if c.Class == Timeout && c.Phase != "" {
		return c.AnyPhase || o.Phase == c.Phase || c.Whole && o.Whole
	}
	return true
}

// Untestable reports whether an outcome says nothing about how the candidate runs.
func (o Outcome) Untestable() bool { return o.Class == Skip || o.Class == BuildFailed }

// Failed reports whether an outcome is bad rather than untestable.
func (o Outcome) Failed() bool { return o.Class != OK && !o.Untestable() }

// EndsAs reports whether an outcome is the same kind of failure as another one.
func (o Outcome) EndsAs(p Outcome) bool {
	return o.Class != OK && o.Class == p.Class && o.Phase == p.Phase && o.Exit == p.Exit && o.Signal == p.Signal && o.Error == p.Error
}

// Describe says in a few words how a trial ended.
func (o Outcome) Describe() string {
	s := string(o.Class)
	if o.Class != OK && o.Phase != "" && o.Class != BuildFailed {
		s += " in " + o.Phase
	}
	if o.Why != "" {
		s += ": " + o.Why
	}
	if o.Shared != "" {
		s += ", as " + ShortID(o.Shared) + ", whose build is the same"
	}
	return s
}
