package progress

import (
	"math"
	"time"
)

// pace is how far the work is and how long the rest takes, as the search says. Its methods need the lock of the
// Display.
type pace struct {
	began time.Time
	far   stretch       // how far the work was at the last news
	shown float64       // the share that the bar has shown; it never falls within a part of the work
	toGo  time.Time     // when the search expects to end; zero if it has not said
	least time.Duration // least time that was shown as left: it may only fall until a reason is given; 0: none
	done  float64       // share that the search says is done; 0 if it does not say
}

// stretch is the way from one piece of news to the next that is expected.
type stretch struct {
	from, to float64 // shares of the work
	at       time.Time
	takes    time.Duration // 0: not known
	steps    float64       // to the end of the work, this one among them
}

// now is the share of the work by the clock. With x the time since the news over the time expected, it has covered
// x/(1+x) of the stretch: half of it at the expected time, and never all, so that the bar neither stands still
// during a long launch nor runs ahead of it.
func (s stretch) now() float64 {
	if s.takes <= 0 {
		return s.from
	}
	x := float64(time.Since(s.at)) / float64(s.takes)
	return s.from + (s.to-s.from)*x/(1+x)
}

// reach notes that a share of the work is done and that the rest takes so many steps and so long. The next step is
// expected to take its equal part of both.
func (p *pace) reach(share, steps float64, rest time.Duration) {
	steps = max(steps, 1)
	p.far = stretch{share, share + (1-share)/steps, time.Now(), time.Duration(float64(rest) / steps), steps}
}

// expect takes in how many seconds there are to go and in how many launches. Each test changes the forecast, so
// that the end moves only a third of the way to the new one and does not jump.
func (p *pace) expect(seconds, launches float64) {
	rest := time.Duration(seconds * float64(time.Second))
	end := time.Now().Add(rest)
	if p.toGo.After(time.Now()) {
		end = p.toGo.Add(end.Sub(p.toGo) / 3)
		rest = time.Until(end)
		seconds = rest.Seconds()
	}
	p.toGo = end
	if spent := time.Since(p.began).Seconds(); seconds > 0 {
		p.reach(spent/(spent+seconds), launches, rest)
	}
}

// made takes in a launch. The search may stay silent about it for long, so that one step is counted as done.
func (p *pace) made() {
	if x := p.far; x.steps > 1 {
		p.reach(x.to, x.steps-1, time.Duration(float64(x.takes)*(x.steps-1)))
	}
}

// now is the share of the work that is done, by the clock; it never falls.
func (p *pace) now() float64 {
	p.shown = max(p.shown, p.far.now())
	return p.shown
}

// expected is how long the rest will take, as the search says; 0 if it has not said.
func (p *pace) expected() time.Duration {
	if p.toGo.IsZero() {
		return 0
	}
	left := max(time.Second, time.Until(p.toGo))
	if p.done == 0 {
		return left
	}
	if p.least == 0 || left < p.least {
		p.least = left
	}
	return p.least
}

// bits is the number of tests that separate n suspects: log2 n, rounded up.
func bits(n int) float64 { return math.Ceil(math.Log2(float64(max(n, 1)))) }
