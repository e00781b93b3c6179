package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// GateSchema names the JSON document of a gate and its version.
const GateSchema = "kbisect.gate/1"

// The results of a gate and of each of its numbers. A gate may also end as "infra" or "interrupted".
const (
	GatePass        = "pass" // no change for the worse as large as is looked for
	GateRegression  = "regression"
	GateImprovement = "improvement"
	GateOpen        = "cannot-tell"
	GateAccepted    = "accepted" // of a number: worse, by no more than the repository accepts
)

// Gate is what a gate came to: the merge base of a branch and the one that it goes into, against HEAD.
// Numbers that are not known are null.
type Gate struct {
	Schema      string       `json:"schema"`
	Session     *string      `json:"session"` // null: nothing was launched
	Result      string       `json:"result"`
	Verdict     string       `json:"verdict"` // the result in a sentence
	ExitCode    int          `json:"exit_code"`
	Into        string       `json:"into"` // what the branch goes into
	Base        Candidate    `json:"base"`
	Head        Candidate    `json:"head"`
	NotLaunched *string      `json:"not_launched"` // why nothing had to be
	Failure     *Failure     `json:"failure"`      // on which the result rests, instead of on numbers
	Effect      float64      `json:"effect"`       // smallest change looked for, as a fraction
	ErrorRate   float64      `json:"error_rate"`
	Pairs       int          `json:"pairs"`
	Contrasts   []Contrast   `json:"comparisons"` // A is the base, B is HEAD
	Accepted    []Acceptance `json:"accepted"`
	Culprit     *GateCulprit `json:"culprit"`
	Search      *GateSearch  `json:"search"`
	Changed     []Place      `json:"changed"` // by the branch, largest first, where it is not a pass
	BudgetOver  bool         `json:"budget_used_up"`
	Hopeless    bool         `json:"hopeless"` // the most pairs that may be made would not have given an answer
	Totals      Totals       `json:"totals"`
	Devices     []string     `json:"devices"`
	Warnings    []string     `json:"warnings"`
	Error       *string      `json:"error"`
}

// Acceptance is a change for the worse that the branch declares.
type Acceptance struct {
	Metric string  `json:"metric"`
	Case   *string `json:"case"` // null: all cases
	Limit  float64 `json:"limit"`
	Commit string  `json:"commit"`
	Reason string  `json:"reason"`
	Seen   bool    `json:"seen"` // a number was let pass because of it
	New    bool    `json:"new"`  // recorded just now
}

// Name is the number that may be worse.
func (a Acceptance) Name() string { return Contrast{Metric: a.Metric, Case: a.Case}.Name() }

// GateCulprit is the commit of the branch that brought the regression.
type GateCulprit struct {
	Commit     string         `json:"commit"`
	Subject    string         `json:"subject"`
	Author     string         `json:"author"`
	Date       string         `json:"date"`
	Only       bool           `json:"only_change"` // no other commit changes what build and run read: none was searched for
	Class      bisect.Class   `json:"class"`
	Effect     *bisect.Effect `json:"effect"`
	Confidence *float64       `json:"confidence"`
	Confirmed  bool           `json:"confirmed"`
	Places     []Place        `json:"places"` // that it changed, largest first
}

// Place is lines of a file as HEAD has them.
type Place struct {
	File  string `json:"file"`
	Start int    `json:"start"`
	End   int    `json:"end"`
}

// String is the place as compilers write it.
func (p Place) String() string {
	if p.Start == p.End {
		return fmt.Sprintf("%s:%d", p.File, p.Start)
	}
	return fmt.Sprintf("%s:%d-%d", p.File, p.Start, p.End)
}

// GateSearch is how the search for the culprit ended.
type GateSearch struct {
	Result   bisect.Result `json:"result"`
	Why      string        `json:"why"`
	Suspects []Candidate   `json:"suspects"`
}

// Sentence says in a sentence what a gate came to; why is of a result that rests on no number.
func (g Gate) Sentence(why string) string {
	switch {
	case g.NotLaunched != nil:
		return "Pass: " + *g.NotLaunched + "; nothing was launched."
	case g.Result == GateRegression && g.Failure != nil:
		return "Regression: " + why + "."
	case g.Result == GateRegression:
		return "Regression: " + g.most(GateRegression) + "."
	case g.Result == GateImprovement:
		return "Improvement: " + g.most(GateImprovement) + g.accepts() + "."
	case g.Result == GatePass:
		return g.pass()
	case g.Result == "infra":
		return "Stopped by machine trouble; nothing is said of HEAD."
	case g.Result == "interrupted":
		return "Interrupted; nothing is said of HEAD."
	case why != "":
		return "Cannot tell: " + why + "."
	}
	return g.open()
}

// with lists the numbers of one result, clearest first.
func (g Gate) with(result string) []Contrast {
	var out []Contrast
	for _, x := range g.Contrasts {
		if x.Result == result {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b Contrast) int { return cmp.Compare(far(b.Bound.Value), far(a.Bound.Value)) })
	return out
}

// most tells of the clearest number with a result, and names some others.
func (g Gate) most(result string) string {
	all := g.with(result)
	if len(all) == 0 {
		return "no number tells which"
	}
	s := fmt.Sprintf("%s is %s the merge base's", printable(all[0].Name()), all[0].times())
	var names []string
	for _, x := range all[1:] {
		names = append(names, printable(x.Name()))
	}
	if len(names) > 4 {
		names = append(names[:3], fmt.Sprintf("%d more", len(names)-3))
	}
	if len(names) > 0 {
		s += "; likewise " + strings.Join(names, ", ")
	}
	return s
}

