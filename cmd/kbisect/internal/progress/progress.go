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
	"os"
	"slices"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline"
)

// Display tells on standard error how far a search is: one line a judgement, and on a terminal a
// status line below them. It is also the writer of the log.
type Display struct {
	mu      sync.Mutex
	W       io.Writer
	bars    *mpb.Progress // nil without a terminal
	bar     *mpb.Bar
	Quiet   bool
	Verbose bool
	Began   time.Time

	now    map[int]doing // what is being done, by slot
	matter int
	left   int
	proofs int // judgements after the search: the culprit's, its parents'
	tested int
	spent  time.Duration // on candidates so far
	last   time.Time
	Steps  int

	Ends     map[bisect.Purpose]string // what the two ends are called
	begunEnd string                    // the end that was said to be under way
	toGo     time.Time                 // when a search will probably end, as far as it says; zero: not known
	part     time.Time                 // when a ranking began, or a search over sets knew its ends
	ended    *sets.Progress            // what such a search then expected
	Told     time.Time                 // when progress was last put into a line
}

// doing is what is done in one slot.
type doing struct {
	what  string
	since time.Time
}

// silence is how long a search may be at its launches without a line.
const silence = time.Minute

// barScale is the resolution of the share that is done.
const barScale = 1000

// New shows progress on w; on a terminal with a bar.
func New(w io.Writer, quiet, verbose bool) *Display {
	p := &Display{W: w, Quiet: quiet, Verbose: verbose, Began: time.Now(), last: time.Now(), Told: time.Now()}
	p.Ends = map[bisect.Purpose]string{bisect.EndGood: "good end", bisect.EndBad: "bad end"}
	f, ok := p.W.(*os.File)
	if !ok || p.Quiet || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(24), mpb.WithAutoRefresh())
	p.bar = p.bars.AddBar(barScale,
		mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.Percentage(), decor.Any(func(decor.Statistics) string { return " " + p.Status() })),
	)
	return p
}

// Status is what stands beside the bar.
func (p *Display) Status() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := fmt.Sprintf("%s elapsed", wording.Span(time.Since(p.Began)))
	if eta := p.expected(); eta > 0 {
		s += fmt.Sprintf(", about %s to go", wording.Span(eta))
	}
	for _, slot := range slices.Sorted(maps.Keys(p.now)) {
		s += fmt.Sprintf(" | %s, %s", p.now[slot].what, wording.Span(time.Since(p.now[slot].since)))
	}
	return s
}

// expected is the time that the rest of the search will take, by what a candidate has cost so far.
func (p *Display) expected() time.Duration {
	if !p.toGo.IsZero() {
		return max(time.Second, time.Until(p.toGo))
	}
	if p.tested == 0 || p.left == 0 {
		return 0
	}
	return time.Duration(float64(p.spent) / float64(p.tested) * (bits(p.left) + float64(confirming-p.proofs)))
}

// confirming is how many judgements follow a search: of culprit and parent, built clean.
const confirming = 2

// share is how much of a search is done, counted in judgements.
func (p *Display) share() float64 {
	return (bits(p.matter) - bits(p.left) + float64(p.proofs)) / (bits(p.matter) + confirming)
}

// bits is the number of tests that tell n suspects apart.
func bits(n int) float64 { return math.Ceil(math.Log2(float64(max(n, 1)))) }

// Begin is told how large the search is.
func (p *Display) Begin(commits, matter int) {
	p.mu.Lock()
	p.matter, p.left = matter, matter
	p.mu.Unlock()
	p.Say(fmt.Sprintf("%s in the range, %d can matter: about %s after the ends", wording.Counted(commits, "commit"), matter, wording.Counted(int(bits(matter)), "candidate")))
}

// Activity is told what the pipeline does.
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
	case first && p.bars == nil:
		p.Say(fmt.Sprintf("%-9s %s", end, now))
	}
}

// Idle is told that nothing is done in a slot any more.
func (p *Display) Idle(slot int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.now, slot)
}

// Belief is told what a search for a slow commit knows and expects. Without a terminal it is said
// when nothing else has been for a while.
func (p *Display) Belief(b judge.Progress) {
	p.expect(b.ExpectedSeconds)
	p.mu.Lock()
	still := p.bars == nil && time.Since(p.Told) > silence
	p.mu.Unlock()
	if still {
		p.Say(fmt.Sprintf("%s elapsed, about %.0f suspects, %.0f launches and %s to go", wording.Span(time.Since(p.Began)),
			b.Suspects, b.ExpectedLaunches, wording.Span(time.Duration(b.ExpectedSeconds*float64(time.Second)))))
	}
}

// Step is told a judgement.
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
	if p.bar != nil {
		p.bar.SetCurrent(int64(share * (barScale - 1)))
	}
	line := fmt.Sprintf("%-9s %s %-4s %s", s.Role, wording.Short(s.Commit), s.Verdict.Word(), s.Verdict.Why)
	if s.Inferred {
		line = fmt.Sprintf("%-9s %s %-4s equal inputs: %s", s.Role, wording.Short(s.Commit), s.Verdict.Word(), s.Verdict.Why)
	}
	if s.Role == "search" {
		line += fmt.Sprintf(" | %d left, %.0f %% done, %s elapsed", s.Remaining, 100*share, wording.Span(time.Since(p.Began)))
		if eta > 0 && s.Remaining > 1 {
			line += fmt.Sprintf(", about %s to go", wording.Span(eta))
		}
	}
	p.Say(line)
}

// Launched is told that n launches of at most most are made; most is 0 when nobody knows.
func (p *Display) Launched(n, most int, line string) {
	if most > 0 {
		line += fmt.Sprintf(" | %d of %d, %s elapsed", n, most, wording.Span(time.Since(p.Began)))
		if n < most {
			line += fmt.Sprintf(", about %s to go", wording.Span(time.Since(p.Began)/time.Duration(n)*time.Duration(most-n)))
		}
	}
	if p.bar != nil && most > 0 {
		p.bar.SetCurrent(int64(barScale-1) * int64(n) / int64(most))
	}
	p.Say(line)
}

// Say prints a line above the status line.
func (p *Display) Say(line string) {
	p.mu.Lock()
	p.Told = time.Now()
	p.mu.Unlock()
	if !p.Quiet {
		fmt.Fprintln(p, wording.Clean(line))
	}
}

// Warn prints a line even when progress is not wanted.
func (p *Display) Warn(line string) { fmt.Fprintln(p, "kbisect: warning: "+wording.Clean(line)) }

// Write prints above the status line.
func (p *Display) Write(b []byte) (int, error) {
	if p.bars != nil {
		return p.bars.Write(b)
	}
	return p.W.Write(b)
}

// End takes the status line away.
func (p *Display) End() {
	if p.bars == nil {
		return
	}
	p.bar.Abort(true)
	p.bars.Wait()
	p.bars, p.bar = nil, nil
}

// LogHandler prints what the pipeline has to say as lines for people.
type LogHandler struct {
	Ui    *Display
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
		h.Ui.Warn(text)
	} else {
		fmt.Fprintln(h.Ui, wording.Clean(text))
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
