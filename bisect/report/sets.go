package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets"
)

// Sets is what a search over flags or hunks found, and the words for its sets.
type Sets struct {
	sets.Finding
	Base   string                           // what the search began from, in words
	Words  func(sets.Set) string            // a set for people
	Assign func(sets.Set) map[string]string // flags away from their base; nil for hunks
	Hunks  []Hunk                           // by atom; nil for flags
	Levels map[string]float64               // of timed sets, by key: the median of the metric

	Off       bool                             // guilty sets are of what is turned off
	WordsOff  func(sets.Set) string            // such a set for people
	AssignOff func(sets.Set) map[string]string // its flags at their base; nil for hunks
}

// Hunk is a part of a difference, as a report shows it.
type Hunk struct {
	File  string    `json:"file"`
	Start int       `json:"start"` // lines in the new version; in the old one where Old is set
	End   int       `json:"end"`
	Old   bool      `json:"old,omitempty"`
	Role  sets.Role `json:"role"`
	Text  string    `json:"text"`
}

// Where names the place of a hunk.
func (h Hunk) Where() string {
	s := h.File
	switch {
	case h.Start == 0:
	case h.End > h.Start:
		s += fmt.Sprintf(":%d-%d", h.Start, h.End)
	default:
		s += fmt.Sprintf(":%d", h.Start)
	}
	if h.Old {
		s += " (as it was before)"
	}
	return s
}

// Term is what one flag, or flags that are on together, do to a metric.
type Term struct {
	Terms []string `json:"terms"`
	Ratio float64  `json:"ratio"`
	Low   float64  `json:"low"`
	High  float64  `json:"high"`
	Share float64  `json:"share"` // of all that the flags do, as logarithms
}

// overSets reports a report that is about flags or hunks rather than commits.
func (in Input) overSets() bool { return in.Axis == "flags" || in.Axis == "hunks" }

// SetsSummary is what a search over flags or hunks found, in one line.
func (in Input) SetsSummary() string {
	s := in.Sets
	switch {
	case len(s.Minimal) > 0:
		words := s.guilty(s.Minimal[0].Atoms) + ": " + guiltyWords(s.Minimal[0])
		if n := len(s.Minimal); n > 1 {
			words += fmt.Sprintf(", and %d more", n-1)
		}
		return words
	case in.Advice != "":
		return in.Advice
	case in.Finding.Result == bisect.NoDifference:
		return in.Finding.Ends.Why
	}
	return string(in.Finding.Result)
}

// guiltyHunks shows which parts of a culprit are to blame.
func (p *printer) guiltyHunks(hunks []Hunk) {
	const lines = 12
	for _, h := range hunks {
		role := ""
		if h.Role == sets.Carrier {
			role = "  (carrier: needed to build, not to blame)"
		}
		p.f("  hunk     %s%s\n", h.Where(), role)
		for i, line := range strings.Split(strings.TrimRight(h.Text, "\n"), "\n") {
			if i == lines {
				p.f("             ...\n")
				break
			}
			p.f("             %s\n", cut(line, 110))
		}
	}
}

// why prints the rows in which a culprit differs from its parent.
func (p *printer) why(in Input) {
	const most = 14
	if in.Explain == nil || len(in.Explain.Rows) == 0 {
		return
	}
	p.f("\n%s\n", in.Explain.Title)
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  %s\n", strings.Join(in.Explain.Columns, "\t"))
	for _, row := range telling(in.Explain.Rows, most) {
		fmt.Fprintf(t, "  %s\n", strings.Join(row, "\t"))
	}
	p.flush(t)
	if n := len(in.Explain.Rows); n > most {
		p.f("  and %d rows more: kbisect report --html FILE has them\n", n-most)
	}
	for _, note := range in.Explain.Notes {
		p.f("  %s\n", indent(note, "  "))
	}
}

// telling picks so many rows, those that changed before others, and keeps their order.
func telling(rows [][]string, most int) (out [][]string) {
	changed := func(row []string) bool {
		change := row[len(row)-1]
		return change != "" && !strings.HasSuffix(change, ", scatter")
	}
	n := 0
	for _, row := range rows {
		if changed(row) {
			n++
		}
	}
	others := most - min(n, most)
	for _, row := range rows {
		switch {
		case len(out) == most:
			return out
		case changed(row):
			out = append(out, row)
		case others > 0:
			out, others = append(out, row), others-1
		}
	}
	return out
}

