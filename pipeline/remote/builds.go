package remote

import (
	"context"

	"github.com/kbisect/kbisect/bisect"
)

// build identifies a build job: a clean build of a candidate is another job than an incremental one.
type build struct {
	candidate bisect.Candidate
	clean     bool
}

// buildApart has the candidates of a block built by jobs of their own, which ask for no device, and notes their
// cache keys in s. The compilers may be missing where the devices are, and an expensive device should not wait for
// them.
//
// The channel of each build is a lock with a queue that ctx can leave: of several blocks that need the same build
// one makes it, and the others find its key afterwards. The outcome is that of the request's candidate. A reference
// that cannot be built is not reported here; its launch will say so.
func buildApart(ctx context.Context, c *Cluster, s *Spec, doing func(string)) (o bisect.Outcome, err error) {
	keys, requests := map[string]string{}, []bisect.Request{s.Request}
	if s.Reference != nil && s.Reference.Candidate != s.Request.Candidate {
		requests = []bisect.Request{*s.Reference, s.Request}
	}
	for _, r := range requests {
		which := build{r.Candidate, r.Clean || s.Clean}
		c.mu.Lock()
		turn := c.builds[which]
		if turn == nil {
			turn = make(chan struct{}, 1)
			c.builds[which] = turn
		}
		c.mu.Unlock()
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return o, context.Cause(ctx)
		}
		var key string
		if key, o, err = buildOnce(ctx, c, *s, r, which, doing); key != "" {
			keys[r.Candidate.String()] = key
		}
		<-turn
		if err != nil || o.Class != bisect.OK && r.Candidate == s.Request.Candidate {
			return o, err
		}
	}
	// The builds are fresh now, so the launches take them from the cache instead of building clean again.
	if s.Anew = s.Clean || s.Request.Clean; s.Reference != nil {
		reference := *s.Reference
		reference.Clean, s.Reference = false, &reference
	}
	s.Keys, s.Clean, s.Request.Clean = keys, false, false
	return o, nil
}

// buildOnce builds a candidate in a job, unless another block has had it built. Only successes are remembered: a
// failed build is asked for again, as a failed trial would be.
func buildOnce(ctx context.Context, c *Cluster, s Spec, r bisect.Request, which build, doing func(string)) (key string, o bisect.Outcome, err error) {
	c.mu.Lock()
	key = c.keys[which]
	c.mu.Unlock()
	if key != "" {
		return key, bisect.Outcome{Class: bisect.OK}, nil
	}
	s.Request = bisect.Request{Candidate: r.Candidate, Purpose: r.Purpose, Clean: r.Clean, BuildOnly: true}
	s.Reference, s.Learnt, s.Keys = nil, nil, map[string]string{}
	o, keys, err := c.run(ctx, s, doing)
	if key = keys[r.Candidate.String()]; err == nil && o.Class == bisect.OK {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keys[which] = key
	}
	return key, o, err
}
