package judge

import (
	"maps"
	"slices"
)

// Clone returns a Plain that goes on from here by itself.
func (p *Plain) Clone() *Plain {
	c := *p
	c.count, c.looked, c.dropped = maps.Clone(p.count), maps.Clone(p.looked), maps.Clone(p.dropped)
	c.trials = slices.Clone(p.trials)
	return &c
}
