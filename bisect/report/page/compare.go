package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/chart"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/sets"
)

// compared is what a comparison and a gate have in common; line says of one metric what the verdict rests on, which
// for a gate includes what the repository accepts.
type compared struct {
	report.Compared
	names [2]string
	line  func(report.Contrast) (word, note string)
}

// comparisonPage is of A against B. After a regression it proposes the search that goes on from there.
func comparisonPage(d *report.Comparison, l report.Ledger) Page {
	c := compared{Compared: d.Compared, names: [2]string{"A", "B"}}
	c.line = func(x report.Contrast) (string, string) { return x.Word(), x.Note(d.Effect) }
	// Every command that compares launches its two sides with the purposes of the ends of a search.
	v := sides(d.Session, l, c.names, map[bisect.Purpose]string{bisect.EndGood: "A", bisect.EndBad: "B"})
	head, change := d.Heading()
	var f rows
	f.add("change", change)
	f.row(sideRow("A", l, d.A))
	f.row(sideRow("B", l, d.B))
	f.add("confidence", report.Confidence(c.Compared))
	f.add("error", report.Text(d.Error))
	p := one(Page{Session: d.Session, Result: d.Result, State: contrastState(d.Result), Headline: cmp.Or(d.Verdict, d.Result), Totals: totals(d.Totals, tested(d.FlagsDiffer())), Next: report.Next(d, l)}, f)
	// The verdict leads with a change and its interval. The card has that interval in a row of its own.
	p.Cards[0].Head = cmp.Or(head, d.Result)
	p.Sections = []Section{c.metrics(v), notes(d.Warnings), launched(c.names, d.A, d.B), v.timeline(d.Devices), v.phases(), v.cost(d.Totals, tested(d.FlagsDiffer()), d.Devices, ""), v.table(nil)}
	return p
}

// gatePage is of the merge base against HEAD. Where equal inputs made launches needless, it has nothing of launches.
func gatePage(d *report.Gate, l report.Ledger) Page {
	c := compared{Compared: d.Compared, names: [2]string{"merge base", "HEAD"}, line: d.Line}
	session := report.Text(d.Session)
	v := sides(session, l, c.names, map[bisect.Purpose]string{bisect.EndGood: c.names[0], bisect.EndBad: c.names[1]})
	head, change := d.Heading()
	p := one(Page{Session: session, Result: d.Result, State: contrastState(d.Result), Headline: cmp.Or(d.Verdict, d.Result), Totals: totals(d.Totals, "commit"), Next: report.Next(d, l)}, gateRows(d, l, change))
	p.Cards[0].Head = cmp.Or(head, d.Result)
	metrics := c.metrics(v)
	metrics.List = accepted(d)
	p.Sections = []Section{metrics, notes(d.Warnings), gateSuspects(d), gateDiff(d, l), launched(c.names, d.Base, d.Head), v.timeline(d.Devices), v.phases(), v.cost(d.Totals, tested(false), d.Devices, ""), v.table(nil)}
	// Of sections about launches there would be only the titles.
	if d.NotLaunched != nil {
		p.Sections = []Section{metrics, notes(d.Warnings)}
	}
	return p
}

// gateRows are the culprit, or why there is none although one was searched for, and the two sides.
func gateRows(d *report.Gate, l report.Ledger, change string) []Row {
	const mostPlaces = 5 // of the culprit
	var f rows
	f.add("change", change)
	switch c := d.Culprit; {
	case c != nil:
		f.row(commitRow("culprit", l, c.Commit, c.Subject))
		f.add("author", authorWords(c.Author, c.Date))
		if c.Effect != nil {
			f.add("effect", report.Effect(*c.Effect).Words()+", against its parent")
		}
		f.add("confidence", c.Certainty())
		var places []string
		var hunks []report.Hunk
		for _, x := range c.Places {
			places, hunks = append(places, x.String()), append(hunks, report.Hunk{File: x.File, Start: x.Start, End: x.End, Role: sets.Culprit})
		}
		// The row names several places and quotes only the largest.
		f.row(Row{Name: "lines", Text: words.Listed(places, mostPlaces), Lines: changedLines(l.Diffs[c.Commit], hunks[:min(len(hunks), 1)])})
	case d.Search != nil:
		f.add("culprit", "not found: "+d.Search.Why)
	case d.Result == report.GateRegression:
		f.add("culprit", "one of the commits of the branch; --bisect finds which")
	}
	// A trade may be worth it: what got better is weighed against what got worse.
	if d.Result == report.GateRegression {
		f.add("better", d.Improved())
	}
	if d.Culprit == nil {
		f.add("confidence", report.Confidence(d.Compared))
	}
	f.row(sideRow("base", l, d.Base))
	f.row(sideRow("HEAD", l, d.Head))
	f.add("error", report.Text(d.Error))
	return f
}

