package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// ComparisonSchema names the JSON document of a comparison and its version.
const ComparisonSchema = "kbisect.comparison/1"

// Comparison is two candidates set against each other. Numbers that are not known are null.
type Comparison struct {
	Schema     string    `json:"schema"`
	Session    string    `json:"session"`
	Result     string    `json:"result"`  // regression, improvement, no-difference, cannot-tell, infra, interrupted
	Verdict    string    `json:"verdict"` // the result in a sentence
	SameCommit bool      `json:"same_commit"`
	A          Candidate `json:"a"`
	B          Candidate `json:"b"`
	Compared
	Facts
}

// Compared is what a comparison and a gate rest on; in the JSON its keys stand among theirs.
type Compared struct {
	Headline   *string    `json:"headline"` // the verdict without the interval of the change that it leads with; null where it leads with none
	Failure    *Failure   `json:"failure"`  // on which the result rests, instead of on numbers
	Effect     float64    `json:"effect"`   // smallest change looked for, as a fraction
	ErrorRate  float64    `json:"error_rate"`
	Pairs      int        `json:"pairs"`
	Contrasts  []Contrast `json:"comparisons"` // of a gate A is the base, B is HEAD
	BudgetOver bool       `json:"budget_used_up"`
	Hopeless   bool       `json:"hopeless"` // the most pairs that may be made would not have given an answer
	Totals     Totals     `json:"totals"`
	Devices    []string   `json:"devices"`
	Warnings   []string   `json:"warnings"`
	Error      *string    `json:"error"`
}

func (*Comparison) schema() string { return ComparisonSchema }

// about implements Document.
func (s *Compared) about() subject {
	metric, higher := s.main()
	return subject{totals: s.Totals, devices: s.Devices, metric: metric, higher: higher}
}

// main is the metric that moved farthest, and which values of it are better.
func (s Compared) main() (metric string, higher bool) {
	for _, result := range []string{GateRegression, GateImprovement, GateAccepted} {
		if all := With(result, s.Contrasts); len(all) > 0 {
			return all[0].Metric, all[0].Higher
		}
	}
	if len(s.Contrasts) > 0 {
		return s.Contrasts[0].Metric, s.Contrasts[0].Higher
	}
	return "", false
}

// next implements Document. After a regression it proposes the search that goes on from there.
func (d *Comparison) next(l Ledger) []Command {
	out := []Command{every(l, d.Session)}
	switch {
	case d.Result == GateRegression && d.FlagsDiffer():
		return append(out, Command{"which flags, and what you can keep", l.Call.Again("run", "--axis", "flags", "--bad", bisect.ShortID(d.B.Commit))})
	case d.Result == GateRegression && d.A.Commit != d.B.Commit:
		return append(out, Command{"which commit between them it was", l.Call.Again("run", "--good", d.A.Revision, "--bad", d.B.Revision)})
	case d.Result == GateOpen:
		return append(settle(d.Compared, l, d.A.Revision, "compare", d.A.Revision, d.B.Revision), out...)
	}
	return out
}

// settle is what may lead to a verdict where there is none: the same command again, or a look at one of the revisions.
// Where launches failed, or sent no numbers, they are to be looked at instead.
func settle(s Compared, l Ledger, revision string, again ...string) []Command {
	switch {
	case s.BudgetOver:
		return []Command{{"or a larger --effect", l.Call.Again(append(again, "--budget", "30m")...)}}
	case s.Hopeless:
		return []Command{{"how the times vary", l.Call.Again("measure", "--launches", "30", revision)}}
	}
	return nil
}

// NoDifference is the result of a comparison, or of one of its metrics, that rules out a change as large as is
// looked for. The others are those of a gate.
const NoDifference = "no-difference"

// Contrast is the comparison of one metric, of one case or of all.
type Contrast struct {
	Metric   string   `json:"metric"`
	Case     *string  `json:"case"`      // null: all cases together
	AllCases bool     `json:"all_cases"` // the geometric mean over the cases, where there are several
	Unit     string   `json:"unit"`
	Higher   bool     `json:"higher_is_better"`
	Result   string   `json:"result"`
	Pairs    int      `json:"pairs"`
	A        Summary  `json:"a"`
	B        Summary  `json:"b"`
	Ratio    Estimate `json:"ratio"`        // of the medians, B over A: 95 % bootstrap interval over launches
	Bound    Estimate `json:"bound"`        // of the ratio: holds with the error rate however often one looked
	P        Number   `json:"p"`            // Mann-Whitney, two-sided
	Holm     Number   `json:"p_holm"`       // corrected for the number of comparisons
	Doubt    Number   `json:"p_sequential"` // corrected for the looks as well: what the result rests on
	Visible  Number   `json:"smallest_visible"`
	Why      *string  `json:"why"` // there is no answer, where it is not for want of pairs
}

