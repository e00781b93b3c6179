package pipeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
)

// Limits bound a trial.
type Limits struct {
	Build  time.Duration
	Run    time.Duration            // the whole trial without the build
	Phases map[string]kernels.Limit // by phase
}

// limit is the bound on a phase, "build" and [bisect.WholeTrial] among them; 0 is none.
func (p *Pipeline) limit(phase string) time.Duration {
	switch phase {
	case "build":
		return p.Limits.Build
	case bisect.WholeTrial:
		return p.Limits.Run
	}
	l, ok := p.Limits.Phases[phase]
	if !ok { // "check" is the limit of test/check, benchmark/check and so on
		l = p.Limits.Phases[phase[strings.LastIndexByte(phase, '/')+1:]]
	}
	return l.For(p.good[phase])
}

// bound is the limit of a phase in one trial: where the request is in a hurry, the time after which
// no good run could still be in the phase.
func (p *Pipeline) bound(r bisect.Request, phase string) time.Duration {
	full := p.limit(phase)
	if r.Hurry != phase {
		return full
	}
	if phase == "build" && p.good[phase] == 0 {
		return full // the good end came from the build cache
	}
	soon := max(patience(p.good[phase]), patience(time.Duration(r.Past*float64(time.Second))))
	if full == 0 {
		return soon
	}
	return min(full, soon)
}

// patience is [bisect.Patience] as a duration.
func patience(good time.Duration) time.Duration {
	return time.Duration(bisect.Patience(good.Seconds()) * float64(time.Second))
}

// early reports whether a time-out came from haste, and says so.
func (p *Pipeline) early(r bisect.Request, phase string, limit time.Duration) (why string, ok bool) {
	if r.Hurry != phase || limit >= p.limit(phase) && p.limit(phase) > 0 {
		return "", false
	}
	in := "in " + phase
	if phase == bisect.WholeTrial {
		in = "as a whole"
	}
	return fmt.Sprintf("stopped after %v, where the good end takes %.3g s %s", limit.Round(time.Millisecond), p.good[phase].Seconds(), in), true
}
