package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/kbisect/kbisect/bisect"
)

// Text writes the report for people.
func Text(w io.Writer, in Input) error {
	p := &printer{w: w}
	p.answer(in)
	if in.Sets != nil && in.overSets() {
		p.setsRest(in)
	}
	p.why(in)
	p.levels(in)
	p.path(in)
	p.economics(in)
	p.coldWarm(in)
	p.notes(in)
	p.next(in)
	return p.err
}

// printer keeps the first error, so that the report reads straight through.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// headline is the first line of the answer.
func (in Input) headline() string {
	var b strings.Builder
	p := &printer{w: &b}
	p.answer(in)
	line, _, _ := strings.Cut(b.String(), "\n")
	return strings.TrimSuffix(line, ":")
}

func (p *printer) answer(in Input) {
	f := in.Finding
	if in.overSets() && (f.Result == bisect.Found || f.Result == bisect.Inconclusive) {
		p.setsAnswer(in)
		return
	}
	switch f.Result {
	case bisect.Found:
		p.culprits(in)
	case bisect.Inconclusive:
		p.suspects(in)
	case bisect.NoDifference:
		p.f("Nothing to search for: %s.\n", f.Ends.Why)
	case bisect.Broken:
		p.f("Stopped by machine trouble: no commit is accused.\n  %s\n", indent(in.Error, "  "))
		p.left(in)
	case bisect.Interrupted:
		p.f("Interrupted; nothing is lost.\n")
		p.left(in)
	}
	if f.Ends.Hint != "" && f.Result != bisect.Found {
		p.f("  hint: %s\n", f.Ends.Hint)
	}
}

// culprits is the answer: one commit, or a section for each of several.
func (p *printer) culprits(in Input) {
	f := in.Finding
	if len(f.Culprits) == 1 {
		which := "the first bad"
		if f.Culprits[0].Class == bisect.Improved {
			which = "the first better"
		}
		p.culprit(in, f.Culprits[0], which)
		return
	}
	p.f("%d culprits, oldest first.\n", len(f.Culprits))
	for i, c := range f.Culprits {
		p.f("\nCulprit %d of %d: ", i+1, len(f.Culprits))
		p.culprit(in, c, "a first bad")
	}
}

// culprit is the section of one; which says whether it is the only one.
func (p *printer) culprit(in Input, c bisect.Culprit, which string) {
	info := in.info(c.Commit)
	what := "commit"
	if c.Merge {
		what = "merge"
	}
	p.f("%s is %s %s: %s\n\n", short(c.Commit), which, what, complaintWords(in, c))
	p.f("  commit   %s\n  author   %s\n  date     %s\n  subject  %s\n", c.Commit, author(info), when(info), info.Subject)
	for i, file := range info.Files {
		if i == 12 {
			p.f("           and %d more\n", len(info.Files)-i)
			break
		}
		p.f("  %-8s %-9s %s\n", map[bool]string{true: "files"}[i == 0], file.Kind, file.Path)
	}
	if said := lastSaid(in, c); said != "" {
		p.f("  said     %s\n", said)
	}
	if c.Effect != nil {
		p.f("  effect   %s\n", effectWords(*c.Effect))
	}
	for _, e := range c.Besides {
		p.f("  besides  %s\n", besideWords(e))
	}
	if c.Share != nil {
		p.f("  share    %.0f %% of the difference between the ends\n", 100**c.Share)
	}
	if r := c.Rate; r != nil {
		p.f("  rate     fails in about %.0f %% of its launches (%d of %d, those of later commits among them)\n", 100*float64(r.Failed)/float64(r.Launches), r.Failed, r.Launches)
	}
	if words := in.Switch[c.Commit]; words != "" {
		p.f("  switch   %s\n", words)
	}
	p.guiltyHunks(in.Hunks[c.Commit])
	how := "confirmed: fresh trials from clean exports and clean builds show it here and not in "
	if !c.Confirmed {
		how = "not confirmed against "
	}
	var parents []string
	for _, id := range c.Parents {
		parents = append(parents, short(id))
	}
	p.f("  sure     %s, %s%s\n", sure(c.Confidence), how, strings.Join(parents, " and "))
}

// sure is a confidence in words. Nothing that rests on trials is sure by 100 %.
func sure(p float64) string { return fmt.Sprintf("%.4g %%", min(100*p, 99.99)) }

// effectWords says what a culprit did to a number.
func effectWords(e bisect.Effect) string {
	switch x := e.Exact; {
	case x != nil && (x.Parent == 0 || x.Value == 0): // the ratio says nothing
		return fmt.Sprintf("%s %.8g, its parent's is %.8g", printable(e.Name()), x.Value, x.Parent)
	case x != nil:
		return fmt.Sprintf("%s %.8g, its parent's is %.8g: %.3f times", printable(e.Name()), x.Value, x.Parent, e.Ratio)
	}
	return fmt.Sprintf("%s %.3f times its parent's (95 %% interval %.3f to %.3f)", printable(e.Name()), e.Ratio, e.Low, e.High)
}