// Name is the metric with its case.
func (c Contrast) Name() string {
	if c.Overall() {
		return c.Metric + ", all cases"
	}
	return number(c.Metric, c.Case)
}

// Change is B against A with the interval on which the result rests, which holds with an error rate, and which values
// are better.
func (c Contrast) Change(errorRate float64) string {
	b := c.Bound
	return words.Interval(float64(b.Value), float64(b.Low), float64(b.High), 1-errorRate) + ", " + words.Better(c.Higher)
}

// distance is how far a ratio is from no change, in either direction, as a logarithm; an unknown one is not far.
func distance(n Number) float64 {
	if d := math.Abs(math.Log(float64(n))); !math.IsNaN(d) {
		return d
	}
	return 0
}

// width is how uncertain a number is: the logarithm of the ratio of its bounds, without limit where one is open.
func (c Contrast) width() float64 {
	if !c.Bound.Low.Known() || !c.Bound.High.Known() || c.Bound.Low <= 0 {
		return math.Inf(1)
	}
	return math.Log(float64(c.Bound.High / c.Bound.Low))
}

// With lists the contrasts of one result, those that moved farthest first.
func With(result string, all []Contrast) []Contrast {
	out := slices.DeleteFunc(slices.Clone(all), func(c Contrast) bool { return c.Result != result })
	slices.SortStableFunc(out, func(a, b Contrast) int { return cmp.Compare(distance(b.Bound.Value), distance(a.Bound.Value)) })
	return out
}

// Overall reports a contrast of all cases together.
func (c Contrast) Overall() bool { return c.Case == nil && c.AllCases }

// lead picks the contrast that a sentence about a result names first: of undecided ones the most uncertain, else the
// one over all cases, else the one that moved farthest. There is none for a result that names none.
func lead(result string, all []Contrast) (c Contrast, ok bool) {
	all = With(result, all)
	if len(all) == 0 {
		return c, false
	}
	switch result {
	case GateOpen:
		return slices.MaxFunc(all, func(a, b Contrast) int { return cmp.Compare(a.width(), b.width()) }), true
	case GateRegression, GateImprovement:
		return all[max(0, slices.IndexFunc(all, Contrast.Overall))], true
	}
	return c, false
}

// wording is how a sentence gives the change of the contrast that it leads with.
type wording func(Contrast) string

// whole words a change with its interval, see [Contrast.Change].
func whole(errorRate float64) wording {
	return func(c Contrast) string { return c.Change(errorRate) }
}

// brief words a change without its interval.
func brief(c Contrast) string { return words.Change(float64(c.Bound.Value)) }

// moved names what moved of the contrasts with a result; "" where there are none.
func (s Compared) moved(result string, in wording) string {
	first, ok := lead(result, s.Contrasts)
	if !ok {
		return ""
	}
	all := With(result, s.Contrasts)
	out := words.Printable(first.Name()) + " " + in(first)
	switch {
	case len(all) == 1:
		return out
	case !first.Overall():
		return fmt.Sprintf("%d of %d metrics, most of all %s", len(all), len(s.Contrasts), out)
	}
	singles, moved := slices.DeleteFunc(slices.Clone(s.Contrasts), Contrast.Overall), slices.DeleteFunc(all, Contrast.Overall)
	if len(moved) > 0 {
		out += fmt.Sprintf("; %d of %s, most %s (%s)", len(moved), words.Count(len(singles), "case"), words.Printable(cmp.Or(Text(moved[0].Case), moved[0].Name())), words.Change(float64(moved[0].Bound.Value)))
	}
	return out
}

// headline is the verdict without the interval of the change that it leads with; null where it rests on something else,
// such as a failure or why there is no answer.
func headline(s Compared, result, why, brief string) *string {
	_, ok := lead(result, s.Contrasts)
	if !ok || result == GateRegression && s.Failure != nil || result == GateOpen && why != "" {
		return nil
	}
	return &brief
}

// heading is the headline, and the change that it leads with in full. A verdict that leads with none stays as it is.
func heading(s Compared, result, verdict string) (head, change string) {
	first, ok := lead(result, s.Contrasts)
	if !ok || s.Headline == nil {
		return verdict, ""
	}
	return *s.Headline, words.Printable(first.Name()) + " " + first.Change(s.ErrorRate)
}

