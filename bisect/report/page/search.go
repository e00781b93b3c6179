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
)

// finder makes the page of a search.
// Its methods make one part of the page each; what needs no ledger or place is a function.
type finder struct {
	*report.Search
	ledger   report.Ledger
	at       map[string]int // position in the range by commit, the good end at 0
	ordered  bool           // the positions are those in the history
	culprits map[string]bool
}

// searchPage has its sections in the order in which people ask: which commit, what else it may be, what one can keep,
// why it differs, how the search went, how sure it is, and what was launched for it.
func searchPage(d *report.Search, l report.Ledger) Page {
	f := &finder{Search: d, ledger: l, culprits: map[string]bool{}}
	for _, c := range d.Culprits {
		f.culprits[c.Commit] = true
	}
	// Tables and pictures all go by the places of the commits.
	f.place()
	v, r := f.view(), f.drawn()
	metrics, what := r.Metrics(), tested(d.Axis != report.AxisHistory)
	if d.Axis == report.AxisHunks {
		what = "combination"
	}
	p := Page{Session: d.Session, Result: string(d.Result), State: f.state(), Headline: cmp.Or(d.Headline, string(d.Result)), Cards: f.cards(), Strip: f.strip(), Totals: totals(d.Totals, what), Next: report.Next(d, l)}
	p.Sections = []Section{
		shares(d, l), notes(d.Warnings), prospect(d), suspects(d, l), setsSection(d), claims(d), keep(d), effects(d), f.diff(), why(d), f.proof(r, metrics), levels(d, l), f.log(r, metrics),
		v.timeline(d.Devices), v.phases(), v.cost(d.Totals, what, d.Devices, d.Unwatched), v.table(f.culprits)}
	return p
}

// place gives every commit its position in the range or, if the order of the range is no longer known, in the order of
// the first launches.
func (f *finder) place() {
	order := f.ledger.Order
	if f.ordered = len(order) > 0; !f.ordered {
		order = []string{f.Ends.Good}
	}
	f.at = map[string]int{}
	add := func(id string) {
		if _, known := f.at[id]; !known && id != "" {
			f.at[id] = len(f.at)
		}
	}
	for _, id := range order {
		add(id)
	}
	// Parts of a change that were tested later, and commits that left the range since, stand behind it.
	for _, l := range f.ledger.Launches {
		add(l.Candidate.Commit)
	}
	for _, s := range f.Steps {
		add(s.Commit)
	}
	for _, c := range f.Culprits {
		add(c.Commit)
	}
}

// view is the launches of a search as tables and pictures take them.
func (f *finder) view() view {
	// A state is that of a commit as it is, whatever flags it was launched with besides.
	states := map[string]State{}
	for _, x := range f.places() {
		states[x.Commit] = x.State
	}
	v := view{
		session: f.Session, flags: f.Axis == report.AxisFlags, launches: f.ledger.Launches, limits: f.ledger.Limits,
		at:    func(c bisect.Candidate) int { return f.at[c.Commit] },
		state: func(bisect.Candidate) State { return "" },
	}
	// Tests within a culprit have commits of their own that are in no history; "part of it" says so.
	v.name = func(c bisect.Candidate) string {
		name := bisect.ShortID(c.Commit)
		switch {
		case f.Axis == report.AxisFlags:
			return v.away(c)
		case c.Commit == f.Ends.Good && c.Assign == "":
			name += " (good end)"
		case c.Assign != "":
			name += ":" + c.Assign
		case !f.searched(c):
			name += " (part of it)"
		}
		return name
	}
	if f.Axis != report.AxisHistory {
		v.state = v.worst
		return v
	}
	v.state = func(c bisect.Candidate) State {
		if !f.searched(c) {
			return ""
		}
		return states[c.Commit]
	}
	return v
}

// searched reports whether a candidate is a commit of the range as it is, not a part of a change or a setting of flags
// that was tested after the search.
func (f *finder) searched(c bisect.Candidate) bool {
	return f.Axis != report.AxisHistory || c.Assign == "" && (!f.ordered || f.at[c.Commit] < len(f.ledger.Order))
}

// named is a commit with its subject.
func (f *finder) named(id string) string { return named(f.ledger, id) }

// lastLine is the last line that a culprit printed before it crashed; in other classes the reason quotes it.
func lastLine(ledger report.Ledger, c report.Culprit) (line string) {
	for _, l := range ledger.Launches {
		if c.Class == bisect.Crash && l.Candidate.Commit == c.Commit && l.Outcome.Class == c.Class {
			lines := strings.Split(words.Lines(l.Outcome.Tail), "\n")
			if line = words.Cut(lines[len(lines)-1], 100); strings.HasPrefix(strings.TrimSpace(line), "File ") { // the outermost frame of Python
				line = ""
			}
		}
	}
	return line
}

