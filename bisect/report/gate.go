package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// GateSchema names the JSON document of a gate and its version.
const GateSchema = "kbisect.gate/1"

// The results of a gate and of each of its numbers. A gate may also end as "infra" or "interrupted".
const (
	GateError       = "error" // it could not begin or go on: what the user gave is wrong, or the machine
	GatePass        = "pass"  // no change for the worse as large as is looked for
	GateRegression  = "regression"
	GateImprovement = "improvement"
	GateOpen        = "cannot-tell"
	GateAccepted    = "accepted" // of a number: worse, by no more than the repository accepts
)

// Gate is what a gate came to: HEAD against the merge base with the branch that it goes into. Numbers that are not
// known are null.
type Gate struct {
	Schema      string       `json:"schema"`
	Session     *string      `json:"session"` // null: nothing was launched
	Result      string       `json:"result"`
	Verdict     string       `json:"verdict"` // the result in a sentence
	Reason      *string      `json:"reason"`  // what a regression, an improvement or a pass rests on; null for every other result
	ExitCode    int          `json:"exit_code"`
	Into        string       `json:"into"` // what the branch goes into
	Base        Candidate    `json:"base"`
	Head        Candidate    `json:"head"`
	NotLaunched *string      `json:"not_launched"` // why nothing had to be
	Accepted    []Acceptance `json:"accepted"`
	Culprit     *GateCulprit `json:"culprit"`
	Search      *GateSearch  `json:"search"`
	Changed     []Place      `json:"changed"` // by the branch, largest first, where it is not a pass
	Compared
	Facts
}

func (*Gate) schema() string { return GateSchema }

// next implements Document.
func (g *Gate) next(l Ledger) []Command {
	if g.Session == nil {
		return []Command{}
	}
	var out []Command
	again := append([]string{"gate"}, l.Call.Base()...)
	add := func(why string, args ...string) {
		out = append(out, Command{why, l.Call.Again(slices.Concat(again, args)...)})
	}
	regression := g.Result == GateRegression
	if g.Culprit != nil {
		out = append(out, Command{"", []string{"git", "show", bisect.ShortID(g.Culprit.Commit)}})
	}
	if regression && g.Culprit == nil && g.Search == nil {
		add("find the commit", "--bisect")
	}
	if regression && g.Failure == nil {
		add("accept the change", "--accept", "REASON")
	}
	if g.Result == GateOpen {
		out = append(out, settle(g.Compared, l, "HEAD", again...)...)
	}
	return append(out, every(l, *g.Session))
}

// FailedGate is the document of a gate that ended in an error, without a verdict; headline is the error in one line,
// code the exit code. CI systems get a document whatever happens.
func FailedGate(err error, headline string, code int) *Gate {
	g := &Gate{
		Schema: GateSchema, Result: GateError, Verdict: "Stopped: " + words.Printable(headline), ExitCode: code, Accepted: []Acceptance{}, Changed: []Place{},
		Compared: Compared{Contrasts: []Contrast{}, Devices: []string{}, Warnings: []string{}, Error: ErrorText(err)},
	}
	Complete(g, Ledger{})
	return g
}