// setsAnswer is the head of a report over sets.
func (p *printer) setsAnswer(in Input) {
	s := in.Sets
	if len(s.Minimal) == 0 && in.Finding.Result == bisect.Found { // slow, and ranked
		p.f("The flags make it slower: %s\n", in.Advice)
		return
	}
	for i, g := range s.Minimal {
		p.f("%s %s: %s\n", s.guilty(g.Atoms), verb(s, g), guiltyWords(g))
		p.certificate(s, g)
		if s.Hunks != nil {
			p.guiltyHunks(s.Guilty(g))
		}
		if i+1 < len(s.Minimal) {
			p.f("\n")
		}
	}
	if len(s.Minimal) == 0 && s.Result == bisect.Inconclusive {
		why := cmp.Or(in.Finding.Ends.Why, "no guilty set could be certified")
		if s.Spent {
			why = "the budget is used up before a guilty set was proven"
		}
		p.f("Inconclusive: %s.\n", why)
		if n := s.Narrowed.Len(); n > 0 && s.Narrowed.Len() < s.Space.Len() {
			p.f("  the smallest set that failed: %s\n", s.Words(s.Narrowed))
		}
	}
	for _, g := range s.Slow {
		p.f("%s %s slow, %.1f times what %s takes, but does not show the complaint\n", s.Words(g.Atoms), isAre(g.Atoms), g.Slow, s.Base)
	}
}

// guilty writes a guilty set for people.
func (s *Sets) guilty(x sets.Set) string {
	if s.Off {
		return s.WordsOff(x)
	}
	return s.Words(x)
}

func verb(s *Sets, g sets.Guilty) string {
	if g.Atoms.Len() == 1 || s.Assign != nil && len(s.Assign(g.Atoms)) == 1 {
		return "is to blame"
	}
	return "together are to blame"
}

func isAre(s sets.Set) string {
	if s.Len() == 1 {
		return "is"
	}
	return "are"
}

func guiltyWords(g sets.Guilty) string {
	s := string(g.Class)
	if g.Phase != "" && g.Class == bisect.Timeout {
		s += " in " + g.Phase
	}
	if !g.Verified {
		s += " (not certified)"
	}
	return s
}

// certificate says what the certificate of a guilty set rests on.
func (p *printer) certificate(s *Sets, g sets.Guilty) {
	if !g.Verified {
		return
	}
	var culprits, carriers []string
	for _, m := range g.Members {
		name := s.Space.Atom(m.Atom).Name
		switch flag, _, _ := strings.Cut(name, ": "); {
		case m.Role == sets.Carrier && s.Assign != nil && slices.ContainsFunc(g.Members, func(o sets.Member) bool {
			return o.Role == sets.Culprit && strings.HasPrefix(s.Space.Atom(o.Atom).Name, flag+": ")
		}): // a lower level of a guilty flag
		case m.Role == sets.Carrier:
			carriers = append(carriers, name)
		default:
			culprits = append(culprits, name)
		}
	}
	if s.Off && len(culprits) > 0 {
		p.f("\n  certified  by repeated trials it fails, and passes with %s\n", strings.Join(culprits, ", or with "))
	} else if len(culprits) > 0 {
		p.f("\n  certified  by repeated trials it fails, and passes without %s\n", strings.Join(culprits, ", or without "))
	} else {
		p.f("\n  certified  by repeated trials it fails; without any part of it it cannot be tried, so that the parts cannot be told apart\n")
		return
	}
	if len(carriers) > 0 {
		p.f("  carriers   %s: needed to build or to be allowed, and not to blame\n", strings.Join(carriers, ", "))
	}
	for _, o := range g.Others {
		p.f("  instead    %s: %s\n", s.Space.Atom(o.Atom).Name, o.Answer)
	}
}

// setsRest prints what follows the answer: all sets, what to keep, claims, effects, tests.
func (p *printer) setsRest(in Input) {
	s := in.Sets
	if len(s.Minimal) > 1 || s.Complete {
		what := "Guilty sets found; there may be more"
		if s.Complete {
			what = "These are all minimal guilty sets"
		}
		p.f("\n%s\n", what)
		for i, g := range s.Minimal {
			p.f("  %d  %s: %s\n", i+1, s.guilty(g.Atoms), guiltyWords(g))
		}
	}
	if len(s.NotExcluded) > 0 {
		p.f("\nNot excluded: there may be guilty sets within\n")
		for i, x := range s.NotExcluded {
			if i == 3 {
				p.f("  and %d more\n", len(s.NotExcluded)-i)
				break
			}
			p.f("  %s\n", s.Words(x))
		}
	}
	p.keep(in)
	p.claims(s)
	p.terms(in)
	p.tests(s)
}

