package report

import (
	"fmt"
	"strings"
)

// Annotation is the workflow command that puts a gate on the page of a GitHub job: at most one, an error on
// the largest change of the culprit where there is a regression, a warning where nothing can be told. It is
// empty for a pass.
func (g Gate) Annotation() string {
	kind, title := "", ""
	switch g.Result {
	case GateRegression:
		kind, title = "error", "kbisect: regression"
	case GateOpen:
		kind, title = "warning", "kbisect: cannot tell"
	case "infra":
		kind, title = "error", "kbisect: machine trouble"
	default:
		return ""
	}
	text := g.Verdict
	if g.Error != nil {
		text += "\n" + *g.Error
	}
	where := ""
	if g.Culprit != nil {
		text += "\n" + g.Culprit.sentence() + ": " + g.Culprit.Subject
		if len(g.Culprit.Places) > 0 {
			p := g.Culprit.Places[0]
			where = fmt.Sprintf("file=%s,line=%d,endLine=%d,", escapeProperty(p.File), p.Start, p.End)
		}
	}
	return fmt.Sprintf("::%s %stitle=%s::%s\n", kind, where, escapeProperty(title), escapeData(cut(text, 4000)))
}

// escapeData keeps a text inside one workflow command.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// escapeProperty keeps a value inside one property of a workflow command.
func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(s))
}

// Outputs are what later steps of a job may want to know, as lines NAME=VALUE: result, ratio (of the number
// that changed most, of those that decide) and culprit; values that are not known are empty.
func (g Gate) Outputs() string {
	ratio, culprit := "", ""
	for _, result := range []string{GateRegression, GateOpen, GateAccepted, GateImprovement, GatePass} {
		if all := g.with(result); len(all) > 0 {
			if v := all[0].Bound.Value; v.Known() {
				ratio = fmt.Sprintf("%.4f", float64(v))
			}
			break
		}
	}
	if g.Culprit != nil {
		culprit = g.Culprit.Commit
	}
	return fmt.Sprintf("result=%s\nratio=%s\nculprit=%s\n", g.Result, ratio, culprit)
}
