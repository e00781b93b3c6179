package protocol

import (
	"slices"
	"time"
)

// clock gives the time of a trial to its phases. A phase may have stretches within it (what the
// probe sends), and those others; time belongs to the innermost only.
type clock struct {
	now    time.Duration // of the last event
	spent  []bucket      // in the order of first entry; the first is that of the start, without a name
	index  map[string]int
	bottom string         // of `phase:`, "" at the start
	stack  []string       // stretches in force, the innermost last
	gone   map[string]int // stretches that a `phase:` has ended and whose `leave:` is still to come

	supposed bool          // the line before seems to have been the last
	under    int           // stretches that were in force then
	doubtful time.Duration // time given to the supposed teardown so far
	closed   time.Duration // arrival of the end of the lines
	isClosed bool
	deep     bool // the last line began a stretch: what follows belongs to that
}

// bucket is the time of one phase.
type bucket struct {
	name string
	time time.Duration
}

// supposition is the name, while it is no more than supposed, of the teardown. No phase can have it.
const supposition = "\x00"

// top is the phase in force: "" for that of the start, supposition for a teardown that is not sure.
func (c *clock) top() string {
	switch {
	case c.isClosed:
		return supposition
	case c.supposed && len(c.stack) <= c.under:
		return supposition
	case len(c.stack) > 0:
		return c.stack[len(c.stack)-1]
	}
	return c.bottom
}

// advance gives the time up to at to the phase in force. A line after the end of the lines, from
// another process, unsays that end.
func (c *clock) advance(at time.Duration) {
	c.isClosed = false
	at = max(at, c.now)
	d := at - c.now
	c.now, c.deep = at, false
	if top := c.top(); top == supposition {
		c.doubtful += d
	} else {
		c.spent[c.bucket(top)].time += d
	}
}

// bucket returns the index of a phase, or -1 if there are too many.
func (c *clock) bucket(name string) int {
	if c.index == nil {
		c.index = map[string]int{"": 0}
		c.spent = []bucket{{}}
	}
	i, ok := c.index[name]
	if !ok {
		if len(c.spent) >= maxPhases {
			return -1
		}
		i = len(c.spent)
		c.index[name] = i
		c.spent = append(c.spent, bucket{name: name})
	}
	return i
}

// phase enters a phase; stretches of the one before are over.
func (c *clock) phase(name string) bool {
	if c.bucket(name) < 0 {
		return false
	}
	for _, s := range c.stack {
		if c.gone == nil {
			c.gone = map[string]int{}
		}
		if len(c.gone) < maxPhases || c.gone[s] > 0 {
			c.gone[s]++
		}
	}
	c.bottom, c.stack = name, c.stack[:0]
	return true
}

// enter begins a stretch.
func (c *clock) enter(name string) bool {
	if len(c.stack) >= maxDepth || c.bucket(name) < 0 {
		return false
	}
	c.stack = append(c.stack, name)
	c.deep = true
	return true
}

// leave ends the innermost stretch of that name. It need not be the innermost of all: stretches of
// two threads or processes overlap.
func (c *clock) leave(name string) bool {
	for i := len(c.stack) - 1; i >= 0; i-- {
		if c.stack[i] == name {
			c.stack = slices.Delete(c.stack, i, i+1)
			if i < c.under {
				c.under--
			}
			return true
		}
	}
	if c.gone[name] > 0 {
		c.gone[name]--
		return true
	}
	return false
}

// suppose begins a teardown that a further line will unsay.
func (c *clock) suppose() { c.supposed, c.under = true, len(c.stack) }

// resume unsays the supposed teardown: its time goes to the phase before.
func (c *clock) resume() {
	if !c.supposed {
		return
	}
	before := c.bottom
	if c.under > 0 {
		before = c.stack[c.under-1]
	}
	c.spent[c.bucket(before)].time += c.doubtful
	c.supposed, c.doubtful = false, 0
}

// close notes the end of the lines.
func (c *clock) close(at time.Duration) {
	if !c.isClosed {
		c.isClosed, c.closed = true, max(at, c.now)
	}
}

// until returns the times of all phases until at. A teardown begins at from, unless that is
// negative, or as supposed.
func (c *clock) until(at, from time.Duration) []bucket {
	at = max(at, c.now)
	out := []bucket{{}}
	if len(c.spent) > 0 {
		out = slices.Clone(c.spent)
	}
	open := *c
	open.isClosed = false
	top, end := open.top(), c.doubtful
	if top == supposition {
		from = c.now
	}
	ending := from >= 0
	if !ending {
		from = at
	}
	from = min(max(from, c.now), at)
	if top != supposition {
		out[c.index[top]].time += from - c.now
	}
	if end += at - from; ending || end > 0 {
		out = append(out, bucket{teardown, end})
	}
	return out
}
