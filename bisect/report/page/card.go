package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/sets"
)

// Card is an answer that is taken in within seconds: what was found, then its rows in the order of reading. A page has
// one card, or one for each of several culprits.
type Card struct {
	Title string // of one card among several
	State State
	Head  string // what was found, in the user's terms
	Rows  []Row
}

// Row is one thing to know of an answer. A row with the name of the one above continues it.
type Row struct {
	Name  string
	State State // shown as a mark before the text: good ✓, bad ✗, unsure ?
	Text  string
	ID    string // the short id of the commit that the text is about
	Link  string // where the forge shows that commit; "" for none
	Lines []DiffLine
	Copy  string // a setting to copy
	More  bool   // a detail, which a terminal shows on demand
}

// Strip is the range in a line: a state for each commit that was judged, the good end first.
type Strip struct {
	From, To string // short ids of the ends
	States   []State
	Suspects []int  // places of the commits that may be the culprit
	Aside    string // why a commit after the culprit passes, where one does
}

// rows collects rows and drops those that say nothing.
// So callers need not ask first whether a document has a fact.
type rows []Row

func (r *rows) add(name, text string) { r.row(Row{Name: name, Text: text}) }

// more adds a detail, which a terminal shows on demand.
func (r *rows) more(name, text string) { r.row(Row{Name: name, Text: text, More: true}) }

func (r *rows) row(x Row) {
	if x.Text != "" || x.Copy != "" || len(x.Lines) > 0 {
		*r = append(*r, x)
	}
}

// commitRow is a row about a commit; subject may be "", and is then looked up.
func commitRow(name string, l report.Ledger, id, subject string) Row {
	short := bisect.ShortID(id)
	if subject == "" {
		subject = l.Info(id).Subject
	}
	return Row{Name: name, Text: subject, ID: short, Link: l.Forge.Link(id)}
}

// cards are the answers of a search: one for each culprit, or one for all. The last one has what they share.
func (f *finder) cards() (out []Card) {
	of := f.Culprits
	switch {
	// Guilty sets of flags or hunks are read against each other, so that they share a card.
	case f.Axis != report.AxisHistory:
		out, of = []Card{{Head: f.Headline, Rows: f.setRows()}}, nil
	case len(of) == 0:
		out = []Card{{Head: f.Headline, Rows: f.openRows()}}
	}
	for i, c := range of {
		card := Card{Head: report.CulpritWords(c), Rows: f.culpritRows(c)}
		if n := len(f.Culprits); n > 1 {
			card.Title = fmt.Sprintf("Culprit %d of %d", i+1, n)
		}
		out = append(out, card)
	}
	for i := range out {
		out[i].State = f.state()
	}
	// What holds for all culprits is said once, below the last of them.
	last := &out[len(out)-1]
	last.Rows = append(last.Rows, f.common()...)
	return out
}

// state is the state of the answer; "" for a result that has none.
// A culprit is bad news; whatever leaves the question open is unsure.
func (f *finder) state() State {
	return map[bisect.Result]State{bisect.Found: Bad, bisect.NoDifference: Unsure, bisect.Inconclusive: Unsure, bisect.Broken: Unsure, bisect.Interrupted: Unsure}[f.Result]
}

// culpritRows is what is known of one culprit.
func (f *finder) culpritRows(c report.Culprit) []Row {
	var out rows
	out.row(commitRow("commit", f.ledger, c.Commit, c.Subject))
	out.add("author", authorWords(c.Author, c.Date))
	// People read the short id; scripts and forges want this one.
	out.more("full id", c.Commit)
	if c.Effect != nil {
		out.add("effect", c.Effect.Words()+values(f.ledger, c))
	}
	// These are of the same metric: all cases together, or the case that moved more than the others.
	for _, e := range c.Besides {
		if e.Case == "" {
			out.more("overall", e.Words())
		} else {
			out.more("also", e.Words()+", more than the other cases")
		}
	}
	if c.Share != nil {
		out.add("share", shareOf(c).Words()+" of the difference between the ends")
	}
	out.add("confidence", confidence(f.ledger, c))
	if r := c.Rate; r != nil {
		out.add("rate", fmt.Sprintf("fails in about %.0f %% of its launches (%d of %d, including later commits)", 100*float64(r.Failed)/float64(max(r.Launches, 1)), r.Failed, r.Launches))
	}
	out.add("output", lastLine(f.ledger, c))
	out = append(out, guiltyRows(c.Hunks)...)
	// Where lines are known to be to blame, the files are a detail.
	out.row(Row{Name: "files", Text: words.Listed(c.Files, 12), More: len(c.Hunks) > 0})
	if c.Switch != nil {
		out.row(Row{Name: "workaround", State: Good, Text: *c.Switch})
	}
	// A parent that was not launched for the proof is not known to be good.
	for _, id := range c.Parents {
		if c.Confirmed {
			r := commitRow("last good", f.ledger, id, "")
			r.State = Good
			out.row(r)
		}
	}
	return out
}

