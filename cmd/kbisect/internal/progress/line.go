package progress

import (
	"io"
	"os"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/kbisect/kbisect/bisect/report/words"
)

// statusLine is a bar with a text beside it, on a terminal, and what is printed above it.
type statusLine struct {
	mu    sync.Mutex
	out   io.Writer // above the bar, where there is one
	plain io.Writer
	bars  *mpb.Progress // nil where none is drawn
	bar   *mpb.Bar
	done  int64
}

// barScale is the resolution of the bar.
const barScale = 1000

// draw begins the line with its text, on a terminal.
func (l *statusLine) draw(status func() string) {
	f, ok := words.Raw(l.plain).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return
	}
	bars := mpb.New(mpb.WithOutput(f), mpb.WithWidth(24), mpb.WithAutoRefresh())
	bar := bars.AddBar(barScale,
		mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.Percentage(), decor.Any(func(decor.Statistics) string { return " " + words.Printable(status()) })),
	)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bars, l.bar, l.out = bars, bar, words.NewWriter(bars)
	bar.SetCurrent(l.done)
}

func (l *statusLine) drawn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bars != nil
}

// advance moves the bar to a share of the work.
func (l *statusLine) advance(share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done = int64(share * (barScale - 1)); l.bar != nil {
		l.bar.SetCurrent(l.done)
	}
}

// Write prints above the line.
func (l *statusLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	out := l.out
	l.mu.Unlock()
	return out.Write(b)
}

// end removes the line, and reports that there was one.
func (l *statusLine) end() bool {
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
