package pipeline

import (
	"fmt"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/firsts"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/stopwatch"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Config is what to sample and where. It does not change while trials are made.
type Config struct {
	Recipe    trial.Recipe // how candidates are built and run
	Limits    trial.Limits
	Cases     Cases            // of metrics without an entry all cases count
	Dir       string           // for the workspaces; made by New and removed by Close
	Memory    workspace.Memory // for trials without times or a workspace of their own; without its Dir, none
	Devices   []*gpu.Watch     // on which trials run; without any no device is watched
	Caches    Caches           // as timed trials find them; "": warm if times are compared, else cold
	Sandbox   *proc.Sandbox    // of builds and launches, nil for none; New adds the nodes of watched devices
	Jobs      int              // builds at a time; 1: only what is asked for; 0: as many as the machine can run
	Eager     bool             // there are processors for launches that may turn out not to be wanted
	Session   string           // marks the processes, so that leftovers can be found
	First     *Pipeline        // whose builds ahead are shared, and which is to be closed later; nil: none
	Slot      int              // number of this pipeline among those that work side by side, from 0
	Stopwatch *stopwatch.Watch // measures what the pipeline spends its time on; may be nil
	OnPhase   func(Activity)   // progress; may be nil; called from other goroutines
}

// Caches is how a trial that is launched for its times finds the caches of compilers and frameworks. All other
// trials find them empty.
type Caches string

// The settings.
const (
	Warm Caches = firsts.Warm // as the last process of the same candidate left them
	Cold Caches = firsts.Cold // empty
)

// warm reports whether a launch should find the caches as the last one of its candidate left them.
func (c Config) warm(r bisect.Request) bool { return c.Caches == Warm || c.Caches == "" && r.Timing }

// single reports whether one workspace can serve this request and all others like it, because there is no build to keep
// and no launch relies on caches that its own candidate left. A clean switch, which looks at every file, makes that
// workspace a fresh checkout. Where times may be compared later, which devices, patterns and sources of metrics suggest, the ends
// keep workspaces of their own: to fill caches again takes longer than to write a tree.
func (c Config) single(r bisect.Request) bool {
	return len(c.Recipe.Plan.Build) == 0 && !c.warm(r) && len(c.Devices)+len(c.Recipe.Patterns)+len(c.Recipe.Sources) == 0
}

// Activity is what the pipeline is doing now.
type Activity struct {
	Request bisect.Request
	Doing   string        // export, build, or the phase of the trial
	Limit   time.Duration // on what it is doing; 0 is none
	Slot    int           // of the pipeline, see [Config]
}

// doing tells the stopwatch what this pipeline does from now on, in finer steps than users are shown.
func (c Config) doing(what string) { c.Stopwatch.Doing(c.Slot, what) }

// tentative is the prefix of the accounts to which the time of a first process is charged until it has ended: only
// then is it known whether that process had to fill caches, see [stopwatch.Watch.Settle].
func (c Config) tentative() string { return fmt.Sprintf("first process %d: ", c.Slot) }

// report returns a function for the progress of a request.
func (c Config) report(r bisect.Request) func(doing string, limit time.Duration) {
	return func(doing string, limit time.Duration) {
		c.doing(doing)
		if c.OnPhase != nil {
			c.OnPhase(Activity{r, doing, limit, c.Slot})
		}
	}
}
