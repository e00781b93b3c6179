package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/kbisect/kbisect/bisect"
)

// ComparisonSchema names the JSON document of a comparison and its version.
const ComparisonSchema = "kbisect.comparison/1"

// Comparison is two candidates set against each other. Numbers that are not known are null.
type Comparison struct {
	Schema     string     `json:"schema"`
	Session    string     `json:"session"`
	Result     string     `json:"result"`  // regression, improvement, no-difference, cannot-tell, infra, interrupted
	Verdict    string     `json:"verdict"` // the result in a sentence
	SameCommit bool       `json:"same_commit"`
	A          Candidate  `json:"a"`
	B          Candidate  `json:"b"`
	Failure    *Failure   `json:"failure"` // on which the result rests, instead of on numbers
	Effect     float64    `json:"effect"`  // smallest change looked for, as a fraction
	ErrorRate  float64    `json:"error_rate"`
	Pairs      int        `json:"pairs"`
	Contrasts  []Contrast `json:"comparisons"`
	BudgetOver bool       `json:"budget_used_up"`
	Hopeless   bool       `json:"hopeless"` // the most pairs that may be made would not have given an answer
	Totals     Totals     `json:"totals"`
	Devices    []string   `json:"devices"`
	Warnings   []string   `json:"warnings"`
	Error      *string    `json:"error"`
}

// Candidate is one side of a comparison, or what was measured.
type Candidate struct {
	Revision string     `json:"revision"` // as it was asked for
	Commit   string     `json:"commit"`
	Subject  string     `json:"subject"`
	Author   string     `json:"author"`
	Date     string     `json:"date"`
	Launches int        `json:"launches"`
	Counted  int        `json:"counted"`
	WarmUps  int        `json:"warm_ups"`
	LeftOut  []Excluded `json:"left_out"`
	Marked   []Excluded `json:"marked"` // that count in spite of something
	Failure  *Failure   `json:"failure"`
}

// Candidate is a commit as a side of a comparison; revision is how it was asked for.
func (c CommitInfo) Candidate(revision string) Candidate {
	return Candidate{Revision: revision, Commit: c.ID, Subject: c.Subject, Author: author(c), Date: date(c), LeftOut: []Excluded{}, Marked: []Excluded{}}
}

// Excluded is a number of launches with the reason they share.
type Excluded struct {
	Why      string `json:"why"`
	Launches int    `json:"launches"`
}

// Failure is how a launch ended that did not end well.
type Failure struct {
	Class bisect.Class `json:"class"`
	Phase *string      `json:"phase"`
	Why   string       `json:"why"`
}

// NewFailure puts an outcome that did not end well into a report; nil stays nil.
func NewFailure(o *bisect.Outcome) *Failure {
	if o == nil {
		return nil
	}
	return &Failure{o.Class, text(o.Phase), o.Why}
}

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
	Ratio    Estimate `json:"ratio"`  // of the medians, B over A: 95 % bootstrap interval over launches
	Shift    Estimate `json:"paired"` // of the pairs, B over A: Hodges-Lehmann, 95 % interval
	Bound    Estimate `json:"bound"`  // of the ratio: holds with the error rate however often one looked
	Cliff    Number   `json:"cliffs_delta"`
	P        Number   `json:"p"`            // Mann-Whitney, two-sided
	Holm     Number   `json:"p_holm"`       // corrected for the number of comparisons
	Doubt    Number   `json:"p_sequential"` // corrected for the looks as well: what the result rests on
	Visible  Number   `json:"smallest_visible"`
	Why      *string  `json:"why"` // there is no answer, where it is not for want of pairs
}

// Summary describes one number a launch.
type Summary struct {
	N      int    `json:"n"`
	Median Number `json:"median"`
	Low    Number `json:"low"` // 95 % interval of the median
	High   Number `json:"high"`
	Min    Number `json:"min"`
	Max    Number `json:"max"`
	Q1     Number `json:"q1"`
	Q3     Number `json:"q3"`
	Spread Number `json:"spread"` // of one launch, as a fraction of the median
}