// suspects are the commits that may be the culprit where none is named, the likeliest first. Where the machine stopped
// the search, none is listed.
func suspects(d *report.Search, l report.Ledger) Section {
	s := Section{ID: "suspects", Title: "Suspects"}
	if len(d.Suspects) == 0 || d.Result == bisect.Broken {
		return s
	}
	t := Table{Title: "Commits that may be the culprit", Columns: []string{"commit", "probability", "subject", "why it is not excluded"}, Right: []string{"probability"}}
	for _, s := range d.Suspects {
		t.Rows = append(t.Rows, []string{bisect.ShortID(s.Commit), words.Percent(s.Probability), cmp.Or(s.Subject, l.Info(s.Commit).Subject), s.Why})
	}
	// A long list without a ranking is looked up rather than read.
	t.Detail = alike(d.Suspects) && len(d.Suspects) > mostSuspects
	s.Tables = []Table{t}
	return s
}

// prospect is the early forecast of a search that came to no answer.
func prospect(d *report.Search) Section {
	if d.Prospect == nil || d.Result == bisect.Found || d.Complaint != nil && d.Complaint.Ends != nil { // more is known by now
		return Section{}
	}
	p := *d.Prospect
	p.Left = 0 // what was left of the budget then is of no use now
	// The words are those that the search said while it ran.
	head, hints := words.Prospect(p)
	return Section{ID: "forecast", Title: fmt.Sprintf("Forecast after the first %s", words.Count(p.Made, "launch")), List: append([]string{head}, hints...)}
}

// shares is the table of what the difference between the ends is made of, where that is not one culprit alone.
func shares(d *report.Search, l report.Ledger) Section {
	t := Table{Title: "Changes along the range", Columns: []string{"commit", "change (95 % CI)", "share (95 % CI)", "subject"}}
	add := func(what string, e *report.Effect, s *report.Share, subject string) {
		moved, share := "", ""
		if e != nil {
			moved = changeOf(e.Ratio, e.Low, e.High)
		}
		if s != nil {
			share = s.Words()
		}
		t.Rows = append(t.Rows, []string{what, moved, share, subject})
	}
	for _, c := range d.Culprits {
		if c.Share != nil {
			add(bisect.ShortID(c.Commit), c.Effect, shareOf(c), cmp.Or(c.Subject, l.Info(c.Commit).Subject))
		}
	}
	for _, m := range d.Fixes {
		where, subject := "fixed by "+bisect.ShortID(m.By), l.Info(m.By).Subject
		if m.Commits > 1 {
			where, subject = fmt.Sprintf("fixed after %s, up to %s", bisect.ShortID(m.After), bisect.ShortID(m.By)), fmt.Sprintf("one of %d commits", m.Commits)
		}
		add(where, &m.Effect, m.Share, subject)
	}
	// A single culprit that explains all of the difference needs no table.
	if len(t.Rows) < 2 && len(d.Fixes) == 0 && (d.Rest == nil || d.Rest.Value == 0) {
		return Section{}
	}
	if d.Rest != nil {
		add("not explained", nil, d.Rest, "")
	}
	return Section{ID: "shares", Brief: true, Title: "What the difference between the ends is made of", Tables: []Table{t}}
}

// shareOf is the share of a culprit; documents of earlier versions have no interval of it.
func shareOf(c report.Culprit) *report.Share {
	s := &report.Share{Value: *c.Share, Low: *c.Share, High: *c.Share}
	if c.ShareLow != nil && c.ShareHigh != nil {
		s.Low, s.High = *c.ShareLow, *c.ShareHigh
	}
	return s
}

// why is the explanation of the culprit, where one was made.
func why(d *report.Search) Section {
	s := Section{ID: "explain", Title: "Why it differs"}
	if x := d.Explain; x != nil {
		s.Tables, s.List = []Table{{Title: x.Title, Columns: x.Columns, Rows: x.Rows, Right: []string{"parent", "culprit"}, Most: 14, First: x.Changed}}, x.Notes
	}
	return s
}

// levels is the table of commits all over the range against the good end.
func levels(d *report.Search, l report.Ledger) Section {
	metric := "the metric"
	if d.Complaint != nil {
		metric = cmp.Or(report.Text(d.Complaint.Metric), metric)
	}
	t := Table{Title: metric + " against the good end", Columns: []string{"commit", "change (95 % CI)", "subject"}}
	for _, x := range d.Levels {
		t.Rows = append(t.Rows, []string{bisect.ShortID(x.Commit), changeOf(x.Ratio, x.Low, x.High), l.Info(x.Commit).Subject})
	}
	return Section{ID: "levels", Title: "Level over the range", Tables: []Table{t}}
}

// unread says what was left out because nothing opened it.
func unread(d *report.Search) (out []string) {
	if d.Unread > 0 {
		out = append(out, fmt.Sprintf("%d of %s not built: they change files that neither build nor run opened (--no-learn builds them)", d.Unread, words.Count(d.Range, "commit")))
	}
	if n := d.UnreadHunks; n > 0 {
		out = append(out, fmt.Sprintf("%s not searched: in files that neither the culprit nor its parent opened", words.Count(n, "hunk")))
	}
	return out
}

