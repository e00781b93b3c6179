// Package remote makes trials on other machines. Each slot of a [Cluster] is a [bisect.Sampler] over an
// [executor.Executor]: Slurm, Kubernetes, or three commands that the user gives. The search sees slots, as it does on
// one machine, and must not learn of jobs or nodes; this package must not know of beliefs, verdicts or the store.
//
//	Sample    writes a block, submits it as a job, waits for its result, decides whose fault a failure is    cluster.go
//	Spec      a block as data: one request, and the launch on the same device that its times are relative to block.go
//	Keys      builds that are jobs of their own, by their place in the cache                               builds.go
//	Wait      submits a job and polls or watches until it has a result                                       wait.go
//	Work      the other side: runs the block by package pipeline, and writes the result beside it            worker.go
//	Executor  four verbs of a scheduler: submit, states, cancel, version                            package executor
//
// Either both sides see one folder (folder.go), in which sources, builds and the program itself are stored by their
// content and each job has a folder of its own; or they share nothing, and a job carries all that it needs
// (stream.go). A job's result is the truth; what the scheduler says of the job is only a hint. The worker inside the
// job keeps the limits of phases, to the second; the scheduler's own limit is the outer fence.
//
// Times are never compared across devices. A block whose times matter launches its reference first, on the same
// device, and what counts is the ratio ([bisect.Relative]).
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

// Config is what a cluster is opened with. Repo may be nil where nothing is launched, see [Cluster.Check].
type Config struct {
	Settings executor.Settings
	Session  string
	Version  string // of this kbisect
	Block    Block
	Repo     *source.Repo
	Commits  []string                // 40 hex digits each; jobs must see them even if no reference leads to them
	Folder   string                  // used as the shared folder if the settings name none
	Logs     string                  // folder for the logs of launches, kept
	Say      func(string)            // called with what the session waits for, and when it no longer does
	OnPhase  func(pipeline.Activity) // progress of the slots; called from several goroutines
}

// Cluster makes trials as jobs. It may be used by several goroutines: each Sample waits for its own job, and
// whoever comes first asks the scheduler for all. No goroutine outlives a call, except those of the executor.
type Cluster struct {
	config   Config
	executor executor.Executor
	shared   shared
	dir      string        // of the session, in the shared folder
	base     string        // file of its [Base]
	name     string        // common to its jobs
	spec     Spec          // what all blocks have in common; copied for each
	program  string        // path of kbisect as jobs see it; "" where the image has it
	grace    time.Duration // for a result to be seen here after its job has ended, or a job to be seen by the scheduler

	asking sync.Mutex // held during a query, and only ever taken with TryLock; see stateOf

	mu       sync.Mutex                 // guards the rest
	good     *bisect.Request            // the first launch of the good end that ended well; nil until then
	learnt   []Learnt                   // at most mostLearnt
	clean    bool                       // see Clean
	timed    bool                       // times were taken, perhaps by an earlier attempt
	live     map[string]time.Time       // jobs under way, by scheduler id: when each was submitted
	states   map[string]executor.Report // the scheduler's last answer, by id
	builds   map[build]chan struct{}    // locks of capacity 1: held by the goroutine that makes the build
	keys     map[build]string           // cache keys of the builds that succeeded
	asked    time.Time                  // when the last query was answered, or failed
	newest   time.Time                  // when the last job was submitted
	idle     bool                       // at that query every job waited in the queue
	waited   time.Duration              // total time during which every job waited; not charged to the budget
	until    time.Time                  // end of the budget, zero if there is none; see Until
	faults   map[string]int             // infrastructure faults so far, by node
	forgiven map[string]bool            // nodes that get jobs although they failed, see forgive
	warnings []string
	said     string // what Say was last called with
}

// Several independent faults can hit one block (a job cancelled by someone else, a controller that restarts without
// it, a node that dies), so tries is generous: nodes that fail are left out after nodeFaults anyway. A fence that
// is reached twice, although the second try has twice the time, is due to the candidate and not to a slow node.
const (
	tries       = 8                // jobs that the machine may spoil before the search stops with an InfraError
	fencedTries = 2                // jobs ended by the scheduler before the candidate is blamed
	nodeFaults  = 2                // faults of a node before all blocks of the session avoid it
	mostLearnt  = 16               // launches of the good end that each spec carries
	resultGrace = 15 * time.Second // for a shared file system to show a file that another machine wrote
)