// Estimate is a number with its interval.
type Estimate struct {
	Value Number `json:"value"`
	Low   Number `json:"low"`
	High  Number `json:"high"`
}

// Number is null in JSON when it is not known: not a number, or without bounds.
type Number float64

// Known reports whether there is a number.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	var v *float64
	err := json.Unmarshal(b, &v)
	*n = Number(math.NaN())
	if v != nil {
		*n = Number(*v)
	}
	return err
}

// WriteJSON writes a document of this package, indented.
func WriteJSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// Name is the metric with its case.
func (c Contrast) Name() string {
	switch {
	case c.Case != nil:
		return c.Metric + " of " + *c.Case
	case c.AllCases:
		return c.Metric + ", all cases"
	}
	return c.Metric
}

// ComparisonText writes a comparison for people.
func ComparisonText(w io.Writer, c Comparison) error {
	p := &printer{w: w}
	p.f("%s\n", c.Verdict)
	if c.Error != nil {
		p.f("  %s\n", indent(*c.Error, "  "))
	}
	p.f("\n  A  %s\n  B  %s\n", c.A.line(), c.B.line())
	p.contrasts(c)
	p.f("\n")
	p.launches("A", c.A)
	p.launches("B", c.B)
	p.price(c.Totals, c.Devices)
	p.warnings(c.Warnings)
	p.f("\nNext\n  kbisect show %s    # every launch of this comparison\n", c.Session)
	switch flags := strings.Contains(c.A.Revision+c.B.Revision, ":"); {
	case c.Result == "regression" && !c.SameCommit && !flags:
		p.f("  kbisect run --good %s --bad %s    # which commit between them it was\n", c.A.Revision, c.B.Revision)
	case c.Result == "regression" && c.A.Commit == c.B.Commit && flags:
		p.f("  kbisect run --axis flags --bad %s    # which flags, and what can be kept\n", short(c.B.Commit))
	}
	return p.err
}

// line is a candidate in a line.
func (c Candidate) line() string {
	return fmt.Sprintf("%s  %s  %s", short(c.Commit), c.Revision, cut(printable(c.Subject), 60))
}

// contrasts is the table of the numbers.
func (p *printer) contrasts(c Comparison) {
	if len(c.Contrasts) == 0 {
		return
	}
	p.f("\n")
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  \tA, median\tB, median\tB / A\tdelta\tp\tcould see\tanswer\n")
	for _, x := range c.Contrasts {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			printable(x.Name()), x.A.median(x.Unit), x.B.median(x.Unit), x.Ratio.words(), signed(x.Cliff), pWords(x.Holm), x.visible(), answerWord(x.Result))
	}
	p.flush(t)
	p.f("\n  In brackets: 95 %% intervals, of the medians by order statistics, of the ratio by bootstrap over launches.\n")
	p.f("  delta: Cliff's, 1 when every launch of B gave more than every one of A. p: Mann-Whitney%s.\n", corrected(len(c.Contrasts)))
	p.f("  could see: the smallest change that %s show four times in five. Looked for: %s and more, with an error of %s.\n", count(c.Pairs, "pair"), percent(c.Effect), percent(c.ErrorRate))
}

// corrected says for what a p is corrected.
func corrected(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", corrected for %d comparisons (Holm)", n)
}

func answerWord(result string) string {
	return map[string]string{"regression": "worse", "improvement": "better", "no-difference": "alike", "cannot-tell": "cannot tell"}[result]
}

// visible is the smallest change that so many launches show.
func (c Contrast) visible() string {
	if !c.Visible.Known() {
		return "none"
	}
	return percent(float64(c.Visible))
}

