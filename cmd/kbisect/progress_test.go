package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
)

// What a search expects replaces the guess by the number of candidates, and is said when nothing else
// has been for a while.
func TestProgressTellsWhatASearchExpects(t *testing.T) {
	var said bytes.Buffer
	p := &progress{w: &said, began: time.Now(), last: time.Now(), told: time.Now()}
	p.begin(100, 100)
	said.Reset()
	b := judge.Progress{Suspects: 12.3, Probability: 0.2, ExpectedLaunches: 20.4, ExpectedSeconds: 300}
	p.belief(b)
	if got := p.expected(); got < 299*time.Second || got > 300*time.Second || said.Len() > 0 {
		t.Errorf("expects %v, said %q", got, said.String())
	}
	p.told = time.Now().Add(-2 * silence)
	p.belief(b)
	p.belief(b)
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "about 12 suspects, 20 launches and 5m0s to go") {
		t.Errorf("said %q", got)
	}
	said.Reset()
	p.step(bisect.Step{Commit: "0123456789", Role: "search", Remaining: 9, Verdict: bisect.Verdict{Call: bisect.Good}})
	if got := said.String(); !strings.Contains(got, "9 left") || !strings.Contains(got, "to go") {
		t.Errorf("said %q", got)
	}
}