// Open prepares the shared folder: it copies this program there and, if jobs cannot see the repository, mirrors it.
// It submits nothing. Settings that cannot work are an [*executor.RefusedError], which the user can correct; a
// folder that cannot be written is a [*bisect.InfraError].
func Open(ctx context.Context, c Config) (*Cluster, error) {
	name := "kbisect-" + c.Session
	scheduler, err := executor.New(c.Settings, name)
	if err != nil {
		return nil, err
	}
	x := &Cluster{config: c, executor: scheduler, grace: resultGrace, live: map[string]time.Time{}, faults: map[string]int{}, forgiven: map[string]bool{}, builds: map[build]chan struct{}{}, keys: map[build]string{}}
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
	keep := c.Block.Recipe.Plan.Keep
	switch {
	case c.Settings.Apart() && len(c.Block.Recipe.Plan.Build) > 0 && len(c.Block.Recipe.Plan.Outputs) == 0:
		return nil, &executor.RefusedError{Why: "[executor] builds in jobs of their own, and nothing says which files a launch needs of a build\nhint: outputs = [...] in [build]"}
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

// Close cancels the jobs of this session that still wait or run; other sessions' jobs are left alone. It then
// removes the folder of the session, unless ctx is done: an interrupted session finds its results there when it is
// resumed. Jobs must be cancelled first, since one that still runs would write its folder anew.
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

// Version names the scheduler and, by getting an answer, shows that it can be reached.
func (c *Cluster) Version(ctx context.Context) (string, error) { return c.executor.Version(ctx) }

// Folder is the folder that both sides see.
func (c *Cluster) Folder() string { return c.shared.dir }

// Warnings are about the whole session: which nodes were left out, and what its times are relative to.
func (c *Cluster) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.warnings)
}

// Clean makes every build from now on a clean one, for a proof that must not rest on incremental builds.
func (c *Cluster) Clean() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clean = true
}

// Learn takes in a launch, made now or replayed from the ledger of an earlier attempt. Good launches of the good
// end show later blocks how a good program reports; the first of them becomes the reference.
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

// Slot returns a sampler whose progress is reported as that of slot n, counted from 0. Slots share everything else.
func (c *Cluster) Slot(n int) bisect.Sampler {
	return bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
		return c.sample(ctx, r, func(where string) { c.config.OnPhase(pipeline.Activity{Request: r, Doing: where, Slot: n}) })
	})
}

