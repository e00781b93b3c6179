package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/kbisect/kbisect/bisect/report/words"
)

// liveArea is the two lines at the foot of a terminal, a bar and what is being done, and the writer for what is
// printed above them. Without a terminal it is only that writer.
type liveArea struct {
	mu    sync.Mutex
	out   io.Writer     // prints above the bar; the same as plain without one
	plain io.Writer     // what the display was made on
	bars  *mpb.Progress // nil while no area is drawn
	bar   *mpb.Bar
}

// barScale is the resolution of the bar.
const barScale = 1000

// draw begins the area if the writer is a terminal. It calls share (0 to 1) and the texts at every refresh, from a
// goroutine of the bar, so that the bar moves with the clock.
func (l *liveArea) draw(share func() float64, beside, below func() string) {
	f, ok := words.Raw(l.plain).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return
	}
	moving := func(bar mpb.BarFiller) mpb.BarFiller {
		return mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			s.Current = int64(share() * (barScale - 1))
			return bar.Fill(w, s)
		})
	}
	second := func(w io.Writer, s decor.Statistics) error {
		_, err := fmt.Fprintln(w, runewidth.Truncate(words.Printable(below()), s.AvailableWidth, "…"))
		return err
	}
	bars := mpb.New(mpb.WithOutput(f), mpb.WithWidth(16), mpb.WithAutoRefresh())
	bar := bars.AddBar(barScale, mpb.BarFillerMiddleware(moving), mpb.BarExtender(mpb.BarFillerFunc(second), false),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return words.Printable(beside()) })))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bars, l.bar, l.out = bars, bar, words.NewWriter(bars)
}

// drawn reports whether there is an area.
func (l *liveArea) drawn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bars != nil
}

// fit breaks a line at words if it is wider than the terminal.
func (l *liveArea) fit(line string) string {
	f, ok := words.Raw(l.plain).(*os.File)
	if !ok {
		return line
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return line
	}
	return strings.Join(words.Wrapped(line, width, 0), "\n")
}

// Write prints above the area.
func (l *liveArea) Write(b []byte) (int, error) {
	l.mu.Lock()
	out := l.out
	l.mu.Unlock()
	return out.Write(b)
}

// end removes the area, waits until the bar's goroutine has stopped, and reports whether there was one.
func (l *liveArea) end() bool {
	l.mu.Lock()
	bars, bar := l.bars, l.bar
	l.mu.Unlock()
	if bars == nil {
		return false
	}
	bar.Abort(true)
	bars.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bars, l.bar, l.out = nil, nil, l.plain
	return true
}
