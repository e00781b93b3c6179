package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// Block is how candidates are built and run, the same for all blocks of a session. See [trial.Recipe] and
// [pipeline.Config], of which it has what is data.
type Block struct {
	Plan         kernels.Plan
	Flags        []kernels.Flag
	Paths        []string
	SampleMetric string
	Patterns     [][3]string // metric, unit, expression
	Sources      []trial.Source
	Env          []string // besides that of the job
	OwnScripts   bool     // scripts that a candidate lacks come from the work tree, where jobs see it
	Probe        trial.Probe
	Learn        bool
	WholeTimed   bool
	Limits       trial.Limits
	Cases        pipeline.Cases
	Caches       pipeline.Caches
	GPUs         []string
	Sandbox      *proc.Sandbox
}

// Spec is one block: a request, with the launch on the same device that its times are relative to.
type Spec struct {
	Version, Digest string // of the kbisect that asks
	Session         string
	Repo, Cache     string
	Made            string // file of a commit that exists in memory alone, or ""
	Logs            string
	Device          bool // one was asked of the scheduler
	Clean           bool // every build is a clean one
	Block           Block
	Learnt          []Learnt
	Keys            map[string]string // in the cache, of builds that were jobs of their own, by candidate
	Anew            bool              // those were clean ones
	Reference       *bisect.Request   // launched first; nil: no time matters
	Request         bisect.Request
	Check           bool // nothing is launched: the block shows that blocks run
}

// Learnt is what a launch of the good end has shown, but for its times, which are another device's.
type Learnt struct {
	Request bisect.Request
	Outcome bisect.Outcome
}

// learnt is the part of a good launch that counts on any device.
func learnt(r bisect.Request, o bisect.Outcome) Learnt {
	return Learnt{r, bisect.Outcome{Class: o.Class, Speaks: o.Speaks, Shape: o.Shape, Supposed: o.Supposed}}
}

// Result is what a block came to. It is the truth, whatever the scheduler says of the job.
type Result struct {
	Node, Job string
	Devices   []string // UUIDs, or what the scheduler calls them
	Reference *bisect.Outcome
	Outcome   bisect.Outcome
	Keys      map[string]string // in the cache, of what was built, by candidate
	Infra     string            // the machine's fault, instead of an outcome
	Refused   string            // what the user can correct, likewise
}

// name names a block by what is asked for, so that a resumed search finds the jobs of the one before.
func (s Spec) name() string {
	data, _ := json.Marshal([]any{s.Request, s.Reference, s.Clean, s.Anew}) // plain data
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:10])
}

// fence is how long a job may take: what its limits allow, and some minutes for what has none. The limits hold to the second
// inside; the scheduler's is there for a node that does not answer any more.
func (s Spec) fence() time.Duration {
	const besides = 5 * time.Minute
	launches := 1
	if s.Reference != nil {
		launches = 2
	}
	return time.Duration(launches)*(s.Block.Limits.Build+2*s.Block.Limits.Run) + besides // caches are filled by a launch of their own
}
