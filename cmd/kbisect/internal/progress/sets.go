package progress

import (
	"fmt"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// BeginSets starts a search over n things called what, which are atoms changes.
func (p *Display) BeginSets(n, atoms int, what string) {
	p.BeginPart()
	p.Say(fmt.Sprintf("%s, %s that can be on or off", wording.Counted(n, strings.TrimSuffix(what, "s")), wording.Counted(atoms, "change")))
}

// BeginPart starts a part of the work that says itself what it expects.
func (p *Display) BeginPart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part, p.toGo, p.left, p.ended, p.least, p.done = time.Now(), time.Time{}, 0, nil, 0, 0
}

// Test shows the test of a set, or an answer that follows from others.
func (p *Display) Test(t sets.Test, words func(sets.Set) string) {
	how := fmt.Sprintf("%.2f s", t.Seconds)
	if t.Inferred {
		how = "inferred"
	}
	p.mu.Lock()
	p.Steps++
	p.mu.Unlock()
	p.Say(fmt.Sprintf("%-9s %-10s %s  %s | %s", t.Purpose, t.Answer, how, words(t.Set), p.Far()))
}

// Far is how far a search is that says what it expects.
func (p *Display) Far() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	spent := time.Since(p.began)
	text := wording.Span(spent) + " elapsed"
	if eta := p.expected(); eta > 0 {
		text = fmt.Sprintf("%.0f %% done, %s, about %s to go", 100*float64(spent)/float64(spent+eta), text, wording.Span(eta))
	}
	return text
}

// Remaining takes what a search over sets expects, with so many trials at a time. To
// the tests themselves it adds the time between them, mostly exports, as measured
// since the ends. That is negative where tests ran in parallel or were remembered.
func (p *Display) Remaining(s sets.Progress, slots int) {
	p.mu.Lock()
	if p.ended == nil {
		p.part, p.ended = time.Now(), &s
	}
	took, spent, made := time.Since(p.part).Seconds(), s.Spent-p.ended.Spent, s.Made-p.ended.Made
	p.mu.Unlock()
	timing := 2 * TimedPairs * float64(s.Timed) * s.Launch
	seconds := s.Seconds
	if between := took - spent; between > 0 {
		seconds += s.Tests * between / float64(max(1, made)) // a test may be of many launches
	}
	if spent > 0 {
		timing *= max(took/spent, 1/float64(slots))
		seconds *= max(min(took/spent, 1), 1/float64(slots))
	}
	p.expect(seconds + timing)
}

// expect sets how many seconds there are to go.
func (p *Display) expect(seconds float64) {
	p.mu.Lock()
	p.toGo = time.Now().Add(time.Duration(seconds * float64(time.Second)))
	spent := time.Since(p.began).Seconds()
	p.mu.Unlock()
	if seconds > 0 {
		p.line.advance(spent / (spent + seconds))
	}
}

// Ranked shows a launch that ranks flags, after which about left more are expected.
func (p *Display) Ranked(words string, made int, left float64) {
	p.mu.Lock()
	took := time.Since(p.part).Seconds()
	p.mu.Unlock()
	p.expect((left + 2*TimedPairs) * took / float64(made))
	p.Say(fmt.Sprintf("%-9s %s | launch %d, about %.0f more, %s", "ranking", words, made, left, p.Far()))
}

// TimedPairs is how many pairs of launches time a safe set.
const TimedPairs = 8
