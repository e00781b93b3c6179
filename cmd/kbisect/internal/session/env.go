package session

import (
	"context"
	"io"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/pipeline/stopwatch"
)

// Env is what a command hands to a session: the request, where progress is shown, and how results are printed.
// Sessions know the terminal and the command line only through it.
type Env struct {
	Request *policy.Request
	Display *progress.Display
	Output  Output
	// Ask puts a question to a user at a terminal; asked is false if there is none.
	Ask     func(ctx context.Context, question string) (answer string, asked bool, err error)
	Version string           // of kbisect, stored with each session
	Watch   *stopwatch.Watch // runs since the command began

	Sampler func(*Session) bisect.Sampler // makes the launches, for tests; nil: the pipelines of this machine
}

// Output is where results go.
type Output struct {
	Stdout io.Writer
	Print  func(report.Document, report.Ledger) error // on standard output, as text or JSON
	Write  func(report.Document, report.Ledger) error // to the files that were asked for
}

// Show prints a result and writes it to the files that were asked for.
func (o Output) Show(d report.Document, l report.Ledger) error {
	if err := o.Print(d, l); err != nil {
		return err
	}
	return o.Write(d, l)
}