// keep prints what can be kept.
func (p *printer) keep(in Input) {
	s := in.Sets
	if s.Keep == nil && s.Recommended == nil {
		return
	}
	p.f("\nWhat can be kept (against %s)\n", s.Base)
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	row := func(what string, x sets.Safe) {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", what, s.Words(x.Atoms), timed(x), map[bool]string{true: "confirmed"}[x.Confirmed])
	}
	if s.Keep != nil {
		row("most", *s.Keep)
	}
	for _, x := range s.Safe {
		if x.Maximal && (s.Keep == nil || !x.Atoms.Equal(s.Keep.Atoms)) && (s.Recommended == nil || !x.Atoms.Equal(s.Recommended.Atoms)) {
			row("or", x)
		}
	}
	if s.Recommended != nil {
		row("recommended", *s.Recommended)
	}
	p.flush(t)
	if s.Recommended != nil && s.Recommended.Atoms.Len() > 1 && s.Recommended.Effect != nil && s.Recommended.Effect.Metric != "" {
		p.f("  These were timed as a whole: what one of their changes costs or gains, kbisect compare tells.\n")
	}
}

func timed(x sets.Safe) string {
	switch {
	case x.Effect == nil || x.Effect.Metric == "" && x.Atoms.Len() == 0: // the base itself
		return ""
	case x.Effect.Metric == "":
		return "could not be timed"
	}
	return fmt.Sprintf("%s %.3f times (%.3f to %.3f)", x.Effect.Metric, x.Effect.Ratio, x.Effect.Low, x.Effect.High)
}

// claims prints the verdict table.
func (p *printer) claims(s *Sets) {
	if len(s.Claims) == 0 {
		return
	}
	p.f("\nThe claims\n")
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, c := range s.Claims {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", strings.ReplaceAll(string(c.Verdict), "-", " "), c.Name, c.Why)
	}
	p.flush(t)
}

// terms prints what single flags and pairs do to the metric.
func (p *printer) terms(in Input) {
	if len(in.Terms) == 0 && in.Advice == "" {
		return
	}
	p.f("\nWhat the flags cost and gain\n")
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, e := range in.Terms {
		fmt.Fprintf(t, "  %s\t%+.1f %%\t(%+.1f to %+.1f %%)\n", strings.Join(e.Terms, " with "), 100*(e.Ratio-1), 100*(e.Low-1), 100*(e.High-1))
	}
	p.flush(t)
	if in.Advice != "" {
		p.f("  %s\n", in.Advice)
	}
}

