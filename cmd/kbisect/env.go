package main

import (
	"io"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
)

// env is what a command brings along: what it was asked for, where progress is shown, and how results are printed.
type env struct {
	Request *policy.Request
	Display *progress.Display
	Output  output
	Version string // of kbisect, kept with each session
}

// output is where results go.
type output struct {
	Stdout io.Writer
	Print  func(report.Document, report.Ledger) error // on standard output, as text or JSON
	Write  func(report.Document, report.Ledger) error // to the files that were asked for
}

// show prints a result and writes it to the files that were asked for.
func (o output) show(d report.Document, l report.Ledger) error {
	if err := o.Print(d, l); err != nil {
		return err
	}
	return o.Write(d, l)
}