// changedLines are the first lines that a diff adds and removes in these hunks, or anywhere if there is none of them.
func changedLines(diff string, in []report.Hunk) (out []DiffLine) {
	const most = 6
	lines := parseDiff(diff, in)
	marked := slices.ContainsFunc(lines, func(l DiffLine) bool { return l.Role != "" })
	for _, l := range lines {
		if (l.Kind == "add" || l.Kind == "del") && (l.Role != "" || !marked) {
			out = append(out, l)
		}
	}
	// A terminal has 24 lines, and the answer must fit them with its commands.
	if n := len(out); n > most {
		out = append(out[:most:most], DiffLine{Kind: "note", Text: fmt.Sprintf("… %d more", n-most)})
	}
	return out
}

// gateDiff is what the culprit changed.
func gateDiff(d *report.Gate, l report.Ledger) Section {
	s := Section{ID: "diff", Title: "What the culprit changed"}
	if d.Culprit != nil && l.Diffs[d.Culprit.Commit] != "" {
		s.Words, s.Diff = "Against the first parent.", boundedDiff(parseDiff(l.Diffs[d.Culprit.Commit], nil))
	}
	return s
}

// accepted says what the repository declares besides what the table shows. That an acceptance was not needed is said
// only where the gate passes: of one that is undecided or fails, it may be needed yet.
func accepted(d *report.Gate) (out []string) {
	fresh := 0
	for _, a := range d.Accepted {
		if a.New {
			fresh++
		}
		if !a.Seen && d.ExitCode == 0 && d.Result != report.GateOpen {
			out = append(out, fmt.Sprintf("Accepted, but not needed: %s up to %s (%s).", a.Name(), words.Change(a.Limit), a.Reason))
		}
	}
	if fresh > 0 {
		out = append(out, fmt.Sprintf("Recorded in kbisect-accepted.toml: %d. Commit it with the change.", fresh))
	}
	return out
}

// gateSuspects are what a search for the culprit left, where it did not name one.
func gateSuspects(d *report.Gate) Section {
	// A gate has no probabilities of suspects, unlike a search.
	t := Table{Title: "Commits that may be the culprit", Columns: []string{"commit", "subject"}}
	if d.Culprit == nil && d.Search != nil {
		for _, s := range d.Search.Suspects {
			t.Rows = append(t.Rows, []string{bisect.ShortID(s.Commit), s.Subject})
		}
	}
	return Section{ID: "suspects", Title: "Suspects", Tables: []Table{t}}
}

// metrics are the verdicts metric by metric.
func (c compared) metrics(v view) Section {
	s := Section{ID: "metrics", Title: "Metric by metric", Brief: true}
	if len(c.Contrasts) == 0 {
		return s
	}
	paired := fmt.Sprintf("paired change (%.4g %% CI)", 100*(1-c.ErrorRate))
	t := Table{
		Title: "Verdicts", Columns: []string{"verdict", "metric", "better", c.names[0], c.names[1], paired, "p", "note"},
		Right: []string{"p"}, Few: []string{"verdict", "metric", paired, c.names[0], c.names[1]},
	}
	for _, x := range c.Contrasts {
		word, note := c.line(x)
		b := x.Bound
		t.Rows = append(t.Rows, []string{word, x.Name(), words.Direction(x.Higher), x.A.Words(x.Unit), x.B.Words(x.Unit), change(b), words.P(float64(x.Holm)), note})
		// A table of numbers sets an improvement apart, which for the page as a whole is just a pass.
		state := contrastState(x.Result)
		if x.Result == report.GateImprovement {
			state = Better
		}
		t.States = append(t.States, state)
		if x.Result == report.GateRegression || x.Result == report.GateOpen {
			t.First = append(t.First, len(t.Rows)-1)
		}
	}
	// Readers ask for these when change and medians seem to contradict each other.
	t.Notes = []string{
		"Medians with their 95 % CI (order statistics). The change is of launches paired in turn, so that it may differ from that of the medians; it is what the verdict rests on: its interval holds however often one has looked and however many metrics there are. p: Mann-Whitney, corrected for all metrics (Holm).",
		fmt.Sprintf("Looked for: changes of %s and more, error %s over all metrics, %s of fresh launches in turn.", words.Percent(c.Effect), words.Percent(c.ErrorRate), words.Count(c.Pairs, "pair")),
	}
	if slices.ContainsFunc(c.Contrasts, report.Contrast.Overall) {
		t.Notes = append(t.Notes, "All cases: the geometric mean of the changes of the cases.")
	}
	s.Tables, s.Charts = []Table{t}, c.pictures(v)
	return s
}

// verdicts are the groups of the picture of all metrics, the most important first. A pass is not an improvement and has
// another colour.
var verdicts = []struct {
	result, words string
	state         State
}{
	{report.GateRegression, "Worse", Bad}, {report.GateOpen, "Cannot tell", Unsure}, {report.GateAccepted, "Worse, accepted", Other},
	{report.GateImprovement, "Better", Better}, {report.GatePass, "No change that matters", Good}, {report.NoDifference, "No change that matters", Good},
}

// mostLaunched is how many metrics have a picture of their launches.
const mostLaunched = 4