// times is a ratio in words, with the interval on which the result rests.
func (c Contrast) times() string {
	if !c.Bound.Value.Known() {
		return "some times"
	}
	s := fmt.Sprintf("%.3f times", float64(c.Bound.Value))
	if c.Bound.Low.Known() && c.Bound.High.Known() && c.Bound.Low > 0 {
		s += fmt.Sprintf(" (surely %.3f to %.3f)", float64(c.Bound.Low), float64(c.Bound.High))
	}
	return s
}

func (g Gate) pass() string {
	if len(g.Contrasts) == 0 {
		return "Pass."
	}
	low, high := Number(math.Inf(1)), Number(math.Inf(-1))
	for _, x := range g.with(GatePass) {
		low, high = min(low, x.Bound.Low), max(high, x.Bound.High)
	}
	s := fmt.Sprintf("Pass: no change of %s or more", percent(g.Effect))
	if low <= high {
		what := "every number"
		switch n := len(g.with(GatePass)); {
		case n == 1:
			what = printable(g.with(GatePass)[0].Name())
		case n < len(g.Contrasts):
			what = "every other number"
		}
		s += fmt.Sprintf(": %s lies between %.3f and %.3f times the merge base's", what, float64(low), float64(high))
	} else {
		s += " that is not accepted"
	}
	return s + g.accepts() + "."
}

// accepts counts what was let pass.
func (g Gate) accepts() string {
	if n := len(g.with(GateAccepted)); n > 0 {
		return fmt.Sprintf("; %s for the worse accepted", count(n, "change"))
	}
	return ""
}

// open says what can neither be shown nor ruled out, and what the launches could have shown.
func (g Gate) open() string {
	all := g.with(GateOpen)
	if len(all) == 0 {
		return "Cannot tell: there are no numbers to compare."
	}
	widest := slices.MaxFunc(all, func(a, b Contrast) int { return cmp.Compare(a.width(), b.width()) })
	s := fmt.Sprintf("Cannot tell: after %s a change of %s in %s can be neither shown nor ruled out", count(g.Pairs, "pair"), percent(g.Effect), printable(widest.Name()))
	if len(all) > 1 {
		s += fmt.Sprintf(", nor in %s", others(len(all)-1))
	}
	if widest.Visible.Known() {
		s += fmt.Sprintf("; so many pairs show one of %s four times in five", widest.visible())
	} else {
		s += "; so few pairs show none, however large"
	}
	switch {
	case g.BudgetOver:
		s += "; the budget is used up"
	case g.Hopeless:
		s += "; on this machine, as noisy as it is now, many more pairs would not do either"
	}
	return s + "."
}

// width is how much a number is uncertain.
func (c Contrast) width() float64 {
	if !c.Bound.Low.Known() || !c.Bound.High.Known() || c.Bound.Low <= 0 {
		return math.Inf(1)
	}
	return math.Log(float64(c.Bound.High / c.Bound.Low))
}

// acceptance is what let a number pass, or would have if it were less.
func (g Gate) acceptance(c Contrast) *Acceptance {
	for i, a := range g.Accepted {
		if a.Metric == c.Metric && (a.Case == nil) == (c.Case == nil) && (a.Case == nil || *a.Case == *c.Case) {
			return &g.Accepted[i]
		}
	}
	return nil
}

// line is the verdict of one number: its word, and what it rests on.
func (g Gate) line(c Contrast) (word, why string) {
	a := g.acceptance(c)
	switch c.Result {
	case GatePass:
		return "pass", c.ratio() + fmt.Sprintf(", a change of %s is ruled out", percent(g.Effect))
	case GateAccepted:
		why = c.ratio()
		if a != nil {
			why += fmt.Sprintf(", accepted up to %.4g: %s", a.Limit, printable(a.Reason))
		}
		return "accepted", why
	case GateOpen:
		if c.Why != nil {
			return "cannot tell", printable(*c.Why)
		}
		if !c.Visible.Known() {
			return "cannot tell", fmt.Sprintf("%s, too few pairs (%d) to show any change", c.ratio(), c.Pairs)
		}
		return "cannot tell", fmt.Sprintf("%s, %s show a change of %s four times in five", c.ratio(), count(c.Pairs, "pair"), c.visible())
	case GateRegression:
		why = c.ratio()
		if a != nil {
			why += fmt.Sprintf(", more than the %.4g that is accepted", a.Limit)
		}
		return "regression", why
	}
	return c.Result, c.ratio()
}

// ratio is HEAD over the base with the interval on which the result rests.
func (c Contrast) ratio() string {
	b := c.Bound
	switch {
	case !b.Value.Known():
		return "-"
	case !b.Low.Known() || !b.High.Known() || b.Low <= 0:
		return fmt.Sprintf("%.3f", float64(b.Value))
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", float64(b.Value), float64(b.Low), float64(b.High))
}

// sentence says who the culprit is.
func (c GateCulprit) sentence() string {
	if c.Only {
		return fmt.Sprintf("%s is the only commit of the branch that changes what build and run read", short(c.Commit))
	}
	s := fmt.Sprintf("%s is the first bad commit", short(c.Commit))
	if c.Confidence != nil {
		s += fmt.Sprintf(", %s sure", sure(*c.Confidence))
	}
	if c.Effect != nil {
		s += ": " + effectWords(*c.Effect)
	}
	if !c.Confirmed {
		s += "; not confirmed"
	}
	return s
}
