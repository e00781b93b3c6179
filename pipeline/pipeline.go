// Package pipeline is the Sampler that works for real: it exports a candidate into a private slot,
// builds it, runs it under limits for each phase, and says what the trial showed.
//
//	request → slot: export by tree diff → build, or build cache → run under limits → Outcome → ledger
//
// The candidate's fault is data in the Outcome; only the machine's fault is an error.
package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Config says what to sample and where.
type Config struct {
	Repo         *source.Repo
	Plan         kernels.Plan
	Flags        []kernels.Flag // that a candidate may set
	Limits       Limits
	Paths        []string           // what build and run read; empty: everything
	SampleMetric string             // metric that protocol samples belong to
	Patterns     []*metrics.Pattern // metrics read from the output
	Sources      []Source           // metrics that programs and builds leave behind
	Cases        Cases              // of metrics; of others all count
	Dir          string             // for the slots; created and removed again
	Logs         string             // for the output of builds and trials, kept
	Env          []string           // environment of builds and trials
	WorkTree     string             // where a command that the candidate lacks is looked for; "" = nowhere
	Cache        *cache.Cache       // keeps build outputs; may be nil
	Probe        Probe              // for Python; "" is as it fits
	Devices      []*gpu.Watch       // on which trials run; none: nobody watches
	Caches       Caches             // that judged trials find; "" is warm where times are compared, else cold
	Jobs         int                // builds at a time; 1: only what is asked for; 0: what the machine can bear
	WholeTimed   bool               // all phases of a timed trial count, not only those after load
	Session      string             // marks the processes, so that leftovers can be found
	Slot         int                // number of this pipeline among those that work side by side, from 0
	OnPhase      func(Activity)     // progress; may be nil; called from other goroutines
	Log          *slog.Logger
}

// Activity is what the pipeline is doing now.
type Activity struct {
	Request bisect.Request
	Doing   string        // export, build, or the phase of the trial
	Limit   time.Duration // of what it is doing; 0 = none
	Slot    int           // of the pipeline, see [Config]
}

// Pipeline makes trials. It serves one goroutine.
type Pipeline struct {
	Config
	slots     map[string]*slot
	speaks    *bool                    // whether programs of this project send protocol lines, once known
	good      map[string]time.Duration // longest time of the good end in each phase, and as a whole
	shape     *protocol.Shape          // how much the good end says; nil while unknown
	clean     bool                     // every build is a clean one from now on
	told      []string                 // warnings about the whole job
	unwritten map[string]bool          // paths of commits of which was told that they could not be written
	others    map[string][]string      // by metric: cases that were sent and do not count
	lock      *os.File                 // of Dir
	hello     *hello                   // a known-good program; nil if there is none
	ahead     *ahead                   // nil if nothing is built ahead

	trialCPUs, aheadCPUs []int // processors of trials and of builds ahead; nil is all

	greeted     bool                       // the known-good program has been looked for
	shapeVaries bool                       // good trials do not always say as much
	wasFull     bool                       // the disk was, when the last process ended
	unsure      bool                       // in this trial a supposed teardown gets more time
	assaults    map[bisect.Candidate]bool  // candidates of which a trial was once laid to somebody else
	given       map[string]bool            // what spoils every trial, so that repeating does not help
	reads       map[string]bool            // which environment variables a build may read
	facts       map[bisect.Candidate]facts // of builds, see [bisect.Request.BuildOnly]
	twins       map[bisect.Artefact]*twin  // launches by what was built
}

// Warnings tell of what concerns the whole job rather than one trial.
func (p *Pipeline) Warnings() []string { return p.told }

// OtherCases are the cases of a metric that trials gave, in the order of arrival and up to a bound, where a case
// was asked for that none of them is.
func (p *Pipeline) OtherCases(metric string) []string { return p.others[metric] }

func (p *Pipeline) warnOnce(text string) {
	if !slices.Contains(p.told, text) {
		p.told = append(p.told, text)
	}
}

// New makes a pipeline; Close removes its slots.
func New(c Config) (*Pipeline, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	broken := func(err error) error {
		return &bisect.InfraError{What: "making the working folder " + c.Dir, Err: fmt.Errorf("%w\nhint: set XDG_CACHE_HOME to a folder that can be written", err)}
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(c.Dir), 0o777), os.MkdirAll(c.Logs, 0o777)); err != nil {
		return nil, broken(err)
	}
	lock, err := claim(c.Dir)
	if err == nil {
		err = os.MkdirAll(c.Dir, 0o777)
	}
	if err != nil {
		return nil, broken(err)
	}
	p := &Pipeline{Config: c, slots: map[string]*slot{}, good: map[string]time.Duration{}, given: map[string]bool{}, unwritten: map[string]bool{}, reads: map[string]bool{}, facts: map[bisect.Candidate]facts{}, twins: map[bisect.Artefact]*twin{}, assaults: map[bisect.Candidate]bool{}, lock: lock}
	p.ahead = newAhead(p)
	return p, nil
}