// values are the metric before and after a culprit, in the launches that confirmed it: their middle, with the effect
// around it, since the medians are of fewer launches and would contradict it. "" where the effect is of several cases,
// which have no value in common.
func values(ledger report.Ledger, c report.Culprit) string {
	if c.Effect.Exact != nil || c.Effect.Statistic != "" { // its words have them, or it is not of medians
		return ""
	}
	// Index 0 is before the culprit, 1 is with it.
	var medians [2]float64
	unit, name := "", ""
	// Only launches of the proof count: the two sides took turns, from clean builds.
	for i, side := range []struct {
		purpose bisect.Purpose
		of      []string
	}{{bisect.ConfirmParent, c.Parents}, {bisect.ConfirmCulprit, []string{c.Commit}}} {
		var all []float64
		for _, l := range ledger.Launches {
			if l.Purpose != side.purpose || l.Candidate.Assign != "" || !slices.Contains(side.of, l.Candidate.Commit) {
				continue
			}
			for _, x := range l.Outcome.Series {
				if x.Metric != c.Effect.Metric || c.Effect.Case != "" && x.Case != c.Effect.Case {
					continue
				}
				// The values of several cases have no median that means anything.
				if len(all)+i > 0 && x.Case != name {
					return ""
				}
				unit, name = x.Unit, x.Case
				all = append(all, float64(report.Median(x.Values)))
			}
		}
		if len(all) == 0 {
			return ""
		}
		medians[i] = float64(report.Median(all))
	}
	// The two values are apart by the effect, and their geometric mean is that of the medians.
	middle, half := math.Sqrt(medians[0]*medians[1]), math.Sqrt(c.Effect.Ratio)
	return fmt.Sprintf("; before %s, after %s", words.Quantity(middle/half, unit), words.Quantity(middle*half, unit))
}

// authorWords are an author and the day of a date in RFC 3339.
func authorWords(author, date string) string {
	return strings.Trim(author+", "+date[:min(10, len(date))], ", ")
}

// one gives a page its only card, under the headline of the page.
func one(p Page, rows []Row) Page {
	p.Cards = []Card{{State: p.State, Head: p.Headline, Rows: rows}}
	return p
}

// confidence is how sure a culprit is, and how it was confirmed.
func confidence(ledger report.Ledger, c report.Culprit) string {
	against := "its parent"
	if len(c.Parents) > 1 {
		against = "its parents"
	}
	if !c.Confirmed {
		return words.Confidence(c.Confidence) + ", not confirmed against " + against
	}
	// How often either side was launched convinces more than a probability, so both are said.
	count := func(purpose bisect.Purpose, of ...string) (n, failed int) {
		for _, l := range ledger.Launches {
			for _, id := range of {
				if l.Purpose == purpose && l.Candidate == (bisect.Candidate{Commit: id}) {
					n++
					if l.Outcome.Class == c.Class {
						failed++
					}
				}
			}
		}
		return n, failed
	}
	own, failed := count(bisect.ConfirmCulprit, c.Commit)
	other, likewise := count(bisect.ConfirmParent, c.Parents...)
	how := ""
	switch {
	// The numbers are left out rather than guessed.
	case own == 0 || other == 0: // an old session, or one whose launches are gone
		how = ": fresh launches from clean builds show it here and not in " + against
	// Times are compared by their values: how many launches failed says nothing here.
	case c.Class == bisect.Slow || c.Class == bisect.Improved:
		how = fmt.Sprintf(" on clean builds: %s against %d of %s", words.Count(own, "fresh launch"), other, against)
	default:
		how = fmt.Sprintf(" on clean builds: this commit failed %d of %s, %s %d of %d", failed, words.Count(own, "launch"), against, likewise, other)
	}
	return words.Confidence(c.Confidence) + ". Confirmed" + how
}