// log is the verdicts in order, and where the launches lie.
func (f *finder) log(r chart.Range, metrics []chart.Metric) Section {
	s := Section{ID: "search", Title: "Search log"}
	if f.Range > 0 && f.Axis == report.AxisHistory {
		s.Title = fmt.Sprintf("Search log: %s, %d change the build's or run's inputs", words.Count(f.Range, "commit"), f.Matter)
	}
	// Sets are listed by their tests; without a step there is nothing in order.
	if len(r.Places) == 0 || f.Axis != report.AxisHistory && len(f.Steps) == 0 {
		return s
	}
	if !f.ordered {
		s.Missing = "The order of the commits is not known (the repository does not hold the range): they stand in the order in which they were launched."
	}
	s.Tables = []Table{f.stepTable()}
	s.Tables[0].Notes = append(s.Tables[0].Notes, unread(f.Search)...)
	if len(f.ledger.Launches) > 0 {
		s.Words = "From the good end on the left to the bad end on the right: a mark for each launch, a bar for the median of a commit with its interval, and below them the verdict on each commit."
		s.Charts = along(r, metrics)
	}
	// Metrics whose picture is folded have their tables anyway.
	for _, m := range metrics {
		s.Tables = append(s.Tables, f.levelTable(m))
	}
	return s
}

// stepTable is the verdicts in order. One of a commit that could not be tested has no confidence, and only steps of
// the search itself leave suspects.
func (f *finder) stepTable() Table {
	t := Table{Title: "Verdicts, in order", Columns: []string{"step", "commit", "verdict", "confidence", "left", "subject", "evidence"}, Right: []string{"confidence", "left"}}
	// Of several judgements the last one counts, as it rests on the most launches.
	for _, s := range f.Steps {
		left, sure, why := "", "", s.Verdict.Why
		if s.Role == bisect.RoleSearch {
			left = fmt.Sprint(s.Remaining)
		}
		if s.Verdict.Probability > 0 && s.Verdict.Call != bisect.Untestable {
			sure = words.Confidence(s.Verdict.Probability)
		}
		t.Rows = append(t.Rows, []string{string(s.Role), bisect.ShortID(s.Commit), s.Verdict.Word(), sure, left, f.ledger.Info(s.Commit).Subject, why})
		t.States = append(t.States, stateOf(s.Verdict))
	}
	return t
}

// levelTable holds the levels that the picture draws.
func (f *finder) levelTable(m chart.Metric) Table {
	t := Table{Title: "Levels of " + m.Name + strings.TrimSuffix(", "+m.Unit, ", "), Columns: []string{"commit", "place", "median", "low", "high", "launches", "interval"}, Right: []string{"place", "median", "low", "high", "launches"}, Detail: true}
	// Levels know commits by their places only.
	ids := map[int]string{}
	for id, i := range f.at {
		ids[i] = id
	}
	for _, l := range m.Levels {
		t.Rows = append(t.Rows, []string{f.named(ids[l.At]), fmt.Sprint(l.At), digits(l.Y), digits(l.Low), digits(l.High), fmt.Sprint(l.N), l.How})
	}
	return t
}

// diff is what the culprits changed, with the lines marked that are to blame.
func (f *finder) diff() Section {
	s := Section{ID: "diff", Title: "What the culprit changed"}
	var all []DiffLine
	hunks := 0
	for _, c := range f.Culprits {
		hunks += len(c.Hunks)
		diff := f.ledger.Diffs[c.Commit]
		if diff == "" {
			continue
		}
		// All diffs are shown as one, each below the name of its commit.
		if len(f.Culprits) > 1 {
			all = append(all, DiffLine{Kind: "file", Text: words.Printable(f.named(c.Commit))})
		}
		all = append(all, guiltyFirst(parseDiff(diff, c.Hunks))...)
	}
	if len(all) == 0 {
		return s
	}
	s.Words = "Against the first parent."
	if hunks > 0 {
		s.Words += " Lines marked “guilty” are the cause; those marked “carrier”, if any, are only required to build."
	}
	s.Diff = boundedDiff(all)
	return s
}

// places are the commits that were launched or judged, along the range, as they were judged last.
func (f *finder) places() []chart.Place {
	found := map[string]*chart.Place{}
	get := func(id string) *chart.Place {
		if found[id] == nil {
			found[id] = &chart.Place{At: f.at[id], Commit: id, Subject: words.Printable(f.ledger.Info(id).Subject)}
		}
		return found[id]
	}
	for _, l := range f.ledger.Launches {
		if f.searched(l.Candidate) {
			get(l.Candidate.Commit)
		}
	}
	for _, s := range f.Steps {
		x := get(s.Commit)
		x.State, x.Why = stateOf(s.Verdict), words.Printable(s.Verdict.Why)
	}
	// The proof outweighs what single steps have said.
	for id := range f.culprits {
		get(id).State = Culprit
	}
	var out []chart.Place
	for _, x := range found {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b chart.Place) int { return cmp.Compare(a.At, b.At) })
	return out
}
