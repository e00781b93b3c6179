package protocol

import (
	"slices"
	"time"
)

// clock divides the time of a trial among its phases. A phase may contain spans, which
// the probe sends, and spans contain others; time belongs to the innermost only.
type clock struct {
	now      time.Duration  // of the last event
	spent    []bucket       // in the order of first entry; the first is the start, without a name
	index    map[string]int // of spent, by name
	base     string         // the phase of the last `phase:`, "" at the start
	stack    []string       // open spans, the innermost last
	orphaned map[string]int // spans that a `phase:` closed and whose `leave:` is still to come
	opened   bool           // the last line opened a span, so what follows belongs to that

	inferred      bool          // the line before seems to have been the last
	inferredDepth int           // open spans at that line
	unassigned    time.Duration // time since then, until the inference is confirmed or revoked

	isClosed bool          // the program closed its descriptor
	closedAt time.Duration // when
}

// bucket is the time of one phase.
type bucket struct {
	name string
	time time.Duration
}

// unconfirmed stands for a teardown that is inferred or follows a closed descriptor, and
// that another line would revoke. No phase can have this name.
const unconfirmed = "\x00"

// top is the phase in force: "" at the start, or unconfirmed.
func (c *clock) top() string {
	switch {
	case c.isClosed:
		return unconfirmed
	case c.inferred && len(c.stack) <= c.inferredDepth:
		return unconfirmed
	case len(c.stack) > 0:
		return c.stack[len(c.stack)-1]
	}
	return c.base
}

// advance assigns the time up to at to the phase in force. A line that arrives after the
// descriptor was closed comes from another process and reopens it.
func (c *clock) advance(at time.Duration) {
	c.isClosed = false
	at = max(at, c.now)
	d := at - c.now
	c.now, c.opened = at, false
	if top := c.top(); top == unconfirmed {
		c.unassigned += d
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

// phase enters a phase, which closes the open spans.
func (c *clock) phase(name string) bool {
	if c.bucket(name) < 0 {
		return false
	}
	for _, s := range c.stack {
		if c.orphaned == nil {
			c.orphaned = map[string]int{}
		}
		if len(c.orphaned) < maxPhases || c.orphaned[s] > 0 {
			c.orphaned[s]++
		}
	}
	c.base, c.stack = name, c.stack[:0]
	return true
}

// span takes `enter: NAME` or `leave: NAME`.
func (c *clock) span(key, name string) bool {
	switch {
	case !validName(name):
		return false
	case key == "enter":
		return c.enter(name)
	}
	return c.leave(name)
}

// enter opens a span inside the one that is open; too many are refused, and their time stays where it was.
func (c *clock) enter(name string) bool {
	if len(c.stack) >= maxDepth || c.bucket(name) < 0 {
		return false
	}
	c.stack = append(c.stack, name)
	c.opened = true
	return true
}

// leave closes the innermost span of that name. It need not be the innermost of all,
// because spans of several threads or processes overlap.
func (c *clock) leave(name string) bool {
	for i := len(c.stack) - 1; i >= 0; i-- {
		if c.stack[i] == name {
			c.stack = slices.Delete(c.stack, i, i+1)
			if i < c.inferredDepth {
				c.inferredDepth--
			}
			return true
		}
	}
	if c.orphaned[name] > 0 {
		c.orphaned[name]--
		return true
	}
	return false
}

// inferTeardown begins a teardown that another line will revoke.
func (c *clock) inferTeardown() { c.inferred, c.inferredDepth = true, len(c.stack) }

// resume revokes the inferred teardown: its time goes to the phase before.
func (c *clock) resume() {
	if !c.inferred {
		return
	}
	before := c.base
	if c.inferredDepth > 0 {
		before = c.stack[c.inferredDepth-1]
	}
	c.spent[c.bucket(before)].time += c.unassigned
	c.inferred, c.unassigned = false, 0
}

// close notes that the program closed its descriptor.
func (c *clock) close(at time.Duration) {
	if !c.isClosed {
		c.isClosed, c.closedAt = true, max(at, c.now)
	}
}

// until returns the times of all phases up to at. from is when the teardown began, or
// negative for none but an inferred one.
func (c *clock) until(at, from time.Duration) []bucket {
	at = max(at, c.now)
	out := []bucket{{}}
	if len(c.spent) > 0 {
		out = slices.Clone(c.spent)
	}
	open := *c
	open.isClosed = false
	top, end := open.top(), c.unassigned
	if top == unconfirmed {
		from = c.now
	}
	ending := from >= 0
	if !ending {
		from = at
	}
	from = min(max(from, c.now), at)
	if top != unconfirmed {
		out[c.index[top]].time += from - c.now
	}
	if end += at - from; ending || end > 0 {
		out = append(out, bucket{Teardown, end})
	}
	return out
}