// Stopped reports whether the gate ended without looking at all that it was asked about.
func (g *Gate) Stopped() bool {
	return g.Result == GateError || g.Result == "infra" || g.Result == "interrupted"
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
func (a Acceptance) Name() string { return number(a.Metric, a.Case) }

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

// Conclude says what a gate came to; why is of a result that rests on no number.
func (g *Gate) Conclude(why string) {
	in := whole(g.ErrorRate)
	g.Verdict, g.Reason = g.sentence(why, in), text(g.reason(why, in))
	g.Headline = headline(g.Compared, g.Result, why, g.sentence(why, brief))
}

// Heading is the verdict without the interval of the change that it leads with, and that change in full.
func (g *Gate) Heading() (head, change string) { return heading(g.Compared, g.Result, g.Verdict) }

func (g *Gate) sentence(why string, in wording) string {
	reason := g.reason(why, in)
	switch g.Result {
	case GateRegression:
		return "Regression: " + reason + "."
	case GateImprovement:
		return "Improvement: " + reason + "."
	case GatePass:
		if reason == "" {
			return "Pass."
		}
		return "Pass: " + reason + "."
	case "infra":
		return "Stopped: machine problem; no verdict on HEAD."
	case "interrupted":
		return "Interrupted; no verdict on HEAD."
	}
	return g.open(why, in)
}

// reason is what the verdict rests on, "" for a result that has none; failure describes how HEAD fails, where it does.
func (g *Gate) reason(failure string, in wording) string {
	switch {
	case g.NotLaunched != nil:
		return *g.NotLaunched + "; nothing was launched"
	case g.Result == GateRegression && g.Failure != nil:
		return failure
	case g.Result == GateRegression:
		return g.moved(GateRegression, in)
	case g.Result == GateImprovement:
		return g.moved(GateImprovement, in) + g.accepts()
	case g.Result != GatePass || len(g.Contrasts) == 0:
		return ""
	}
	if between := g.between(GatePass); between != "" {
		return fmt.Sprintf("no change of %s or more: %s%s", words.Percent(g.Effect), between, g.accepts())
	}
	return words.Count(len(With(GateAccepted, g.Contrasts)), "change") + " for the worse, all accepted"
}

// Improved says what got better, "" where nothing did.
func (g *Gate) Improved() string { return g.moved(GateImprovement, whole(g.ErrorRate)) }

// accepts counts what was let pass.
func (g *Gate) accepts() string {
	if n := len(With(GateAccepted, g.Contrasts)); n > 0 {
		return fmt.Sprintf("; %s for the worse accepted", words.Count(n, "change"))
	}
	return ""
}

// acceptance is the entry that let a number pass, or would have if the number were smaller; nil for none. An entry for
// all cases covers their mean only, and one for a case only that case.
func (g *Gate) acceptance(c Contrast) *Acceptance {
	for i, a := range g.Accepted {
		if a.Metric == c.Metric && (a.Case == nil) == (c.Case == nil) && Text(a.Case) == Text(c.Case) {
			return &g.Accepted[i]
		}
	}
	return nil
}

// Line is the verdict of one number: its word, and what it rests on.
func (g *Gate) Line(c Contrast) (word, why string) {
	word, why = c.Word(), c.Note(g.Effect)
	a := g.acceptance(c)
	switch {
	case a == nil:
	case c.Result == GateAccepted:
		why = fmt.Sprintf("accepted up to %s: %s", words.Change(a.Limit), words.Printable(a.Reason))
	case c.Result == GateRegression:
		why = "more than the accepted " + words.Change(a.Limit)
	}
	return word, why
}

// Word is the result of one number for people.
func (c Contrast) Word() string { return strings.ReplaceAll(c.Result, "-", " ") }

// Note says what a result rests on, besides the interval; effect is the smallest change looked for.
func (c Contrast) Note(effect float64) string {
	switch {
	case c.Result == GatePass, c.Result == NoDifference:
		return fmt.Sprintf("a change of %s is ruled out", words.Percent(effect))
	case c.Result != GateOpen:
		return ""
	case c.Why != nil:
		return words.Printable(*c.Why)
	case !c.Visible.Known():
		return fmt.Sprintf("too few pairs (%d) to show any change", c.Pairs)
	}
	return fmt.Sprintf("%s show a change of %s four times in five", words.Count(c.Pairs, "pair"), words.Percent(float64(c.Visible)))
}

// Sentence says who the culprit is and what it did.
func (c *GateCulprit) Sentence() string {
	if c.Only {
		return bisect.ShortID(c.Commit) + " is " + c.Certainty()
	}
	s := bisect.ShortID(c.Commit) + " " + words.Did(c.Class, "", c.Effect)
	if c.Confidence != nil {
		s += ", confidence " + words.Confidence(*c.Confidence)
	}
	if !c.Confirmed {
		s += ", not confirmed"
	}
	return s
}

// Certainty is how sure it is that the culprit is the one, and why.
func (c *GateCulprit) Certainty() string {
	switch {
	case c.Only:
		return "the only commit of the branch that changes the build's or run's inputs"
	case c.Confidence == nil:
		return ""
	case c.Confirmed:
		return words.Confidence(*c.Confidence) + ", confirmed by fresh launches against its parent"
	}
	return words.Confidence(*c.Confidence) + ", not confirmed"
}