// guiltyRows are the lines that are to blame, in the order of the files; of those that are only required to build, the
// places.
func guiltyRows(hunks []report.Hunk) (out rows) {
	const most, mostCarriers = 12, 6 // lines of a block
	var carriers []string
	for _, h := range report.Blocks(hunks) {
		if h.Role == sets.Carrier {
			carriers = append(carriers, h.Where())
			continue
		}
		r := Row{Name: "lines", Text: h.Where()}
		lines := strings.Split(words.Lines(h.Text), "\n")
		for i, text := range lines {
			// A block may be a whole file. The diff of the page has all of it.
			if i == most {
				r.Lines = append(r.Lines, DiffLine{Kind: "note", Text: fmt.Sprintf("… %d more", len(lines)-i), Role: h.Role})
				break
			}
			kind := "same"
			switch {
			case strings.HasPrefix(text, "+"):
				kind = "add"
			case strings.HasPrefix(text, "-"):
				kind = "del"
			}
			r.Lines = append(r.Lines, DiffLine{Kind: kind, Text: text, Role: h.Role})
		}
		out.row(r)
	}
	if len(carriers) > 0 {
		out.add("lines", words.Listed(carriers, mostCarriers)+" (required to build, not the cause)")
	}
	return out
}

// setRows are the guilty sets, what to keep, and what became of the claims.
func (f *finder) setRows() []Row {
	var out rows
	for _, s := range f.MinimalSets {
		if len(f.MinimalSets) > 1 { // else it is the headline
			out.add("cause", s.Name()+": "+endsAs(s.Class, s.Phase))
		}
		out = append(out, guiltySet(s, f.Tests)...)
		out = append(out, guiltyRows(s.Hunks)...)
	}
	out = append(out, f.useRows()...)
	// A claim that is confirmed may still name more than it takes.
	for _, c := range f.Hypotheses {
		text := fmt.Sprintf("%q: ", c.Name) + strings.ReplaceAll(string(c.Verdict), "-", " ")
		for _, s := range f.MinimalSets {
			if parts := s.Parts(); c.Verdict == sets.Confirmed && len(parts) < len(c.Claim) {
				text += ", but " + s.Name() + " alone fails" // the claim holds it, or it would be no cause of it
			}
		}
		out.add("your claim", text)
	}
	if len(f.MinimalSets) == 0 {
		out = append(out, f.openRows()...)
	}
	return out
}

// useRows are what to go on working with, and what it was timed against. Where that is the base, what could be kept
// instead stands below it: it passes, and only its time speaks against it, which may be unsettled.
func (f *finder) useRows() []Row {
	var out rows
	use := f.Recommended
	if use == nil && len(f.SafeSets) > 0 && f.SafeSets[0].Confirmed { // there was no time to time it
		use = &f.SafeSets[0]
	}
	switch {
	case use == nil:
		return nil
	case len(use.Parts()) > 0:
		out.row(Row{Name: "use", State: Good, Text: passes(*use), Copy: use.Name()})
	case len(f.SafeSets) == 0 || len(f.SafeSets[0].Parts()) == 0: // nothing else passes
		return nil
	default:
		out.row(Row{Name: "use", State: Good, Text: "passes; nothing else that passes is known to be as fast", Copy: use.Name()})
	}
	// For builds and runs without kbisect: how each flag reaches the program.
	if s := use.Setting; s != nil {
		for _, x := range []struct {
			name string
			argv []string
		}{{"as environment", s.Env}, {"as arguments", s.Args}, {"as compiler options", s.Compile}} {
			if len(x.argv) > 0 {
				out.row(Row{Name: "use", Text: x.name, Copy: words.Shell(x.argv)})
			}
		}
	}
	if len(use.Parts()) == 0 {
		most := f.SafeSets[0]
		out.row(Row{Name: "or", State: Good, Text: passes(most), Copy: most.Name()})
	}
	out.add("base", strings.Join(f.view().assigned(bisect.EndGood), " "))
	return out
}

