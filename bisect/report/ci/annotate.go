// Package ci writes a gate in the formats that CI systems read: JUnit, SARIF, and the annotations and outputs of a
// GitHub job. Each is made from the document of the gate alone.
package ci

import (
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Annotation is the workflow command that puts a gate on the page of a GitHub job: at most one, an error on
// the largest change of the culprit where there is a regression, a warning where nothing can be told. It is
// empty for a pass.
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
	default:
		return ""
	}
	text := g.Verdict
	switch {
	case g.Result == report.GateError:
		text = report.Text(g.Error)
	case g.Error != nil:
		text += "\n" + *g.Error
	}
	where := ""
	if g.Culprit != nil {
		text += "\n" + g.Culprit.Sentence() + ": " + g.Culprit.Subject
		if len(g.Culprit.Places) > 0 {
			p := g.Culprit.Places[0]
			where = fmt.Sprintf("file=%s,line=%d,endLine=%d,", escapeProperty(p.File), p.Start, p.End)
		}
	}
	return fmt.Sprintf("::%s %stitle=%s::%s\n", kind, where, escapeProperty(title), escapeData(words.Cut(text, 4000)))
}

// escapeData keeps a text inside one workflow command: GitHub reads a command a line, and "%" begins an escape.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// escapeProperty keeps a value inside one property of a workflow command.
func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(s))
}

// Outputs are what later steps of a job may want to know, as lines NAME=VALUE: result, ratio (of the number
// that changed most, of those that decide) and culprit; values that are not known are empty.
func Outputs(g *report.Gate) string {
	ratio, culprit := "", ""
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
