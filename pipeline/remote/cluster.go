// Package remote makes trials elsewhere. A [Cluster] is a [bisect.Sampler] over an [executor.Executor]: Slurm, Kubernetes, or three
// commands of the user's. To the search it looks like slots.
//
//	Sample    writes a block, submits it as a job, waits for its result, decides whose fault a failure is    cluster.go
//	Spec      a block as data: one request, and the launch on the same device that its times are relative to block.go
//	Keys      builds that are jobs of their own, by their place in the cache                               builds.go
//	Work      the other side: runs the block by package pipeline, and writes the result beside it            worker.go
//	Executor  four verbs of a scheduler: submit, states, cancel, version                            package executor
//
// Both sides see one folder (folder.go), in which sources, builds and the program itself lie by their content, and a job has
// a folder of its own; or they share nothing, and a job has all that it needs in it (stream.go). A job's result is the
// truth; what the scheduler says of the job is only a hint. The limits of phases hold inside of the job, to the second; the
// scheduler's own limit is the outer fence.
//
// Times are never compared across devices. A block whose times matter launches its reference first, on the same device, and
// what counts is the ratio ([bisect.Relative]).
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Config is what a cluster is opened with.
type Config struct {
	Settings executor.Settings
	Session  string
	Version  string // of this kbisect
	Block    Block
	Repo     *source.Repo
	Commits  []string                // that jobs must see, whether references lead to them or not
	Folder   string                  // for Shared where the settings name none
	Logs     string                  // folder for the logs of launches, kept
	Say      func(string)            // takes what is waited for
	OnPhase  func(pipeline.Activity) // takes what the slots do; called from several goroutines
}

// Cluster makes trials as jobs. It may be used by several goroutines.
type Cluster struct {
	config   Config
	executor executor.Executor
	shared   shared
	dir      string // of the session
	base     string // file of its [Base]
	name     string // common to its jobs
	spec     Spec   // what all blocks have in common
	program  string
	grace    time.Duration // for a result to be seen here after its job has ended, or a job to be seen by the scheduler

	asking sync.Mutex // held by who asks the scheduler

	mu       sync.Mutex // guards the rest
	good     *bisect.Request
	learnt   []Learnt
	clean    bool
	timed    bool                 // times were taken, by an earlier attempt perhaps
	live     map[string]time.Time // jobs that were submitted, by id
	states   map[string]executor.Report
	builds   map[build]chan struct{} // that are jobs of their own: held by who makes one
	keys     map[build]string        // in the cache, of those that were made
	asked    time.Time               // when the last answer was asked for
	newest   time.Time               // when the last job was submitted
	idle     bool                    // all jobs waited then
	waited   time.Duration           // that they did
	until    time.Time               // see Until
	faults   map[string]int          // of the machine, by node
	warnings []string
	said     string
}

const (
	tries       = 8 // of a block that the machine spoils, and then the search stops
	fencedTries = 2 // tries of one that the scheduler ends for its time or memory, and then it is the candidate's fault
	nodeFaults  = 2 // of a node, which is left out from then on
	mostLearnt  = 16
	resultGrace = 15 * time.Second
)

