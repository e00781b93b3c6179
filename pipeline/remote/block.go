package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// Block says how candidates are built and run. It is the same for every block of a session, and plain data; open
// handles (repository, cache, devices) are made anew on the other side, by Spec.pipeline. A field that is added to
// [pipeline.Config] and not here is lost on the way.
type Block struct {
	Recipe     trial.Recipe // its Env is appended to the environment of the job
	OwnScripts bool         // scripts that a candidate lacks come from the user's work tree, if jobs can see it
	Limits     trial.Limits
	Cases      pipeline.Cases
	Caches     pipeline.Caches
	GPUs       []string
	Sandbox    *proc.Sandbox
}

// Spec is one block: a request and, if times matter, the launch that they are relative to, made on the same device
// just before. Paths are absolute in a shared folder and relative to the unpacked inputs of a job that shares
// nothing.
type Spec struct {
	Version, Digest string // of the kbisect that asks; a worker with another digest refuses the block
	Session         string
	Repo, Cache     string
	Made            string // file that describes the request's commit if it exists in memory only (hunks), or ""
	Logs            string
	Device          bool // the scheduler was asked for a device: a job without one is the machine's fault
	Clean           bool // every build is a clean one
	Block           Block
	Learnt          []Learnt
	Keys            map[string]string // cache keys of builds that were jobs of their own, by Candidate.String()
	Anew            bool              // those builds were clean; part of the block's name
	Reference       *bisect.Request   // launched first; nil if no time matters
	Request         bisect.Request
	Check           bool // launch nothing: the block only shows that blocks run, see [Cluster.Check]
}

// Learnt is what a launch of the good end has shown, without its times: those belong to another device.
type Learnt struct {
	Request bisect.Request
	Outcome bisect.Outcome
}

// learnt keeps the part of a good launch that holds on any device: how it ended and what it speaks.
func learnt(r bisect.Request, o bisect.Outcome) Learnt {
	return Learnt{r, bisect.Outcome{Class: o.Class, Speaks: o.Speaks, Shape: o.Shape, Supposed: o.Supposed}}
}

// Result is what a block came to: an outcome, or Infra or Refused in its place; all are empty for a check. A result
// counts whatever the scheduler says of the job, which may be that it failed or was lost.
type Result struct {
	Node      string
	Devices   []string        // UUIDs; before devices are opened, what CUDA_VISIBLE_DEVICES says
	Reference *bisect.Outcome // nil if the block has no reference
	Outcome   bisect.Outcome
	Keys      map[string]string // cache keys of what was built, by Candidate.String()
	Infra     string            // the machine's fault, instead of an outcome: the block is tried elsewhere
	Refused   string            // the user's mistake, instead of an outcome: the search stops
}

// name identifies a block by what it asks for and not by when, so that a resumed search finds the results and the
// running jobs of the interrupted one.
func (s Spec) name() string {
	data, _ := json.Marshal([]any{s.Request, s.Reference, s.Clean, s.Anew}) // plain data
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:10])
}

// fence is the time limit to ask of the scheduler: the sum of the block's own limits, and five minutes for exports
// and start-up, which have none. The worker keeps the block's limits to the second; the fence is there for a node
// that has stopped answering.
func (s Spec) fence() time.Duration {
	const besides = 5 * time.Minute
	launches := 1
	if s.Reference != nil {
		launches = 2
	}
	return time.Duration(launches)*(s.Block.Limits.Build+2*s.Block.Limits.Run) + besides // caches are filled by a launch of their own
}
