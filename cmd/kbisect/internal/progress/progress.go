// Package progress shows on one writer how far a run is: a line for each judgement and,
// on a terminal, a status line below them. A [Display] is also the writer of the log.
// It is told what happens and decides nothing.
package progress

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline"
)

// Display shows how far a search is: one line a judgement and, on a terminal, a status
// line below them. It is also the writer of the log. Its methods may be called from
// several goroutines.
type Display struct {
	mu      sync.Mutex
	line    statusLine
	Quiet   bool // print warnings only
	Verbose bool // print what the pipeline does, too
	began   time.Time

	now    map[int]doing // what is being done, by slot
	matter int           // commits that can be the culprit, at the start
	left   int           // those that still can
	proofs int           // judgements after the search: the culprit's, its parents'
	tested int
	spent  time.Duration // on candidates so far
	last   time.Time
	Steps  int // judgements or tests so far

	Ends     map[bisect.Purpose]string // names of the two ends
	begunEnd string                    // the end whose start was printed last
	toGo     time.Time                 // when a search expects to end; zero: not known
	least    time.Duration             // that was said to go, of a search that only falls; 0: none was
	done     float64                   // share, of a search that says it; 0: none does
	part     time.Time                 // when a ranking began, or when a search over sets had tested its ends
	ended    *sets.Progress            // what that search expected then
	told     time.Time                 // when the last line was printed
}

// doing is the work in one slot.
type doing struct {
	what  string
	since time.Time
}

// silence is how long a search may go on without printing a line.
const silence = time.Minute

// New returns a display on w, with a bar if w is a terminal.
func New(w io.Writer, quiet, verbose bool) *Display {
	p := &Display{line: statusLine{out: w, plain: w}, Quiet: quiet, Verbose: verbose, began: time.Now(), last: time.Now(), told: time.Now()}
	p.Ends = map[bisect.Purpose]string{bisect.EndGood: "good end", bisect.EndBad: "bad end"}
	if !p.Quiet {
		p.line.draw(p.Status)
	}
	return p
}

// Without does something while a display shows no status line.
func Without(p *Display, do func()) {
	drawn := p.line.end()
	do()
	if drawn {
		p.line.draw(p.Status)
	}
}

// Status is the text beside the bar.
func (p *Display) Status() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := fmt.Sprintf("%s elapsed", wording.Span(time.Since(p.began)))
	if eta := p.expected(); eta > 0 {
		s += fmt.Sprintf(", about %s to go", wording.Span(eta))
	}
	for _, slot := range slices.Sorted(maps.Keys(p.now)) {
		s += fmt.Sprintf(" | %s, %s", p.now[slot].what, wording.Span(time.Since(p.now[slot].since)))
	}
	return s
}

// expected is how long the rest of the search will take, as the search says or as
// candidates took so far; 0: not known.
func (p *Display) expected() time.Duration {
	if left := max(time.Second, time.Until(p.toGo)); !p.toGo.IsZero() {
		if p.done == 0 {
			return left
		}
		if p.least == 0 || left < p.least {
			p.least = left
		}
		return p.least
	}
	if p.tested == 0 || p.left == 0 {
		return 0
	}
	return time.Duration(float64(p.spent) / float64(p.tested) * (bits(p.left) + float64(confirming-p.proofs)))
}

// confirming is how many judgements follow a search: culprit and parent, built clean.
const confirming = 2

// share is the part of a search that is done, as it says or counted in judgements.
func (p *Display) share() float64 {
	if p.done > 0 {
		return p.done
	}
	return (bits(p.matter) - bits(p.left) + float64(p.proofs)) / (bits(p.matter) + confirming)
}

// bits is the number of tests that separate n suspects.
func bits(n int) float64 { return math.Ceil(math.Log2(float64(max(n, 1)))) }

// Begin starts a search among commits, of which matter can be the culprit.
func (p *Display) Begin(commits, matter int) {
	p.mu.Lock()
	p.matter, p.left = matter, matter
	p.mu.Unlock()
	p.Say(fmt.Sprintf("%s in the range, %d to search: about %s after the two ends", wording.Counted(commits, "commit"), matter, wording.Counted(int(bits(matter)), "candidate")))
}

// Activity shows what the pipeline does.
func (p *Display) Activity(a pipeline.Activity) {
	p.mu.Lock()
	now := fmt.Sprintf("%s: %s", a.Request.Candidate.Brief(), a.Doing)
	if a.Limit > 0 {
		now += fmt.Sprintf(" (limit %v)", a.Limit)
	}
	if p.now == nil {
		p.now = map[int]doing{}
	}
	if p.now[a.Slot] = (doing{now, time.Now()}); a.Slot > 0 {
		now = fmt.Sprintf("slot %d: %s", a.Slot+1, now)
	}
	end := p.Ends[a.Request.Purpose]
	first := end != "" && a.Request.Nth == 0 && a.Doing != "export" && p.begunEnd != end
	if first {
		p.begunEnd = end
	}
	p.mu.Unlock()
	switch {
	case p.Verbose:
		p.Say(now)
	case first && !p.line.drawn():
		p.Say(fmt.Sprintf("%-9s %s", end, now))
	}
}

