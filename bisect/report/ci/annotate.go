// Package ci writes a gate in the formats that CI systems read: [JUnit], [SARIF], and the annotations and outputs of a
// GitHub job ([Annotation], [Outputs]). Each is made from the document of the gate alone, and whether it passes agrees
// with the exit code of the gate, whichever of them a job looks at. The package must not know how the gate was run.
//
// Texts of a document may come from strangers (subjects, names of cases, output of programs): each format escapes them.
package ci

import (
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// mostAnnotated is the most characters of an annotation: the runner of GitHub Actions cuts a message at 4,096
// (_maxIssueMessageLength in actions/runner).
const mostAnnotated = 4000

// Annotation is the workflow command that puts a gate on the page of a GitHub job, with its line feed; "" for a pass.
// There is at most one: an error on the largest change of the culprit where there is a regression, a warning where
// nothing can be told. Without a culprit it is about the job as a whole.
func Annotation(g *report.Gate) string {
	kind, title := "", ""
	switch g.Result {
	case report.GateRegression:
		kind, title = "error", "kbisect: regression"
	case report.GateOpen:
		kind, title = "warning", "kbisect: cannot tell"
	case report.GateError:
		kind, title = "error", "kbisect: error"
	case "infra":
		kind, title = "error", "kbisect: machine problem"
	default: // a pass, or an interruption: there is nothing to point at
		return ""
	}
	text := g.Verdict
	switch {
	case g.Result == report.GateError:
		text = report.Text(g.Error)
	case g.Error != nil:
		text += "\n" + *g.Error
	}
	// Without a place GitHub shows the annotation on the page of the job.
	where := ""
	if g.Culprit != nil {
		text += "\n" + g.Culprit.Sentence() + ": " + g.Culprit.Subject
		if len(g.Culprit.Places) > 0 {
			p := g.Culprit.Places[0]
			where = fmt.Sprintf("file=%s,line=%d,endLine=%d,", escapeProperty(p.File), p.Start, p.End)
		}
	}
	return fmt.Sprintf("::%s %stitle=%s::%s\n", kind, where, escapeProperty(title), escapeData(words.Cut(text, mostAnnotated)))
}

// escapeData keeps a text inside one workflow command: GitHub reads one command a line, and "%" begins an escape.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// escapeProperty keeps a value inside one property of a workflow command, where ":" and "," separate.
func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(s))
}

// Outputs are what later steps of a GitHub job may want to know, as lines NAME=VALUE: the result, the ratio of HEAD to
// the base for the number that decided it, and the id of the culprit. Values that are not known are empty.
func Outputs(g *report.Gate) string {
	ratio, culprit := "", ""
	// The numbers with the weightiest result decide; among them the first, which has changed most.
	for _, result := range []string{report.GateRegression, report.GateOpen, report.GateAccepted, report.GateImprovement, report.GatePass} {
		if all := report.With(result, g.Contrasts); len(all) > 0 {
			if v := all[0].Bound.Value; v.Known() {
				ratio = fmt.Sprintf("%.4f", float64(v))
			}
			break
		}
	}
	if g.Culprit != nil {
		culprit = g.Culprit.Commit
	}
	result := g.Result
	if result == "infra" { // a step asks whether there is a verdict, not why there is none
		result = report.GateError
	}
	return fmt.Sprintf("result=%s\nratio=%s\nculprit=%s\n", result, ratio, culprit)
}
