// Package progress shows on one writer how far a run is. A [Display] prints a line for each judgement and, on a
// terminal, keeps a live area below them: a bar in expected seconds, and what is being done. It is also the writer
// of the log ([LogHandler]), so that no line cuts through the bar. It is told what happens and decides nothing;
// nothing may depend on what it shows.
package progress

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline"
)

// Display shows how far a run is. Its methods may be called from several goroutines; Quiet, Verbose and Ends
// are set before that.
type Display struct {
	mu      sync.Mutex
	area    liveArea
	Quiet   bool // print warnings only
	Verbose bool // print what the pipeline does, too

	now   map[int]doing // what is being done, by slot
	Steps int           // judgements or tests so far
	pace  pace

	launches int     // that were made
	device   float64 // seconds that they took
	price    float64 // of a device hour; 0: not known
	proof    proof
	within   string          // "flags: " and the like, shown before the share; "" for commits
	verified map[string]bool // verifying tests that were printed; without a bar, repetitions are only counted

	Ends     map[bisect.Purpose]string // names of the two ends
	begunEnd string                    // the end whose first launch was announced last
	part     time.Time                 // when a ranking began, or when a search over sets had tested its ends
	ended    *sets.Progress            // what that search expected then
	told     time.Time                 // when the last line was printed
	foretold time.Time                 // when a line last said how much is left
}

// proof is the launches that verify an answer. On a terminal they are counted and not listed.
type proof struct {
	made, left, fails int
	last              bisect.TrialID
}

// String is how far they are.
func (x proof) String() string { return fmt.Sprintf("confirming: %d of %d", x.made, x.made+x.left) }

// doing is the work in one slot.
type doing struct {
	what, candidate string
	since           time.Time
}

// silence is how long a search may go on without a line, and lines without saying how much is left. A forecast that
// is shown more often seems to jump.
const silence = time.Minute

// settled is how long a search goes on before a line says how much is left: the first launches, with their builds,
// say little about those to come.
const settled = 10 * time.Second

// New returns a display on w, with a bar if w is a terminal and quiet is not set. The caller calls End.
func New(w io.Writer, quiet, verbose bool) *Display {
	p := &Display{area: liveArea{out: w, plain: w}, Quiet: quiet, Verbose: verbose, pace: pace{began: time.Now()}, told: time.Now(), verified: map[string]bool{}}
	p.Ends = map[bisect.Purpose]string{bisect.EndGood: "good end", bisect.EndBad: "bad end"}
	if !p.Quiet {
		draw(p)
	}
	return p
}

// Without calls do while a display shows no live area, for programs that write to the terminal themselves.
func Without(p *Display, do func()) {
	drawn := p.area.end()
	do()
	if drawn {
		draw(p)
	}
}

// draw begins the live area of a display.
func draw(p *Display) {
	p.area.draw(func() float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.pace.now()
	}, p.status, p.running)
}

// status is the text beside the bar.
func (p *Display) status() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	share := p.pace.now()
	s := fmt.Sprintf("%s%.0f %%, %s elapsed", p.within, math.Floor(100*share), wording.Span(time.Since(p.pace.began)))
	if eta := p.pace.expected(); eta > 0 {
		s += fmt.Sprintf(", about %s to go", wording.Span(eta))
	}
	if p.launches > 0 {
		s += ", " + words.Count(p.launches, "launch")
	}
	if p.price > 0 {
		s += fmt.Sprintf(", price %.3g", p.device/3600*p.price)
	}
	return s
}

// running is the text below the bar.
func (p *Display) running() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var parts []string
	if p.proof.made > 0 {
		parts = append(parts, p.proof.String())
	}
	for _, slot := range slices.Sorted(maps.Keys(p.now)) {
		x := p.now[slot] // the phase first: a terminal may have no room for all flags of a candidate
		parts = append(parts, fmt.Sprintf("%s, %s: %s", x.what, wording.Span(time.Since(x.since)), x.candidate))
	}
	return "  " + strings.Join(parts, " | ")
}

// Launch takes in a launch, and the price of a device hour, 0 if unknown. One that was taken over from another
// session or commit cost nothing and is left out.
func (p *Display) Launch(o bisect.Outcome, price float64) {
	if o.From != "" || o.Shared != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.launches, p.device, p.price = p.launches+1, p.device+o.Wall, price
	p.pace.made()
}

// Begin starts a search among commits, of which matter can be the culprit.
func (p *Display) Begin(commits, matter int) {
	p.Say(fmt.Sprintf("%s in the range, %d to search: about %s after those of the two ends", words.Count(commits, "commit"), matter, words.Count(int(bits(matter)), "test")))
}