// Idle says that a slot has nothing to do any more.
func (p *Display) Idle(slot int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.now, slot)
}

// Belief takes what a search knows and expects. Why it will take longer than was said is printed; without a terminal
// the rest as well when nothing else was for a while.
func (p *Display) Belief(b search.Progress) {
	p.mu.Lock()
	if b.Reason != "" {
		p.least = 0
	}
	p.done, p.toGo = max(p.done, b.Done), time.Now().Add(time.Duration(b.ExpectedSeconds*float64(time.Second)))
	share, eta := p.share(), p.expected()
	still := !p.line.drawn() && time.Since(p.told) > silence
	p.mu.Unlock()
	p.line.advance(share)
	switch left := fmt.Sprintf("about %s and %s to go", launches(b.ExpectedLaunches), wording.Span(eta)); {
	case b.Reason != "":
		p.Say(fmt.Sprintf("%s now: %s", left, reason(b.Reason)))
	case still:
		p.Say(fmt.Sprintf("%s elapsed, %s left, %s", wording.Span(time.Since(p.began)), wording.Counted(int(math.Round(b.Suspects)), "suspect"), left))
	}
}

// reason is why a search takes longer, in words.
func reason(r search.Reason) string {
	switch r {
	case search.FindsMore:
		return "other culprits are looked for"
	case search.Contradicted:
		return "launches contradict those before, which are made again"
	case search.Intermittent:
		return "the complaint does not come in every launch"
	case search.Noisier:
		return "the launches vary more than those before"
	case search.Slower:
		return "the launches take longer than those before"
	}
	return "the launches told less than expected"
}

// launches is an expected number of launches in words.
func launches(n float64) string {
	if n = math.Round(n); n == 1 {
		return "1 launch"
	}
	return fmt.Sprintf("%.0f launches", n)
}

// Step shows a judgement.
func (p *Display) Step(s bisect.Step) {
	p.mu.Lock()
	p.Steps++
	switch s.Role {
	case "search":
		p.left, p.matter = s.Remaining, max(p.matter, s.Remaining) // equal inputs may turn out to differ
	case "culprit", "parent":
		p.proofs = min(p.proofs+1, confirming)
	}
	if !s.Inferred {
		p.tested++
		p.spent += time.Since(p.last)
	}
	p.last = time.Now()
	share := p.share()
	eta := p.expected()
	p.mu.Unlock()
	p.line.advance(share)
	line := fmt.Sprintf("%-9s %s %-4s %s", s.Role, wording.Short(s.Commit), s.Verdict.Word(), s.Verdict.Why)
	if s.Inferred {
		line = fmt.Sprintf("%-9s %s %-4s equal inputs: %s", s.Role, wording.Short(s.Commit), s.Verdict.Word(), s.Verdict.Why)
	}
	if s.Role == "search" {
		line += fmt.Sprintf(" | %d left, %.0f %% done, %s elapsed", s.Remaining, 100*share, wording.Span(time.Since(p.began)))
		if eta > 0 && s.Remaining > 1 {
			line += fmt.Sprintf(", about %s to go", wording.Span(eta))
		}
	}
	p.Say(line)
}

// Launched shows a launch, the n-th of at most most; most is 0 if unknown.
func (p *Display) Launched(n, most int, line string) {
	if most > 0 {
		line += fmt.Sprintf(" | %d of %d, %s elapsed", n, most, wording.Span(time.Since(p.began)))
		if n < most {
			line += fmt.Sprintf(", about %s to go", wording.Span(time.Since(p.began)/time.Duration(n)*time.Duration(most-n)))
		}
	}
	if most > 0 {
		p.line.advance(float64(n) / float64(most))
	}
	p.Say(line)
}

// Say prints a line above the status line.
func (p *Display) Say(line string) {
	p.mu.Lock()
	p.told = time.Now()
	p.mu.Unlock()
	if !p.Quiet {
		fmt.Fprintln(p, words.Printable(line))
	}
}

// Warn prints a line even when progress is not wanted.
func (p *Display) Warn(line string) { fmt.Fprintln(p, "kbisect: warning: "+words.Printable(line)) }

// Write prints above the status line.
func (p *Display) Write(b []byte) (int, error) { return p.line.Write(b) }

// End removes the status line.
func (p *Display) End() { p.line.end() }

// LogHandler prints log records as lines for people.
type LogHandler struct {
	UI    *Display
	Level slog.Level
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h LogHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.Level }

// Handle implements slog.Handler.
func (h LogHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	add := func(a slog.Attr) bool {
		text += fmt.Sprintf(", %s %v", a.Key, a.Value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if r.Level >= slog.LevelWarn {
		h.UI.Warn(text)
	} else {
		fmt.Fprintln(h.UI, words.Printable(text))
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h LogHandler) WithAttrs(as []slog.Attr) slog.Handler {
	h.attrs = append(slices.Clip(h.attrs), as...)
	return h
}

// WithGroup implements slog.Handler; the pipeline has no groups.
func (h LogHandler) WithGroup(string) slog.Handler { return h }