// Confidence is how sure the verdicts are, all together; "" where none rests on numbers.
func Confidence(s Compared) string {
	if len(s.Contrasts) == 0 || s.Failure != nil {
		return ""
	}
	of := ""
	if len(With(GateRegression, s.Contrasts))+len(With(GateImprovement, s.Contrasts)) > 0 {
		of = "that it changed at all, "
	}
	return fmt.Sprintf("%.4g %% %sover all metrics, from %s of fresh launches in turn", 100*(1-s.ErrorRate), of, words.Count(s.Pairs, "pair"))
}

// between says within which bounds all contrasts with a result lie; "" where there are none.
func (s Compared) between(result string) string {
	all := With(result, s.Contrasts)
	low, high := Number(math.Inf(1)), Number(math.Inf(-1))
	for _, x := range all {
		low, high = min(low, x.Bound.Low), max(high, x.Bound.High)
	}
	// NaN bounds are neither; min and max carry them through.
	if !(low <= high) {
		return ""
	}
	what, better := "every metric", ""
	switch {
	case len(all) == 1:
		what, better = words.Printable(all[0].Name()), ", "+words.Better(all[0].Higher)
	case len(all) < len(s.Contrasts):
		what = "every other metric"
	}
	return fmt.Sprintf("%s changes by %s%s", what, words.Between(1, float64(low), float64(high)), better)
}

// open says what can neither be shown nor ruled out, and what the launches could have shown.
func (s Compared) open(why string, in wording) string {
	all := With(GateOpen, s.Contrasts)
	switch {
	case why != "":
		return "Cannot tell: " + why + "."
	case len(all) == 0 && s.BudgetOver:
		return "Cannot tell: the budget was used up before there were numbers to compare."
	case len(all) == 0:
		return "Cannot tell: there are no numbers to compare."
	}
	widest, _ := lead(GateOpen, all)
	out := fmt.Sprintf("Cannot tell: %d of %d metrics undecided after %s", len(all), len(s.Contrasts), words.Count(s.Pairs, "pair"))
	out += fmt.Sprintf(", above all %s %s", words.Printable(widest.Name()), in(widest))
	if widest.Visible.Known() {
		out += fmt.Sprintf("; %s show a change of %s four times in five, looked for is %s", words.Count(s.Pairs, "pair"), words.Percent(float64(widest.Visible)), words.Percent(s.Effect))
	} else {
		out += "; too few pairs to show any change"
	}
	switch {
	case s.BudgetOver:
		out += "; " + bisect.ErrSpent.Error()
	case s.Hopeless:
		out += "; this machine is noisy now, and more pairs would not help"
	}
	return out + "."
}

// Conclude says what a comparison came to; why is of a result that rests on no number, more follows the verdict.
func (c *Comparison) Conclude(why, more string) {
	c.Verdict = c.sentence(why, whole(c.ErrorRate)) + more
	c.Headline = headline(c.Compared, c.Result, why, c.sentence(why, brief)+more)
}

// Heading is the verdict without the interval of the change that it leads with, and that change in full.
func (c *Comparison) Heading() (head, change string) { return heading(c.Compared, c.Result, c.Verdict) }

func (c *Comparison) sentence(why string, in wording) string {
	var out string
	switch {
	case c.Result == GateRegression && c.Failure != nil:
		out = "B is worse: " + why + "."
	case c.Result == GateRegression:
		out = "B is worse: " + c.moved(c.Result, in) + "."
	case c.Result == GateImprovement:
		out = "B is better: " + cmp.Or(c.moved(c.Result, in), why) + "."
	case c.Result == NoDifference:
		out = fmt.Sprintf("No difference of %s or more: %s.", words.Percent(c.Effect), c.between(NoDifference))
	case c.Result == "infra":
		out = "Stopped: machine problem; no verdict on A and B."
	case c.Result == "interrupted":
		out = "Interrupted; the launches made so far are kept."
	default:
		out = c.open(why, in)
	}
	if c.SameCommit {
		out += " A and B are the same commit: any difference is noise of this machine."
	}
	return out
}

// FlagsDiffer reports two sides of one commit that differ in their flags, which stand behind a colon.
func (c *Comparison) FlagsDiffer() bool {
	return c.A.Commit == c.B.Commit && c.A.Revision != c.B.Revision && strings.Contains(c.A.Revision+c.B.Revision, ":")
}