// Close removes the slots and everything in them.
func (p *Pipeline) Close() error {
	first := p.ahead.close()
	for name := range p.slots {
		if err := p.drop(name); err != nil && first == nil {
			first = err
		}
	}
	if err := removeAll(p.Dir); err != nil && first == nil {
		first = err
	}
	os.Remove(p.lock.Name())
	p.lock.Close()
	os.Remove(filepath.Dir(p.Dir)) // unless another search works there
	return first
}

// Clean makes every build from now on a clean one.
func (p *Pipeline) Clean() {
	p.ahead.stop()
	p.clean = true
}

// Tries of one trial.
const (
	infraTries   = 3 // that the machine spoiled; then the search stops
	spoiledTries = 3 // whose times are doubtful; then they count, and are marked
)

// Sample makes one trial. One that the machine spoiled is made again; when that does not help, the
// search ends without a word against the candidate. One that was throttled or shared its device is
// made again where its times matter.
func (p *Pipeline) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	if err := p.greet(ctx); err != nil {
		return bisect.Outcome{}, err
	}
	var dropped []string
	infra := 0
	for {
		o, err := p.whole(ctx, r)
		if err != nil {
			return o, err
		}
		if err := ctx.Err(); err != nil {
			return o, err
		}
		if o.Class != bisect.OK {
			if err := p.ground(r); err != nil {
				return o, err
			}
		}
		again := p.doubts(r, o, len(dropped)-infra)
		switch {
		case o.Class == bisect.Infra:
			if infra++; infra == infraTries {
				return o, &bisect.InfraError{What: "testing " + r.Candidate.Brief(), Err: fmt.Errorf("the machine failed %d times: %s", infra, o.Why)}
			}
			again = o.Why
			p.Log.Warn("machine trouble; trying again", "candidate", r.Candidate.Brief(), "why", o.Why)
		case again == "":
			if o, err = p.seconded(ctx, r, o); err != nil {
				return o, err
			}
			o.Repeated = append(dropped, o.Repeated...)
			p.Learn(r, o)
			return o, nil
		}
		dropped = append(dropped, again)
	}
}

// seconded makes a trial once more, with more time, that was ended in a teardown which is only
// supposed: the program has said as much as the good end, and may have had more to say. The search
// does not wait for that, since its culprit is confirmed.
func (p *Pipeline) seconded(ctx context.Context, r bisect.Request, o bisect.Outcome) (bisect.Outcome, error) {
	if !o.Supposed || r.Purpose == bisect.Searching {
		return o, nil
	}
	p.unsure = true
	second, err := p.whole(ctx, r)
	p.unsure = false
	if err != nil || second.Class == bisect.Timeout || second.Class == bisect.Infra {
		return o, err
	}
	p.shapeVaries = true
	second.Repeated = append(second.Repeated, "it had more to say than the good end: "+o.Why)
	return second, nil
}

// doubts says why a trial ought to be made again: its times matter, and they may not be its own.
// What spoils one trial after the other is a state of the machine: it is told, and endured.
func (p *Pipeline) doubts(r bisect.Request, o bisect.Outcome, tries int) string {
	if !r.Timing && o.Class != bisect.Timeout {
		return ""
	}
	for _, m := range o.Marks {
		kind, _, _ := strings.Cut(m, ":")
		if p.given[kind] {
			continue
		}
		if tries < spoiledTries-1 {
			return m
		}
		p.given[kind] = true
		p.warnOnce(fmt.Sprintf("times are doubtful: %s in %d tries of one trial; such trials count from then on", m, spoiledTries))
	}
	return ""
}

// whole makes a trial. One that fails where the repository lacks a file of the commit says nothing about the
// commit, unless what build and run read is known and the trial does not speak of the file.
func (p *Pipeline) whole(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o, err := p.sample(ctx, r)
	s := p.slots[slotName(r)]
	if err != nil || s == nil || o.Class == bisect.OK || o.Class == bisect.Skip || o.Class == bisect.Infra {
		return o, err
	}
	if lost := s.export.Missing(); len(lost) > 0 && (len(p.Paths) == 0 || s.speaksOf(o, s.export.MissingPaths())) {
		o.Why = fmt.Sprintf("%s (git fetch --refetch may bring it), and it fails: %s", lost[0], o.Describe())
		o.Class, o.Phase, o.Early, o.Supposed = bisect.Skip, "", false, false
	}
	return o, nil
}