// sample makes the block of a request, after its builds if those are jobs of their own.
func (c *Cluster) sample(ctx context.Context, r bisect.Request, doing func(string)) (bisect.Outcome, error) {
	spec, err := c.block(r)
	if err != nil {
		return bisect.Outcome{}, &bisect.InfraError{What: "preparing a job for " + r.Candidate.Brief(), Err: err}
	}
	var built bisect.Outcome
	if len(spec.Block.Recipe.Plan.Build) > 0 && c.config.Settings.Apart() && !r.BuildOnly {
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

// run submits a block as one job after another until one has a result, or until no further try can help. keys are
// the cache keys of what was built, by Candidate.String().
//
// How a job ended decides what happens next. A result with an outcome ends the loop; one that names the machine as
// its fault counts against the node, and the block goes elsewhere. Without a result, a job that reached the
// scheduler's own limits is tried once more with twice the time; anything else counts as a fault of the machine. Where
// all suitable nodes are excluded, or down, the excluded one that failed least has to do, until it fails again.
func (c *Cluster) run(ctx context.Context, spec Spec, doing func(string)) (o bisect.Outcome, keys map[string]string, err error) {
	r := spec.Request
	if r.BuildOnly && c.config.Settings.Apart() {
		spec.Device, spec.Block.GPUs = false, []string{"none"}
	}
	var bad, faults []string // bad: the nodes that this block failed on
	ends := map[executor.State]int{}
	for try := 0; ; try++ {
		j := c.job(spec, try, ends[executor.Late] > 0)
		j.Exclude = exclude(c, bad)
		res, rep, err := c.make(ctx, spec, j, doing)
		var refused *executor.RefusedError
		if errors.As(err, &refused) && len(j.Exclude) > 0 {
			forgive(c, j.Exclude)
			continue
		}
		if err != nil {
			if done, _ := result(c, j); done == nil && (ctx.Err() != nil || errors.Is(err, bisect.ErrSpent)) {
				os.RemoveAll(filepath.Dir(j.Spec)) // a later request submits it again, or reads the result of one that ended just now
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

// block is the spec of a request. Requests for times get a reference, and so do requests whose limits are multiples
// of the good end's times or that stop a launch early by comparison with it. The base of a session is chosen once
// and kept in a file, so that a resumed session compares with the same candidate; if the file is gone, earlier
// times mean nothing and the search has to begin again.
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
	if made, ok := source.SyntheticOf(c.config.Repo, r.Candidate.Commit); ok {
		s.Made = filepath.Join(c.dir, "made", r.Candidate.Commit+".json")
		if _, err := os.Stat(s.Made); err != nil {
			return s, writeJSON(s.Made, made)
		}
	}
	return s, nil
}

// reference is the launch of a candidate next to a request. It is asked for as the good end once a good end is
// known; before that it shares the request's purpose, so that its failure is judged as the request's would be.
func (c *Cluster) reference(candidate bisect.Candidate, r bisect.Request) *bisect.Request {
	why := bisect.EndGood
	if c.good == nil && r.Purpose != bisect.EndGood {
		why = r.Purpose
	}
	return &bisect.Request{Candidate: candidate, Purpose: why, Timing: r.Timing, Wants: r.Wants}
}

// job is one try of a block, counted from 0. Each try has a folder and a name of its own: a late result of one try
// must not be taken for that of the next.
func (c *Cluster) job(s Spec, try int, late bool) executor.Job {
	name := fmt.Sprintf("%s-%d", s.name(), try)
	dir := filepath.Join(c.dir, "jobs", name)
	fence := cmp.Or(c.config.Settings.Time, s.fence())
	if late { // the node may have been slow
		fence *= 2
	}
	return executor.Job{Name: name, Session: c.name, Program: c.program, Folder: filepath.Dir(c.shared.dir), Spec: filepath.Join(dir, "spec.json"), Output: filepath.Join(dir, "output"), Fence: fence, Build: s.Request.BuildOnly && c.config.Settings.Apart()}
}

// exclude returns bad and the nodes that have failed too often for other blocks, those that failed most first, without
// those that have to do all the same.
func exclude(c *Cluster, bad []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(bad)
	for node, n := range c.faults {
		if n >= nodeFaults {
			out = append(out, node)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(c.faults[b]-c.faults[a], cmp.Compare(a, b)) })
	return slices.DeleteFunc(slices.Compact(out), func(node string) bool { return c.forgiven[node] })
}

// forgive lets the last of some nodes have more jobs, until it fails again.
func forgive(c *Cluster, excluded []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgiven[excluded[len(excluded)-1]] = true
}

// blame counts a fault of the machine. A node that keeps failing is left out.
func blame(c *Cluster, node, fault string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.forgiven, node)
	if c.faults[node]++; c.faults[node] == nodeFaults {
		c.warnings = append(c.warnings, fmt.Sprintf("node %s was left out after %d failures: %s", node, nodeFaults, fault))
	}
}

// fenced is the outcome of a candidate whose jobs the scheduler ended at a limit of its own, fencedTries times.
func fenced(rep executor.Report, j executor.Job) bisect.Outcome {
	if rep.State == executor.TooLarge {
		return bisect.Outcome{Class: bisect.Crash, Phase: "run", Why: fmt.Sprintf("out of memory: the scheduler ended %d jobs (%s)", fencedTries, rep.Words), Exit: -1}
	}
	return bisect.Outcome{Class: bisect.Timeout, Whole: true, Why: fmt.Sprintf("the scheduler ended %d jobs at their limit, the last after %s (%s)", fencedTries, j.Fence.Round(time.Second), rep.Words), Wall: j.Fence.Seconds(), Exit: -1}
}

// collect turns a block's result into an outcome. Times become ratios to the reference of the same job, scaled to
// the session's base ([bisect.Relative]), which is what makes those of different devices comparable. The first
// timed block of a session becomes the base. A reference or a request that did not end well has no times to
// convert.
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

// Base is the launch that the times of a session are relative to: the first of its reference. Its device may differ
// from that of any other block.
type Base struct {
	Reference bisect.Request
	Outcome   bisect.Outcome
}

// keepLog copies the log of a launch out of the session's folder, which Close removes.
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