// Activity shows what the pipeline does. With Verbose each is a line; else only the first of each end is, and the
// others appear in the live area.
func (p *Display) Activity(a pipeline.Activity) {
	p.mu.Lock()
	what, candidate := a.Doing, a.Request.Candidate.Brief()
	if a.Limit > 0 {
		what += fmt.Sprintf(" (limit %s)", words.Limit(a.Limit.Seconds()))
	}
	now := candidate + ": " + what
	if p.now == nil {
		p.now = map[int]doing{}
	}
	if p.now[a.Slot] = (doing{what, candidate, time.Now()}); a.Slot > 0 {
		now = fmt.Sprintf("slot %d: %s", a.Slot+1, now)
	}
	switch r := a.Request; {
	case r.Purpose != bisect.ConfirmCulprit && r.Purpose != bisect.ConfirmParent:
		if p.proof.last != (bisect.TrialID{}) {
			p.proof = proof{}
		}
	case p.proof.last != r.ID():
		p.proof.last, p.proof.made, p.proof.left = r.ID(), p.proof.made+1, max(p.proof.left-1, 0)
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
	case first && !p.area.drawn():
		p.Say(fmt.Sprintf("%-9s %s", end, now))
	}
}

// Idle says that a slot has nothing more to do.
func (p *Display) Idle(slot int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.now, slot)
}

// Belief takes in what a search knows and expects. The reason for taking longer than was said is printed. Without a
// terminal the forecast is printed, too, after a minute of silence.
func (p *Display) Belief(b search.Progress) {
	p.mu.Lock()
	if b.Reason != "" {
		p.pace.least = 0
	}
	p.pace.done, p.pace.toGo = max(p.pace.done, b.Done), time.Now().Add(time.Duration(b.ExpectedSeconds*float64(time.Second)))
	eta := p.pace.expected()
	p.pace.reach(p.pace.done, b.ExpectedLaunches, eta)
	if p.proof.last != (bisect.TrialID{}) {
		p.proof.left = int(math.Round(b.ExpectedLaunches - b.Later))
	}
	still := !p.area.drawn() && time.Since(p.told) > silence
	p.mu.Unlock()
	switch left := fmt.Sprintf("about %s and %s to go", launches(b.ExpectedLaunches), wording.Span(eta)); {
	case b.Reason != "":
		p.Say(fmt.Sprintf("%s now: %s", left, reason(b.Reason)))
	case still:
		p.Say(fmt.Sprintf("%s elapsed, %s left, %s", wording.Span(time.Since(p.pace.began)), words.Count(int(math.Round(b.Suspects)), "suspect"), left))
	}
}

// reason is why a search takes longer, in words.
func reason(r search.Reason) string {
	switch r {
	case search.FindsMore:
		return "other culprits are looked for"
	case search.Contradicted:
		return "launches contradict earlier ones, which are repeated"
	case search.Intermittent:
		return "the complaint does not come in every launch"
	case search.Noisier:
		return "the launches vary more than those before"
	case search.Slower:
		return "the launches take longer than those before"
	}
	return "the launches so far settled less than expected"
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
	share, eta := p.pace.done, p.pace.expected()
	p.mu.Unlock()
	line := fmt.Sprintf("%-9s %s %-4s %s", s.Role, bisect.ShortID(s.Commit), s.Verdict.Word(), s.Verdict.Why)
	if s.Role == "search" {
		if s.Remaining == 1 {
			eta = 0
		}
		line += fmt.Sprintf(" | %d left, %s", s.Remaining, far(p, share, eta))
	}
	p.Say(line)
}

// Launched shows a launch, the n-th (from 1) of at most most; most is 0 if unknown.
func (p *Display) Launched(n, most int, line string) {
	if most > 0 {
		elapsed := time.Since(p.pace.began)
		rest := elapsed / time.Duration(n) * time.Duration(most-n)
		line += fmt.Sprintf(" | %d of %d, %s", n, most, far(p, float64(n)/float64(most), rest))
		p.mu.Lock()
		p.pace.reach(float64(n)/float64(most), float64(most-n), rest)
		p.mu.Unlock()
	}
	p.Say(line)
}

// far is how long the work has taken and, once a minute if no bar shows it, how much is done and left. eta is 0 if
// unknown.
func far(p *Display, share float64, eta time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := wording.Span(time.Since(p.pace.began)) + " elapsed"
	if eta <= 0 || p.area.drawn() || time.Since(p.pace.began) < settled || !p.foretold.IsZero() && time.Since(p.foretold) < silence {
		return text
	}
	p.foretold = time.Now()
	return fmt.Sprintf("%.0f %% done, %s, about %s to go", 100*share, text, wording.Span(eta))
}

// Say prints a line above the live area.
func (p *Display) Say(line string) {
	p.mu.Lock()
	p.told = time.Now()
	p.mu.Unlock()
	if !p.Quiet {
		fmt.Fprintln(p, p.area.fit(words.Printable(line)))
	}
}

// Warn prints a warning, even if progress is not wanted.
func (p *Display) Warn(line string) { fmt.Fprintln(p, "kbisect: warning: "+words.Printable(line)) }

// Write prints above the live area.
func (p *Display) Write(b []byte) (int, error) { return p.area.Write(b) }

// End removes the live area. The display may still be written to.
func (p *Display) End() {
	p.confirmed()
	p.area.end()
}

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