// launches tells how many launches there were of a candidate, and which of them do not count.
func (p *printer) launches(name string, c Candidate) {
	if name != "" {
		name += "  "
	}
	p.f("  %s%s, %d counted", name, count(c.Launches, "launch"), c.Counted)
	if c.WarmUps > 0 {
		p.f("; before them %d to fill empty caches", c.WarmUps)
	}
	for _, x := range c.LeftOut {
		p.f("; %d left out: %s", x.Launches, printable(x.Why))
	}
	for _, x := range c.Marked {
		p.f("; %d counted although %s", x.Launches, printable(x.Why))
	}
	p.f("\n")
}

// price is what it took.
func (p *printer) price(t Totals, devices []string) {
	p.f("  wall %s, running %s, %s", secs(t.Wall), secs(t.Device), count(t.Builds, "build"))
	if t.CacheHits > 0 {
		p.f(", %d from the build cache", t.CacheHits)
	}
	if t.Cost != nil {
		p.f(", cost %.4f", *t.Cost)
	}
	p.f("\n")
	for _, d := range devices {
		p.f("  on %s\n", d)
	}
}

func (p *printer) warnings(ws []string) {
	if len(ws) == 0 {
		return
	}
	p.f("\nTo know\n")
	for _, w := range ws {
		p.f("  - %s\n", indent(w, "    "))
	}
}

// median is the median with its interval and unit.
func (s Summary) median(unit string) string {
	out := s.middle(unit)
	if scale, _ := prefixed(float64(s.Median), unit); s.Median.Known() && s.Low.Known() {
		out += fmt.Sprintf(" (%s to %s)", figure(s.Low*scale), figure(s.High*scale))
	}
	return out
}

// prefixed chooses the unit in which a value is best read, and what to multiply with.
func prefixed(v float64, unit string) (scale Number, name string) {
	v = math.Abs(v)
	small := []struct {
		least float64
		scale Number
		sign  string
	}{{1, 1, ""}, {1e-3, 1e3, "m"}, {1e-6, 1e6, "u"}, {0, 1e9, "n"}}
	large := []struct {
		least float64
		scale Number
		sign  string
	}{{1e12, 1e-12, "T"}, {1e9, 1e-9, "G"}, {1e6, 1e-6, "M"}, {1e4, 1e-3, "k"}, {0, 1, ""}}
	switch unit {
	case "s":
	case "B", "B/s", "FLOP/s", "Hz", "op/s", "item/s", "token/s":
		small = large
	default:
		return 1, unit
	}
	for _, x := range small {
		if v >= x.least {
			return x.scale, x.sign + unit
		}
	}
	return 1, unit
}

// words is a ratio with its interval.
func (e Estimate) words() string {
	switch {
	case !e.Value.Known():
		return "-"
	case !e.Low.Known():
		return fmt.Sprintf("%.3f", float64(e.Value))
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", float64(e.Value), float64(e.Low), float64(e.High))
}

func unitWord(unit string) string {
	if unit == "" || unit == "1" { // a ratio, or a count
		return ""
	}
	return " " + unit
}

// figure writes a measured value with four digits.
func figure(n Number) string {
	v := float64(n)
	switch a := math.Abs(v); {
	case !n.Known():
		return "-"
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a == 0:
		return "0"
	case a >= 0.001:
		return fmt.Sprintf("%.*f", max(0, 3-int(math.Floor(math.Log10(a)))), v)
	}
	return fmt.Sprintf("%.3e", v)
}

func signed(n Number) string {
	if !n.Known() {
		return "-"
	}
	return fmt.Sprintf("%+.2f", float64(n))
}

func pWords(n Number) string {
	switch {
	case !n.Known():
		return "-"
	case n < 0.001:
		return fmt.Sprintf("%.1e", float64(n))
	}
	return fmt.Sprintf("%.3f", float64(n))
}

// percent is a fraction for people.
func percent(f float64) string {
	if f >= 0.1 {
		return fmt.Sprintf("%.0f %%", 100*f)
	}
	return fmt.Sprintf("%.2g %%", 100*f)
}