// speaksOf reports that a trial has printed the name of one of the files.
func (s *slot) speaksOf(o bisect.Outcome, files []string) bool {
	return slices.ContainsFunc(files, func(f string) bool { return strings.Contains(o.Why+o.Tail, path.Base(f)) })
}

func (p *Pipeline) sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	if known, ok := p.facts[r.Candidate]; ok && p.onlyBuilds(r) && !r.Clean && !p.clean {
		o := bisect.Outcome{Class: bisect.OK}
		p.tellFacts(&o, known)
		return o, nil
	}
	s, err := p.slot(r)
	if err != nil {
		return bisect.Outcome{}, err
	}
	var o bisect.Outcome
	s.full = false
	if ready := p.takeAhead(ctx, r, s, &o); ready != nil {
		s = ready
	} else {
		var ready bool
		if o, ready, err = s.prepare(ctx, r); err != nil || !ready {
			p.wasFull = s.full
			return o, err
		}
	}
	p.ahead.begin(ctx)
	t, known := s.shared(r)
	if !known {
		t, err = s.trial(ctx, r)
		p.wasFull = s.full
		if t.Class != bisect.OK {
			s.dirty = true // a process that did not come to its end may have left something in the tree
		}
		if err == nil {
			s.remember(r, t)
		}
	}
	t.Built, t.CacheHit, t.Build = o.Built, o.CacheHit, o.Build
	t.Warnings = append(o.Warnings, t.Warnings...)
	if err == nil {
		p.facts[r.Candidate] = s.facts
		p.tellFacts(&t, s.facts)
	}
	if o.Build > 0 {
		t.Phases = append([]bisect.PhaseTime{{Name: "build", Seconds: o.Build}}, t.Phases...)
	}
	return t, err
}

// takeAhead returns the slot in which a candidate was built ahead, and tells of its build.
func (p *Pipeline) takeAhead(ctx context.Context, r bisect.Request, s *slot, o *bisect.Outcome) *slot {
	if p.ahead == nil || p.clean || r.Clean || s.name == "good" || s.name == "bad" || s.holds(r.Candidate) {
		return nil
	}
	ready, built := p.ahead.take(ctx, r.Candidate, s)
	if ready == nil {
		return nil
	}
	*o = built
	ready.pause = nil
	p.slots[slotName(r)] = ready
	return ready
}

// Learn takes what the good end showed: whether programs of this project speak the protocol, and
// how long its phases take. Remembered outcomes are learnt from in the same way.
func (p *Pipeline) Learn(r bisect.Request, o bisect.Outcome) {
	if r.Purpose != bisect.EndGood || o.Class != bisect.OK || p.onlyBuilds(r) {
		return
	}
	p.speaks = &o.Speaks
	p.learnShape(o)
	for _, ph := range o.Phases {
		d := time.Duration(ph.Seconds * float64(time.Second))
		p.good[ph.Name] = max(p.good[ph.Name], d)
	}
	p.good[bisect.WholeTrial] = max(p.good[bisect.WholeTrial], time.Duration(o.Wall*float64(time.Second)))
}

// assaulted reports whether a trial of this candidate looked before as if somebody else had ended or
// spoiled it: once it may have been anybody, twice it was the candidate.
func (p *Pipeline) assaulted(c bisect.Candidate) bool {
	before := p.assaults[c]
	p.assaults[c] = true
	return before
}

func (p *Pipeline) activity(r bisect.Request, doing string, limit time.Duration) {
	if p.OnPhase != nil {
		p.OnPhase(Activity{r, doing, limit, p.Slot})
	}
}

// logFile names the file that keeps the output of one step.
func (p *Pipeline) logFile(r bisect.Request, what string) string {
	return filepath.Join(p.Logs, fmt.Sprintf("%s-%s-%s-%d.log", fileName(r.Candidate), r.Purpose, what, r.Nth))
}

// short abbreviates a commit id for messages and file names.
func short(id string) string { return id[:min(10, len(id))] }

// fileName names a candidate where other characters than letters and digits may do harm.
func fileName(c bisect.Candidate) string {
	if c.Assign == "" {
		return short(c.Commit)
	}
	sum := sha256.Sum256([]byte(c.String()))
	return short(c.Commit) + "-" + hex.EncodeToString(sum[:4])
}