// passes is what is known of a safe set.
func passes(x report.SafeSet) string {
	text := "passes"
	if x.Ratio != nil && x.Low != nil && x.High != nil {
		for name := range x.Metric { // at most one
			text += "; " + name
		}
		text += " " + words.Interval(*x.Ratio, *x.Low, *x.High, 0.95) + " against the base"
		if *x.Low <= 1 && *x.High >= 1 {
			text += ", not significant"
		}
		if x.Better != "" {
			text += ", " + x.Better + " is better"
		}
	}
	if !x.Confirmed {
		text += ", not confirmed"
	}
	return text
}

// mostSuspects is how many suspects an answer names.
const mostSuspects = 5

// openRows explain why there is no culprit, list the suspects, and say what would settle the question.
func (f *finder) openRows() []Row {
	var out rows
	// Where nothing is known of a complaint, the headline has the evidence.
	differ := f.Complaint != nil && f.Complaint.Ends != nil && f.Result != bisect.NoDifference
	if differ {
		out.add("difference", f.Complaint.Ends.Words()+", bad end against good end")
	}
	if f.Complaint != nil && f.Result != bisect.NoDifference {
		out.row(Row{Name: "evidence", Text: f.Ends.Evidence, More: differ})
	}
	if p := f.Prospect; p != nil && !differ { // of few launches: where more were made, a note tells the noise
		noise := fmt.Sprintf("%s varies by %s from launch to launch", p.Metric, words.Percent(p.Noise))
		if p.Seen {
			noise += fmt.Sprintf("; after %s the ends seemed to differ by %s", words.Count(p.Made, "launch"), words.Percent(p.Change))
		}
		out.add("noise", noise)
	}
	out.add("error", report.Text(f.Error))
	// A list would look like a ranking where none is likelier than another.
	if n := len(f.Suspects); n > mostSuspects && alike(f.Suspects) {
		out.add("suspects", fmt.Sprintf("%d commits, none likelier than another", n))
	} else if f.Result != bisect.Broken {
		left := 1.0
		for i, s := range f.Suspects {
			r := commitRow("suspects", f.ledger, s.Commit, s.Subject)
			r.Text = fmt.Sprintf("%s  %s", words.Percent(s.Probability), r.Text)
			r.More = i >= mostSuspects
			out.row(r)
			left -= s.Probability
			// The rows that a terminal shows add up to the whole with this one.
			if rest := n - mostSuspects; i == mostSuspects-1 && rest > 0 {
				out.add("suspects", fmt.Sprintf("%d more, %s together", rest, words.Percent(max(left, 0))))
			}
		}
	}
	out.row(Row{Name: "hint", Text: f.Ends.Hint, More: f.Spent}) // the command to go on stands below
	return out
}

// alike reports whether no suspect is likelier than another.
func alike(all []report.Suspect) bool {
	return !slices.ContainsFunc(all, func(s report.Suspect) bool { return math.Abs(s.Probability-all[0].Probability) > 1e-6 })
}

// common are the rows that belong to the answer as a whole.
func (f *finder) common() []Row {
	var out rows
	// An answer of an earlier session may be older than what is installed on the machine now.
	if x := f.Stored; x != nil {
		out.add("stored", fmt.Sprintf("session %s of %s, kbisect %s; nothing was built or launched (--fresh searches anew)", x.Session, x.Made.Local().Format("2006-01-02 15:04"), x.Version))
	}
	if c := f.Complaint; c != nil && len(f.Culprits) != 1 {
		text, differ := complaint(f.Search)
		out.row(Row{Name: "complaint", Text: text, More: !differ})
		if c.Ends != nil && len(f.Culprits)+len(f.MinimalSets) > 0 { // else it is above; a card of a culprit has its effect
			out.row(Row{Name: "difference", Text: c.Ends.Words(), More: f.Axis == report.AxisHistory})
		}
	}
	// A search of flags stays at one commit, so it has no range.
	if f.Ends.Good == f.Ends.Bad { // flags
		out.row(commitRow("tested at", f.ledger, f.Ends.Bad, ""))
		return out
	}
	// Who asked knows the range; it is for whoever reads the page later.
	for _, end := range [][2]string{{"good end", f.Ends.Good}, {"bad end", f.Ends.Bad}} {
		r := commitRow(end[0], f.ledger, end[1], "")
		r.More = true
		out.row(r)
	}
	if p := f.Ends.Past; p != nil {
		out.more("known before", fmt.Sprintf("launches of %s scattered by %.2g %%, so that a few launches of the ends were enough to begin (%s; --no-past ignores that)",
			words.Count(p.Sessions, "earlier session"), 100*p.Scatter, words.Count(p.Launches, "launch")))
	}
	return out
}

