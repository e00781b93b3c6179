package progress

import (
	"fmt"
	"math"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/sets"
)

// BeginSets starts a search over n things, of which noun names one, made of atoms changes.
func (p *Display) BeginSets(n, atoms int, noun string) {
	p.BeginPart()
	p.mu.Lock()
	p.within = noun + "s: "
	p.mu.Unlock()
	line := words.Count(n, noun) + " to search"
	if atoms != n {
		line += ", as " + words.Count(atoms, "change")
	}
	p.Say(line)
}

// BeginPart starts a part of the work that forecasts its own length. What was counted for the part before is
// forgotten.
func (p *Display) BeginPart() {
	p.confirmed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace = pace{began: p.pace.began}
	p.part, p.ended, p.proof, p.verified = time.Now(), nil, proof{}, map[string]bool{}
	p.within = ""
}

// Test shows the test of a set, or an answer that follows from others. Tests that verify an answer are only
// counted: below the bar if there is one, else in a line after the first of each set. words names a set.
func (p *Display) Test(t sets.Test, words func(sets.Set) string) {
	how := fmt.Sprintf("%.2f s", t.Seconds)
	if t.Inferred {
		how = "inferred"
	}
	p.mu.Lock()
	p.Steps++
	set := words(t.Set)
	key := string(t.Answer) + " " + set
	fold := t.Purpose == sets.Verifying && !t.Inferred && !p.Verbose && (p.area.drawn() || p.verified[key])
	if t.Purpose == sets.Verifying {
		p.verified[key] = true
	}
	if fold {
		p.proof.made++
		if t.Answer == sets.Fail {
			p.proof.fails++
		}
	}
	p.mu.Unlock()
	if fold {
		return
	}
	p.confirmed()
	answer := string(t.Answer)
	if t.Answer == sets.Unjudged {
		answer = "no verdict"
	}
	p.Say(fmt.Sprintf("%-9s %-10s %s  %s | %s", purpose(t.Purpose), answer, how, set, p.Far()))
}

// purpose is what a test is for, in a word.
func purpose(p sets.Purpose) string {
	if p == sets.Verifying {
		return "confirm"
	}
	return string(p)
}

// confirmed prints one line about the verifying tests that were only counted.
func (p *Display) confirmed() {
	p.mu.Lock()
	x := p.proof
	p.proof = proof{last: x.last}
	p.mu.Unlock()
	if x.made > 0 && x.last == (bisect.TrialID{}) {
		p.Say(fmt.Sprintf("%-9s %s: %d pass, %d fail | %s", purpose(sets.Verifying), words.Count(x.made, "test"), x.made-x.fails, x.fails, p.Far()))
	}
}

// Far is how far a search is that forecasts its own length.
func (p *Display) Far() string {
	p.mu.Lock()
	spent, eta := time.Since(p.pace.began), p.pace.expected()
	p.mu.Unlock()
	return far(p, float64(spent)/float64(spent+eta), eta)
}

// Remaining takes in what a search over sets expects, with slots trials at a time. To the time of the tests it adds
// the time between them, mostly exports, as measured since the ends were tested. That is negative if tests ran side
// by side or were remembered; then the forecast shrinks in proportion, but to no less than 1/slots.
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
	p.mu.Lock()
	p.pace.expect(seconds+timing, s.Tests+2*TimedPairs*float64(s.Timed))
	p.proof.left = int(math.Round(s.Verify))
	p.mu.Unlock()
}

// Ranked shows the launch with number made that ranks flags, after which about left more are expected.
func (p *Display) Ranked(words string, made int, left float64) {
	p.mu.Lock()
	left += 2 * TimedPairs
	p.pace.expect(left*time.Since(p.part).Seconds()/float64(made), left)
	p.mu.Unlock()
	p.Say(fmt.Sprintf("%-9s %s | launch %d, about %.0f more, %s", "ranking", words, made, left-2*TimedPairs, p.Far()))
}

// TimedPairs is how many pairs of launches time a safe set.
const TimedPairs = 8