// Open prepares the shared folder. It starts nothing.
func Open(ctx context.Context, c Config) (*Cluster, error) {
	name := "kbisect-" + c.Session
	scheduler, err := executor.New(c.Settings, name)
	if err != nil {
		return nil, err
	}
	x := &Cluster{config: c, executor: scheduler, grace: resultGrace, live: map[string]time.Time{}, faults: map[string]int{}, builds: map[build]chan struct{}{}, keys: map[build]string{}}
	if x.shared, err = openShared(cmp.Or(c.Settings.Shared, c.Folder)); err != nil {
		return nil, &executor.RefusedError{Why: "[executor] shared: " + err.Error()}
	}
	x.dir, x.name = filepath.Join(x.shared.dir, "sessions", c.Session), name
	x.base = filepath.Join(x.dir, "base.json")
	x.spec = Spec{Version: c.Version, Session: c.Session, Cache: filepath.Join(x.shared.dir, "builds"), Device: c.Settings.Device(), Block: c.Block}
	if c.Settings.Streams() && c.Settings.Kind == executor.Kubernetes { // the image has it
		x.spec.Digest, err = self()
	} else {
		x.program, x.spec.Digest, err = x.shared.program(c.Settings.Streams() && c.Settings.Kind == executor.Slurm)
	}
	if err != nil {
		return nil, &bisect.InfraError{What: "copying kbisect to " + x.shared.dir, Err: err}
	}
	keep := c.Block.Plan.Keep
	switch {
	case c.Settings.Apart() && len(c.Block.Plan.Build) > 0 && len(c.Block.Plan.Outputs) == 0:
		return nil, &executor.RefusedError{Why: "[executor] makes jobs of builds, and nothing says what a build leaves for the launches\nhint: outputs = [...] in [build]"}
	case c.Repo == nil:
		return x, nil
	case c.Settings.Streams() && len(keep) > 0:
		return nil, &executor.RefusedError{Why: fmt.Sprintf("jobs do not see %s of the work tree\nhint: put the repository on a volume that [executor] shared names", strings.Join(keep, ", "))}
	case c.Settings.Streams():
		return x, nil
	}
	if x.spec.Repo, err = x.shared.repository(ctx, c.Repo, c.Commits); err != nil {
		return nil, &bisect.InfraError{What: "sharing the repository", Err: err}
	}
	if len(keep) > 0 && x.spec.Repo != c.Repo.WorkDir() {
		return nil, &executor.RefusedError{Why: fmt.Sprintf("jobs do not see %s of the work tree\nhint: put the repository below the folder that [executor] shared names", strings.Join(keep, ", "))}
	}
	return x, nil
}

// Close cancels what still waits or runs, of this session and of no other. The folder of the session goes with it, unless
// the session was interrupted: a resumed one finds the results there.
func (c *Cluster) Close(ctx context.Context) error {
	err := c.executor.Cancel(ctx, c.name)
	if ctx.Err() == nil {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	if err != nil {
		return fmt.Errorf("cancelling the jobs %s: %w", c.name, err)
	}
	return nil
}

// Version names the scheduler, which has answered then.
func (c *Cluster) Version(ctx context.Context) (string, error) { return c.executor.Version(ctx) }

// Folder is the folder that both sides see.
func (c *Cluster) Folder() string { return c.shared.dir }

// Warnings are about the whole session: nodes that were left out, and what times are relative to.
func (c *Cluster) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.warnings)
}

// Clean makes every build from now on a clean one.
func (c *Cluster) Clean() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clean = true
}

// Learn takes in a launch that was made, now or by an earlier attempt.
func (c *Cluster) Learn(r bisect.Request, o bisect.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timed = c.timed || r.Timing && o.From == ""
	if r.Purpose == bisect.EndGood && o.Class == bisect.OK && len(c.learnt) < mostLearnt {
		c.learnt = append(c.learnt, learnt(r, o))
		if c.good == nil {
			c.good = &r
		}
	}
}

// Slot is a sampler that reports what it does as that of a slot.
func (c *Cluster) Slot(n int) bisect.Sampler {
	return bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
		return c.sample(ctx, r, func(where string) { c.config.OnPhase(pipeline.Activity{Request: r, Doing: where, Slot: n}) })
	})
}

// sample makes the block of a request, after its builds where those are jobs of their own.
func (c *Cluster) sample(ctx context.Context, r bisect.Request, doing func(string)) (bisect.Outcome, error) {
	spec, err := c.block(r)
	if err != nil {
		return bisect.Outcome{}, &bisect.InfraError{What: "preparing a job for " + r.Candidate.Brief(), Err: err}
	}
	var built bisect.Outcome
	if len(spec.Block.Plan.Build) > 0 && c.config.Settings.Apart() && !r.BuildOnly {
		if built, err = buildApart(ctx, c, &spec, doing); err != nil || built.Class != bisect.OK {
			return built, err
		}
	}
	o, _, err := c.run(ctx, spec, doing)
	if built.Built {
		o.Built, o.CacheHit, o.Build = true, false, built.Build
	}
	return o, err
}