// tests lists the ledger.
func (p *printer) tests(s *Sets) {
	if len(s.Tests) == 0 {
		return
	}
	c := s.Counts
	p.f("\nThe tests: %d run (%d pass, %d fail, %d unresolved), %d inferred\n", c.Tests, c.Pass, c.Fail, c.Unjudged, c.Inferred)
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, x := range s.Tests {
		how := fmt.Sprintf("%.2f s", x.Seconds)
		if x.Inferred {
			how = "inferred"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", x.Purpose, x.Answer, how, s.Words(x.Set), cut(x.Why, 60))
	}
	p.flush(t)
}

// assignment is a set in the terms of JSON.
type assignment struct {
	Assign map[string]string `json:"assign"`
	Hunks  []Hunk            `json:"hunks,omitempty"`
}

// Guilty lists the hunks of a guilty set with their roles.
func (s *Sets) Guilty(g sets.Guilty) []Hunk { return s.assignment(g.Atoms, g.Roles()).Hunks }

func (s *Sets) assignment(x sets.Set, roles []sets.Member) assignment {
	a := assignment{Assign: map[string]string{}}
	if s.Assign != nil {
		a.Assign = s.Assign(x)
		return a
	}
	for _, i := range x.Atoms() {
		h := s.Hunks[i]
		for _, m := range roles {
			if m.Atom == i {
				h.Role = m.Role
			}
		}
		a.Hunks = append(a.Hunks, h)
	}
	return a
}

// blamed is a guilty set in the terms of JSON.
func (s *Sets) blamed(g sets.Guilty) assignment {
	a := s.assignment(g.Atoms, g.Roles())
	if s.Off && s.AssignOff != nil {
		a.Assign = s.AssignOff(g.Atoms)
	}
	return a
}

type minimalSet struct {
	assignment
	Class     bisect.Class  `json:"class"`
	Phase     *string       `json:"phase"`
	Certified bool          `json:"certified"`
	Culprits  []string      `json:"culprits"`
	Carriers  []string      `json:"carriers"`
	Others    []valueAnswer `json:"other_values"`
}

type valueAnswer struct {
	Name   string      `json:"name"`
	Answer sets.Answer `json:"answer"`
}

type safeSet struct {
	assignment
	Metric    map[string]float64 `json:"metric"`
	Ratio     *float64           `json:"ratio"`
	Low       *float64           `json:"low"`
	High      *float64           `json:"high"`
	Maximum   bool               `json:"maximum"`
	Maximal   bool               `json:"maximal"`
	Confirmed bool               `json:"confirmed"`
}

// slowSet is slow without showing the complaint, a time-out.
type slowSet struct {
	assignment
	Ratio   float64 `json:"ratio"` // its time over that of nothing on
	Seconds float64 `json:"seconds"`
}

type hypothesis struct {
	Name    string       `json:"name"`
	Claim   []string     `json:"claim"`
	Verdict sets.Verdict `json:"verdict"`
	With    []string     `json:"with"`
	Others  []string     `json:"others"`
	Why     string       `json:"why"`
}

type setTest struct {
	assignment
	Purpose  sets.Purpose `json:"purpose"`
	Answer   sets.Answer  `json:"answer"`
	Inferred bool         `json:"inferred"`
	Class    bisect.Class `json:"class"`
	Phase    *string      `json:"phase"`
	Seconds  float64      `json:"seconds"`
}

// addSets fills in the part of the document that a search over sets has found.
func (d *Document) addSets(in Input) {
	s := in.Sets
	d.Complete = s.Complete
	for _, g := range s.Minimal {
		m := minimalSet{assignment: s.blamed(g), Class: g.Class, Phase: text(g.Phase), Certified: g.Verified, Culprits: []string{}, Carriers: []string{}, Others: []valueAnswer{}}
		for _, x := range g.Roles() {
			to := &m.Culprits
			if x.Role == sets.Carrier {
				to = &m.Carriers
			}
			*to = append(*to, s.Space.Atom(x.Atom).Name)
		}
		for _, o := range g.Others {
			m.Others = append(m.Others, valueAnswer{s.Space.Atom(o.Atom).Name, o.Answer})
		}
		d.MinimalSets = append(d.MinimalSets, m)
	}
	for _, x := range s.NotExcluded {
		d.NotExcluded = append(d.NotExcluded, s.assignment(x, nil))
	}
	for _, g := range s.Slow {
		d.SlowSets = append(d.SlowSets, slowSet{s.assignment(g.Atoms, g.Roles()), g.Slow, g.Seconds})
	}
	for _, x := range s.Safe {
		d.SafeSets = append(d.SafeSets, in.safeSet(x))
	}
	if s.Recommended != nil {
		x := in.safeSet(*s.Recommended)
		d.Recommended = &x
	}
	for _, c := range s.Claims {
		d.Hypotheses = append(d.Hypotheses, s.hypothesis(c))
	}
	for _, x := range s.Tests {
		d.Tests = append(d.Tests, setTest{s.assignment(x.Set, nil), x.Purpose, x.Answer, x.Inferred, x.Class, text(x.Phase), x.Seconds})
	}
}

func (in Input) safeSet(x sets.Safe) safeSet {
	out := safeSet{assignment: in.Sets.assignment(x.Atoms, nil), Metric: map[string]float64{}, Maximum: x.Maximum, Maximal: x.Maximal, Confirmed: x.Confirmed}
	if x.Effect != nil && x.Effect.Metric != "" {
		out.Ratio, out.Low, out.High = &x.Effect.Ratio, &x.Effect.Low, &x.Effect.High
		if v, ok := in.Sets.Levels[x.Atoms.Key()]; ok {
			out.Metric[x.Effect.Metric] = v
		}
	}
	return out
}

func (s *Sets) hypothesis(c sets.Judged) hypothesis {
	h := hypothesis{Name: c.Name, Claim: s.settings(c.Atoms), Verdict: c.Verdict, With: []string{}, Others: []string{}, Why: c.Why}
	for _, w := range c.With {
		h.With = append(h.With, strings.Join(s.settings(w), " "))
	}
	for _, o := range c.Others {
		h.Others = append(h.Others, strings.Join(s.settings(o), " "))
	}
	return h
}

// settings writes a set as "flag=value", or by the names of its atoms.
func (s *Sets) settings(x sets.Set) []string {
	var out []string
	if s.Assign != nil {
		a := s.Assign(x)
		for _, name := range slices.Sorted(maps.Keys(a)) {
			out = append(out, name+"="+a[name])
		}
		return out
	}
	for _, i := range x.Atoms() {
		out = append(out, s.Space.Atom(i).Name)
	}
	return out
}