// pictures are the changes by verdict, and the launches behind those that matter most.
func (c compared) pictures(v view) (out []Chart) {
	var changes []chart.Changed
	var metrics []chart.One
	for _, g := range verdicts {
		for _, x := range report.With(g.result, c.Contrasts) {
			// A scale of ratios has no place for an open interval; the table shows it.
			if b := x.Bound; b.Value.Known() && b.Low.Known() && b.High.Known() && b.Low > 0 {
				name := words.Printable(x.Name())
				if x.Overall() {
					name += " (geometric mean)"
				}
				changes = append(changes, chart.Changed{Group: g.words, Name: name, State: g.state, Ratio: float64(b.Value), Low: float64(b.Low), High: float64(b.High), Value: words.Change(float64(b.Value)), Title: name + "\n" + change(b)})
			}
			// A mean over cases has no launches of its own. The table has the metrics that are not drawn.
			if x.Overall() || len(metrics) == mostLaunched {
				continue
			}
			one := chart.One{Metric: x.Metric, Case: report.Text(x.Case), Unit: x.Unit, Title: words.Printable(x.Name()), Middle: float64(x.A.Median), States: []State{Good, g.state}}
			for _, side := range []report.Summary{x.A, x.B} {
				one.Mid, one.Low, one.High = append(one.Mid, float64(side.Median)), append(one.Low, float64(side.Low)), append(one.High, float64(side.High))
			}
			metrics = append(metrics, one)
		}
	}
	if len(changes) > 0 {
		out = append(out, Chart{Label: "Change from " + c.names[0] + " to " + c.names[1] + ", with the interval that the verdict rests on", Picture: chart.Forest(changes, c.Effect, fmt.Sprintf("grey: changes of less than %s", words.Percent(c.Effect)))})
	}
	sides := []chart.Side{{Purpose: bisect.EndGood, Name: c.names[0]}, {Purpose: bisect.EndBad, Name: c.names[1]}}
	if launched := v.drawn().Launched(metrics, sides, c.Effect, "against the median of "+c.names[0]); len(launched.Rows) > 0 {
		out = append(out, Chart{Label: "Every launch, with medians and their 95 % intervals", Picture: launched})
	}
	return out
}

// change is a ratio with its bounds; the column says of what probability these are.
func change(b report.Estimate) string {
	v, low, high := float64(b.Value), float64(b.Low), float64(b.High)
	if !b.Value.Known() || !b.Low.Known() || !b.High.Known() || low <= 0 {
		return words.Change(v)
	}
	return fmt.Sprintf("%s (%s)", words.Change(v), words.Between(v, low, high))
}

// changeOf is change of a ratio whose bounds are plain numbers.
func changeOf(ratio, low, high float64) string {
	return change(report.Estimate{Value: report.Number(ratio), Low: report.Number(low), High: report.Number(high)})
}

// contrastState is the state of a result; "" for one that it does not know, such as the class of a failure.
// An improvement is good: nothing has to be done about it.
func contrastState(result string) State {
	return map[string]State{
		report.GateRegression: Bad, report.GatePass: Good, report.NoDifference: Good, report.GateImprovement: Good, report.GateAccepted: Other,
		report.GateOpen: Unsure, report.GateError: Unsure, "infra": Unsure, "interrupted": Unsure, "ok": Good,
	}[result]
}

// sideRow is one side of a comparison, and how it was asked for.
func sideRow(name string, l report.Ledger, c report.Candidate) Row {
	if c.Commit == "" {
		return Row{}
	}
	r := commitRow(name, l, c.Commit, words.Cut(c.Subject, 80))
	// Whoever typed the name of a branch looks for it; an id says nothing new.
	if c.Revision != "" && c.Revision != c.Commit && c.Revision != r.ID && c.Revision != name {
		r.Text = strings.TrimSuffix(c.Revision+": "+r.Text, ": ")
	}
	return r
}

// launched says how many launches there were of each side, and which of them do not count, where not all do.
func launched(names [2]string, all ...report.Candidate) Section {
	var f rows
	// Where every launch counts there is nothing to explain.
	if !slices.ContainsFunc(all, func(c report.Candidate) bool {
		return c.Counted < c.Launches || len(c.LeftOut)+len(c.Marked) > 0 || c.WarmUps > 0
	}) {
		return Section{}
	}
	for i, c := range all {
		s := fmt.Sprintf("%s, %d counted", words.Count(c.Launches, "launch"), c.Counted)
		if c.WarmUps > 0 {
			s += fmt.Sprintf("; before them %d to fill empty caches", c.WarmUps)
		}
		for _, x := range c.LeftOut {
			s += fmt.Sprintf("; %d left out: %s", x.Launches, x.Why)
		}
		for _, x := range c.Marked {
			s += fmt.Sprintf("; %d counted although %s", x.Launches, x.Why)
		}
		f.add(names[i], s)
	}
	return Section{ID: "counted", Title: "How many launches count", Facts: f}
}