// complaint is what was searched for. A set of changes may time out in another phase than all of them together.
func complaint(d *report.Search) (text string, differ bool) {
	c := d.Complaint
	text = bisect.Complaint{Class: c.Class, Phase: report.Text(c.Phase), Metric: report.Text(c.Metric)}.String()
	for _, s := range d.MinimalSets {
		if s.Class == c.Class && report.Text(s.Phase) != report.Text(c.Phase) {
			return text + " with all changes, " + endsAs(s.Class, s.Phase) + " with " + s.Name() + " alone", true
		}
	}
	return text, false
}

// strip is the range with its verdicts; empty where its order is not known.
func (f *finder) strip() Strip {
	if !f.ordered || f.Axis != report.AxisHistory {
		return Strip{}
	}
	// One state for each commit of the range, "" where it was not judged.
	s := Strip{From: bisect.ShortID(f.Ends.Good), To: bisect.ShortID(f.Ends.Bad), States: make([]State, len(f.ledger.Order))}
	for _, x := range f.Suspects {
		if at, known := f.at[x.Commit]; known && at < len(s.States) {
			s.Suspects = append(s.Suspects, at)
		}
	}
	slices.Sort(s.Suspects)
	for _, x := range f.places() {
		switch {
		case len(f.Culprits) == 0:
			x.State = cmp.Or(x.State, Unsure) // launched, and not judged
		case x.State == Unsure:
			continue // no longer a suspect: the answer did not need it
		}
		if x.At < len(s.States) {
			s.States[x.At] = x.State
		}
	}
	if at := slices.Index(s.States, Culprit); at >= 0 && slices.Contains(s.States[at:], Good) {
		s.Aside = "A pass after the culprit is on a side branch that does not contain it."
		if slices.ContainsFunc(f.Culprits, func(c report.Culprit) bool { return c.Rate != nil }) {
			s.Aside = "A pass after the culprit is chance, or on a side branch: not every launch fails."
		}
	}
	return s
}

// Caption says in words what the strip shows, except its marks.
func (s Strip) Caption() string {
	text := fmt.Sprintf("Every commit from %s to %s: a mark where it was judged, a tick where it was not.", s.From, s.To)
	// They are shaded in the picture, which has no room to say why.
	if n := len(s.Suspects); n > 0 {
		text += fmt.Sprintf(" The culprit is among the shaded ones, %d.", n)
	}
	return strings.TrimSpace(text + " " + s.Aside)
}

// Unmarked says what a commit without a state is. Where there is a culprit, it may have been launched without a
// verdict being needed.
func (s Strip) Unmarked() string {
	if slices.Contains(s.States, Culprit) {
		return "not needed"
	}
	if len(s.Suspects) > 0 {
		return "not a suspect"
	}
	return "not tested"
}

// tested is what a job tested, in the singular: commits, or settings of one.
func tested(settings bool) string {
	if settings {
		return "setting"
	}
	return "commit"
}

// totals are what a job took, in one line. Candidates are called what, in the singular.
func totals(t report.Totals, what string) string {
	// A job that was answered from the store, or that ended before its first launch, took nothing.
	if t.Trials == 0 && (t.Wall == 0 || t.Reused > 0) {
		return ""
	}
	s := fmt.Sprintf("%s tested in %s", words.Count(t.Candidates, what), words.Count(t.Trials, "launch"))
	if t.Builds > 0 {
		s += " and " + words.Count(t.Builds, "build")
	}
	s += ", " + words.Seconds(t.Wall)
	if t.Cost != nil {
		s += fmt.Sprintf(", price %.4g", *t.Cost)
	}
	return s
}
