package gate

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/ci"
	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/render"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// Files are the paths of the files that a gate writes; "" is none. Relative paths are relative to the directory in
// which kbisect runs, not to the repository.
type Files struct {
	JUnit, Markdown, HTML, SARIF string
	GitHub                       bool   // print an annotation
	Summary, Outputs             string // files of a GitHub job; both are appended to
}

// mostSummary is the size, in bytes, above which GitHub drops a step summary.
const mostSummary = 1 << 20

// check refuses paths that could not be written. Those that GitHub names are not checked: it makes these files itself,
// and failing to append to them is only a warning.
func (f Files) check() error {
	return cmp.Or(session.CheckFile("junit", f.JUnit), session.CheckFile("markdown", f.Markdown), session.CheckFile("report", f.HTML), session.CheckFile("sarif", f.SARIF))
}

// write writes all files and, for GitHub, the annotation. A file that cannot be written is a warning, and the others
// are written all the same: a full disk must not hide a regression. The error has the exit code of machine trouble and
// no text.
func (f Files) write(g *report.Gate, l report.Ledger, ui *progress.Display, version string) error {
	failed := false
	p := page.New(g, l)
	// The content comes first, so that an old file is not emptied for a document that cannot be rendered.
	put := func(file string, content func(io.Writer) error) {
		if file == "" {
			return
		}
		var b bytes.Buffer
		err := content(&b)
		if err == nil {
			err = os.WriteFile(file, b.Bytes(), 0o666)
		}
		if err != nil {
			failed = true
			ui.Warn(fmt.Sprintf("%s could not be written: %v", file, err))
		}
	}
	put(f.JUnit, func(w io.Writer) error { return ci.JUnit(w, g) })
	put(f.SARIF, func(w io.Writer) error { return ci.SARIF(w, g, version) })
	put(f.Markdown, func(w io.Writer) error { return render.Markdown(w, p, mostSummary) })
	put(f.HTML, func(w io.Writer) error { return render.HTML(w, p) })
	if f.GitHub {
		f.tellGitHub(g, p, ui)
	}
	if failed {
		return exit.With(exit.Machine, nil) // already reported; the exit code of a regression takes precedence
	}
	return nil
}

// Fail writes all files for a gate that ended with an error; without one, and after an interrupt, it does nothing. A CI
// that finds no JUnit file would show a pass, or nothing.
func (f Files) Fail(err error, code int, ui *progress.Display, version string) {
	if err == nil || code == exit.Interrupted {
		return
	}
	f.write(report.FailedGate(err, wording.Headline(err.Error()), code), report.Ledger{}, ui, version)
}

// tellGitHub writes the annotation, which GitHub reads from standard error too, the step summary and the outputs of a
// job. Errors are warnings and do not change the result.
func (f Files) tellGitHub(g *report.Gate, p page.Page, ui *progress.Display) {
	if a := ci.Annotation(g); a != "" {
		ui.End()
		io.WriteString(ui, a)
	}
	if f.Summary != "" {
		room := int64(mostSummary)
		if info, err := os.Stat(f.Summary); err == nil {
			room -= info.Size()
		}
		var text strings.Builder
		if room > 0 { // 0 would be no limit
			render.Markdown(&text, p, int(room)) // cannot fail: it writes into memory
		}
		if text.Len() == 0 {
			ui.Warn("the step summary is full: earlier steps have used its 1 MiB")
		}
		if err := appendTo(f.Summary, text.String()); err != nil {
			ui.Warn("the step summary could not be written: " + err.Error())
		}
	}
	if f.Outputs != "" {
		if err := appendTo(f.Outputs, ci.Outputs(g)); err != nil {
			ui.Warn("the outputs of the step could not be written: " + err.Error())
		}
	}
}

// appendTo appends to a file of a GitHub job, to which other steps may have written before.
func appendTo(file, text string) error {
	w, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return cmp.Or(err, w.Close())
}