// besideWords says what it did to another number of the same metric.
func besideWords(e bisect.Effect) string {
	if e.Case == "" {
		return effectWords(e) + " over all cases"
	}
	return effectWords(e) + ", more than the other cases"
}

// ExactWords says which way a culprit moved a number that has no noise; "" where it is of another kind.
func ExactWords(e *bisect.Effect) string {
	switch {
	case e == nil || e.Exact == nil:
		return ""
	case e.Exact.Value < e.Exact.Parent:
		return e.Name() + " went down"
	default:
		return e.Name() + " went up"
	}
}

func complaintWords(in Input, c bisect.Culprit) string {
	s := string(c.Class)
	if c.Phase != "" && c.Class == bisect.Timeout {
		s += " in " + c.Phase
	}
	if c.Effect != nil {
		s += " in " + printable(c.Effect.Name())
	}
	if exact := ExactWords(c.Effect); exact != "" {
		return printable(exact)
	}
	why := ""
	for _, l := range in.Launches { // the latest counts, unless one before it had the whole of its limits
		o := l.Outcome
		if l.Candidate == (bisect.Candidate{Commit: c.Commit}) && o.Class == c.Class && o.Why != "" && (!o.Early || why == "") {
			why = " (" + o.Why + ")"
		}
	}
	return s + why
}

// levels is the table of commits all over the range against the good end.
func (p *printer) levels(in Input) {
	ls := in.Finding.Levels
	if len(ls) == 0 {
		return
	}
	p.f("\nThe level over the range: %s against the good end, 95 %% interval\n", printable(ls[0].Effect.Name()))
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, l := range ls {
		fmt.Fprintf(t, "  %s\t%.3f\t(%.3f to %.3f)\t%s\n", short(l.Commit), l.Effect.Ratio, l.Effect.Low, l.Effect.High, cut(in.info(l.Commit).Subject, 38))
	}
	p.flush(t)
}

func (p *printer) suspects(in Input) {
	f := in.Finding
	switch {
	case f.Ends.Untestable, f.Ends.Unclear:
		p.f("Inconclusive: %s\n", f.Ends.Why)
		return
	case f.Gradual:
		p.f("Inconclusive: gradual: no single culprit. %s got worse in steps too small to be told apart.\n", f.Complaint.Metric)
		return
	case f.Spent && len(f.Suspects) == 0:
		p.f("Inconclusive: the budget was used up before the whole range was looked at.\n")
		return
	case f.Spent && len(f.Suspects) == 1:
		p.f("Inconclusive: one commit is left, and the budget is used up before it could be confirmed.\n")
	case f.Spent:
		p.f("Inconclusive: the budget is used up; the culprit is one of %d commits.\n", len(f.Suspects))
	case len(f.Suspects) == 1:
		p.f("Inconclusive: one commit is left, but not proven.\n")
	default:
		p.f("Inconclusive: the culprit is one of %d commits; nothing that can be tested tells them apart.\n", len(f.Suspects))
	}
	p.list(in)
}

// left shows how far an unfinished search came.
func (p *printer) left(in Input) {
	if n := len(in.Finding.Suspects); n > 0 && in.Finding.Complaint.Class != "" {
		p.f("  complaint: %s; still suspected: %s\n", in.Finding.Complaint, count(n, "commit"))
		if n <= 20 {
			p.list(in)
		}
	}
}

func (p *printer) list(in Input) {
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, s := range in.Finding.Suspects {
		fmt.Fprintf(t, "  %s\t%.1f %%\t%s\t%s\n", short(s.Commit), min(100*s.Probability, 99.9), in.info(s.Commit).Subject, s.Why)
	}
	p.flush(t)
}

func (p *printer) flush(t *tabwriter.Writer) {
	if err := t.Flush(); p.err == nil {
		p.err = err
	}
}

