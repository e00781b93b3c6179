package session

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
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
	Ask       func(ctx context.Context, question string) (answer string, asked bool, err error)
	Version   string           // of kbisect, stored with each session
	Stopwatch *stopwatch.Watch // runs since the command began

	Sampler func(*Session) bisect.Sampler // makes the launches, for tests; nil: the pipelines of this machine
}

// CheckFile refuses a path at which an option could not write its file, before hours of launches and not after
// them. "" writes nothing, and - is standard output.
func CheckFile(option, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return exit.Usagef("--%s %s is a folder\nhint: name a file in it", option, path)
	}
	if folder, err := os.Stat(filepath.Dir(path)); err != nil || !folder.IsDir() {
		return exit.Usagef("--%s %s: folder %[3]s does not exist\nhint: mkdir -p %[3]s", option, path, filepath.Dir(path))
	}
	return nil
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