// run makes jobs of a block until one has a result, or until nobody can. keys are those of what was built.
func (c *Cluster) run(ctx context.Context, spec Spec, doing func(string)) (o bisect.Outcome, keys map[string]string, err error) {
	r := spec.Request
	if r.BuildOnly && c.config.Settings.Apart() {
		spec.Device, spec.Block.GPUs = false, []string{"none"}
	}
	var bad, faults []string // bad are the nodes that this block failed on
	anywhere := false        // no other node has what it asks for
	ends := map[executor.State]int{}
	for try := 0; ; try++ {
		j := c.job(spec, try, ends[executor.Late] > 0)
		if !anywhere {
			j.Exclude = exclude(c, bad)
		}
		res, rep, err := c.make(ctx, spec, j, doing)
		var refused *executor.RefusedError
		if errors.As(err, &refused) && len(j.Exclude) > 0 {
			anywhere = true
			continue
		}
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, bisect.ErrSpent) {
				os.RemoveAll(filepath.Dir(j.Spec)) // a later request submits it again
			}
			return o, nil, err
		}
		node, fault := rep.Node, ""
		switch {
		case res == nil && (rep.State == executor.Late || rep.State == executor.TooLarge):
			if ends[rep.State]++; ends[rep.State] == fencedTries {
				return fenced(rep, j), nil, nil
			}
			continue
		case res == nil && rep.State == executor.Unstartable && ends[executor.Unstartable] > 0:
			return o, nil, &executor.RefusedError{Why: fmt.Sprintf("[executor] no job could be started: %s\nhint: is the image right, and may the nodes pull it?", rep.Words)}
		case res == nil:
			ends[rep.State]++
			fault = fmt.Sprintf("job ended without a result: %s", rep.Words)
			if said := tail(j.Output); said != "" && rep.State == executor.Failed {
				fault += ": " + said
			}
		case res.Refused != "":
			return o, nil, &executor.RefusedError{Why: res.Refused}
		case res.Infra != "":
			node, fault = cmp.Or(res.Node, node), res.Infra
		default:
			o, err = c.collect(spec, *res)
			o.Repeated = append(faults, o.Repeated...)
			return o, res.Keys, err
		}
		if node != "" && rep.State != executor.Cancelled {
			bad, fault = append(bad, node), node+": "+fault
			blame(c, node, fault)
		}
		faults = append(faults, fault)
		if len(faults) == tries {
			return o, nil, &bisect.InfraError{What: "testing " + r.Candidate.Brief(), Err: fmt.Errorf("%d jobs failed by the machine's fault: %s", tries, strings.Join(slices.Compact(faults), "; "))}
		}
	}
}

// block is what a request needs: its times are those of a block with a reference, and so are limits that follow from times.
func (c *Cluster) block(r bisect.Request) (Spec, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.spec
	s.Request, s.Clean, s.Learnt, s.Logs = r, c.clean, slices.Clone(c.learnt), filepath.Join(c.dir, "logs")
	multiples := slices.ContainsFunc(slices.Collect(maps.Values(s.Block.Limits.Phases)), func(l kernels.Limit) bool { return l.Times > 0 })
	switch {
	case r.BuildOnly:
	case r.Timing:
		var base Base
		known, err := readJSON(c.base, &base)
		switch {
		case err != nil:
			return s, err
		case known:
			s.Reference = &base.Reference
		case c.timed:
			return s, fmt.Errorf("%s is gone, and with it what the times of this session are relative to\nhint: --fresh searches anew", c.base)
		case c.good != nil:
			s.Reference = c.reference(c.good.Candidate, r)
		default:
			s.Reference = c.reference(r.Candidate, r)
		}
	case c.good != nil && r.Purpose != bisect.EndGood && (r.Hurry != "" || multiples):
		s.Reference = c.reference(c.good.Candidate, r)
	}
	if made, ok := source.MadeOf(c.config.Repo, r.Candidate.Commit); ok {
		s.Made = filepath.Join(c.dir, "made", r.Candidate.Commit+".json")
		if _, err := os.Stat(s.Made); err != nil {
			return s, writeJSON(s.Made, made)
		}
	}
	return s, nil
}