// path lists what was judged, in order.
func (p *printer) path(in Input) {
	f := in.Finding
	if len(f.Steps) == 0 {
		return
	}
	p.f("\nThe way of the search: %s in the range, %d that can matter\n", count(f.Range, "commit"), f.Matter)
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, s := range f.Steps {
		const most = 120 // of a row between the ends and the culprit, which say the same at length
		left, why := "", s.Verdict.Why
		if s.Inferred {
			why = "equal inputs: " + why
		}
		if s.Role == "search" {
			left, why = fmt.Sprintf("%d left", s.Remaining), cut(why, most)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", s.Role, short(s.Commit), s.Verdict.Word(), left, cut(in.info(s.Commit).Subject, 38), why)
	}
	p.flush(t)
}

func (t Totals) candidates() string {
	if t.Drilled == 0 {
		return count(t.Candidates, "candidate")
	}
	return fmt.Sprintf("%s and %d more in what the culprit changed", count(t.Candidates, "candidate"), t.Drilled)
}

// economics is the table of time and money by phase.
func (p *printer) economics(in Input) {
	rows := in.Economics()
	if len(rows) == 0 {
		return
	}
	total := 0.0
	for _, r := range rows {
		total += r.Seconds
	}
	p.f("\nWhere the time went\n")
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "  phase\ttime\tshare\tlongest\ttrials\tended here\t\n")
	for _, r := range rows {
		ended := ""
		if r.Ended > 0 {
			ended = fmt.Sprint(r.Ended)
		}
		fmt.Fprintf(t, "  %s\t%s\t%.0f %%\t%s\t%d\t%s\t\n", r.Phase, secs(r.Seconds), 100*r.Seconds/max(total, 1e-9), secs(r.Longest), r.Trials, ended)
	}
	p.flush(t)
	s := in.Totals()
	p.f("  %s, %s, %s, %d from the build cache, %s inferred\n",
		s.candidates(), count(s.Trials, "trial"), count(s.Builds, "build"), s.CacheHits, count(s.Inferred, "answer"))
	p.f("  wall %s, running %s", secs(s.Wall), secs(s.Device))
	if s.Cost != nil {
		p.f(", %.4f at %.2f an hour", *s.Cost, in.GPUHour)
	}
	p.f("\n")
	switch {
	case len(in.Devices) > 0:
		p.f("  on %s\n", strings.Join(in.Devices, "; "))
	case in.Unwatched != "":
		p.f("  no device was watched: %s\n", in.Unwatched)
	}
}

// coldWarm is the table of first processes against later ones.
func (p *printer) coldWarm(in Input) {
	rows := in.ColdWarm()
	if len(rows) == 0 {
		return
	}
	p.f("\nFirst process with empty caches (cold) and later ones (warm), medians\n")
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "  phase\tgood cold\tgood warm\tbad cold\tbad warm\t\n")
	for _, r := range rows {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t\n", r.Phase, orDash(r.GoodCold), orDash(r.GoodWarm), orDash(r.BadCold), orDash(r.BadWarm))
	}
	p.flush(t)
}

func orDash(s float64) string {
	if s < 0 {
		return "-"
	}
	return secs(s)
}

func (p *printer) notes(in Input) {
	ws := in.warnings()
	if len(ws) == 0 {
		return
	}
	p.f("\nTo know\n")
	for i, w := range ws {
		if i == 10 {
			p.f("  and %d more\n", len(ws)-i)
			break
		}
		p.f("  - %s\n", indent(w, "    "))
	}
}

// next says what a person would do now.
func (p *printer) next(in Input) {
	f := in.Finding
	p.f("\nNext\n")
	switch f.Result {
	case bisect.Found:
		for _, c := range f.Culprits {
			p.f("  git show %s\n", short(c.Commit))
			if log := lastLog(in, c.Commit); log != "" {
				p.f("  less %s    # its output\n", log)
			}
		}
		if f.Spent {
			p.f("  kbisect run --resume --budget 10m    # looks for more\n")
		}
		p.f("  kbisect show %s    # every trial of this search\n", in.Session)
	case bisect.Interrupted, bisect.Broken:
		p.f("  kbisect run --resume    # goes on where this stopped\n")
	case bisect.Inconclusive:
		if f.Spent {
			p.f("  kbisect run --resume --budget 10m    # goes on where this stopped\n")
		}
		p.f("  kbisect show %s    # every trial of this search\n", in.Session)
	default:
		p.f("  kbisect show %s    # every trial of this search\n", in.Session)
	}
}

// lastSaid is the last line that the output of a culprit holds which crashed; for other classes
// the reason quotes it.
func lastSaid(in Input, c bisect.Culprit) (said string) {
	if c.Class != bisect.Crash {
		return ""
	}
	for _, l := range in.Launches {
		if l.Candidate.Commit == c.Commit && l.Outcome.Class == c.Class && !strings.HasSuffix(l.Outcome.Why, ")") { // else said there
			lines := strings.Split(strings.TrimSpace(l.Outcome.Tail), "\n")
			said = cut(printable(lines[len(lines)-1]), 100)
		}
	}
	return said
}

// printable keeps what a candidate printed from driving the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

func lastLog(in Input, commit string) (log string) {
	for _, l := range in.Launches {
		if l.Candidate.Commit == commit && l.Outcome.Log != "" && l.Outcome.Tail != "" {
			log = l.Outcome.Log
		}
	}
	return log
}

func when(c CommitInfo) string {
	if c.When.IsZero() {
		return ""
	}
	return c.When.Format("2006-01-02 15:04 -0700")
}

func secs(s float64) string {
	if s >= 60 {
		return time.Duration(s * float64(time.Second)).Round(time.Second).String()
	}
	return fmt.Sprintf("%.2f s", s)
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// indent sets the further lines of a text in.
func indent(s, by string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+by) }