// reference is the launch of a candidate that a request is set beside. It is an end that is good, as far as it is known to be.
func (c *Cluster) reference(candidate bisect.Candidate, r bisect.Request) *bisect.Request {
	why := bisect.EndGood
	if c.good == nil && r.Purpose != bisect.EndGood {
		why = r.Purpose
	}
	return &bisect.Request{Candidate: candidate, Purpose: why, Timing: r.Timing, Wants: r.Wants}
}

// job is a try of a block.
func (c *Cluster) job(s Spec, try int, late bool) executor.Job {
	name := fmt.Sprintf("%s-%d", s.name(), try)
	dir := filepath.Join(c.dir, "jobs", name)
	fence := cmp.Or(c.config.Settings.Time, s.fence())
	if late { // the node may have been slow
		fence *= 2
	}
	return executor.Job{Name: name, Session: c.name, Program: c.program, Folder: filepath.Dir(c.shared.dir), Spec: filepath.Join(dir, "spec.json"), Output: filepath.Join(dir, "output"), Fence: fence, Build: s.Request.BuildOnly && c.config.Settings.Apart()}
}

// exclude adds to some nodes those that keep failing.
func exclude(c *Cluster, bad []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(bad)
	for node, n := range c.faults {
		if n >= nodeFaults {
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// blame counts a fault of the machine. A node that keeps failing is left out.
func blame(c *Cluster, node, fault string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults[node]++; c.faults[node] == nodeFaults {
		c.warnings = append(c.warnings, fmt.Sprintf("node %s was left out after %d failures: %s", node, nodeFaults, fault))
	}
}

// fenced is the outcome of a candidate that the scheduler ended, twice.
func fenced(rep executor.Report, j executor.Job) bisect.Outcome {
	if rep.State == executor.TooLarge {
		return bisect.Outcome{Class: bisect.Crash, Phase: "run", Why: fmt.Sprintf("out of memory: the scheduler ended %d jobs (%s)", fencedTries, rep.Words), Exit: -1}
	}
	return bisect.Outcome{Class: bisect.Timeout, Whole: true, Why: fmt.Sprintf("the scheduler ended %d jobs at their limit, the last after %s (%s)", fencedTries, j.Fence.Round(time.Second), rep.Words), Wall: j.Fence.Seconds(), Exit: -1}
}

// collect is the outcome of a block, its times relative to those of the session's first.
func (c *Cluster) collect(s Spec, res Result) (bisect.Outcome, error) {
	o := res.Outcome
	if o.Log != "" {
		if name, err := keepLog(o.Log, c.config.Logs); err == nil {
			o.Log = name
		}
	}
	if s.Reference == nil || !s.Request.Timing || res.Reference == nil || o.Class != bisect.OK || res.Reference.Class != bisect.OK {
		return o, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var base Base
	known, err := readJSON(c.base, &base)
	if err == nil && !known {
		base = Base{*s.Reference, *res.Reference}
		err = writeJSON(c.base, base)
	}
	if err != nil {
		return o, &bisect.InfraError{What: "reading " + c.base, Err: err}
	}
	note := fmt.Sprintf("times are relative: each launch was set beside one of %s in the same job, on the same device", base.Reference.Candidate.Brief())
	if !slices.Contains(c.warnings, note) {
		c.warnings = append(c.warnings, note)
	}
	c.timed, o.Paired = true, res.Reference.Wall
	return bisect.Relative(o, *res.Reference, base.Outcome), nil
}

// Base is the launch that the times of a session are relative to: the first of its reference. Its device may differ from
// that of any other block.
type Base struct {
	Reference bisect.Request
	Outcome   bisect.Outcome
}

// keepLog copies a log to where logs are kept.
func keepLog(from, dir string) (string, error) {
	in, _, err := plain(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to := filepath.Join(dir, filepath.Base(from))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	out, err := os.Create(to)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, io.LimitReader(in, executor.MostLog))
	return to, errors.Join(err, out.Close())
}
