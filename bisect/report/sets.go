package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/sets"
)

// Sets is what a search over flags or hunks found, with what turns its sets into names. Sets of atoms themselves never
// get into a document: they mean nothing without the space.
type Sets struct {
	sets.Finding
	Words  func(sets.Set) string            // a set for people
	Assign func(sets.Set) map[string]string // flags away from their base; nil for hunks
	Hunks  []Hunk                           // by atom; nil for flags
	Levels map[string]float64               // of timed sets, by key: the median of the metric

	Setting func(sets.Set) *Setting // what makes a program run with a set of flags; nil for hunks
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
	switch {
	case h.Start > 0:
		return h.File + ":" + h.Lines()
	case h.Old:
		return h.File + beforeChange
	}
	return h.File
}

// beforeChange marks what the change took out.
const beforeChange = " (before the change)"

// Lines are those of a hunk that has any, such as 10-12.
func (h Hunk) Lines() string {
	s := strconv.Itoa(h.Start)
	if h.End > h.Start {
		s += "-" + strconv.Itoa(h.End)
	}
	if h.Old {
		s += beforeChange
	}
	return s
}

// Blocks are hunks in the order of files and lines, with neighbours of the same role joined into one.
func Blocks(hunks []Hunk) (out []Hunk) {
	hunks = slices.Clone(hunks)
	slices.SortStableFunc(hunks, func(a, b Hunk) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Start, b.Start))
	})
	for _, h := range hunks {
		if n := len(out) - 1; n >= 0 && h.Start > 0 && out[n].File == h.File && out[n].End+1 == h.Start && out[n].Old == h.Old && out[n].Role == h.Role {
			out[n].End, out[n].Text = h.End, strings.TrimSuffix(out[n].Text, "\n")+"\n"+h.Text
			continue
		}
		out = append(out, h)
	}
	return out
}

// Assignment is a set as a document shows it: flags away from their base with their values, or hunks.
type Assignment struct {
	Assign map[string]string `json:"assign"`
	Hunks  []Hunk            `json:"hunks,omitempty"`

	name string // as the search itself calls it; not known of a past search
}

// Name is the set for people.
func (a Assignment) Name() string {
	if a.name != "" {
		return a.name
	}
	return cmp.Or(strings.Join(a.Parts(), " "), "the base")
}

// Parts are what is set, in a fixed order.
func (a Assignment) Parts() []string {
	out := []string{}
	for name, value := range a.Assign {
		out = append(out, name+"="+value)
	}
	for _, h := range a.Hunks {
		out = append(out, h.Where())
	}
	slices.Sort(out)
	return out
}

// MinimalSet shows the complaint, and nothing smaller in it does. Culprits, Carriers and Steps hold names of atoms
// ("FLAG: FROM->TO", or a hunk); they are empty where the set was not verified.
type MinimalSet struct {
	Assignment
	Class     bisect.Class  `json:"class"`
	Phase     *string       `json:"phase"`
	Certified bool          `json:"certified"`
	Culprits  []string      `json:"culprits"`
	Carriers  []string      `json:"carriers"`
	Steps     []string      `json:"lower_values"` // carriers that are lower values of a guilty flag
	Others    []ValueAnswer `json:"other_values"`
}

// Required are the carriers, except for lower values of a flag that is guilty itself. It is nil where no part is known
// to be to blame, as then none is known to be merely required.
func (m MinimalSet) Required() []string {
	if len(m.Culprits) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.Carriers), func(name string) bool { return slices.Contains(m.Steps, name) })
}

// Undone are the ways to take a culprit out of a set, in words: a flag at the value before, or the set without a hunk.
func (m MinimalSet) Undone() (out []string) {
	for _, name := range m.Culprits {
		if step, ok := sets.ParseStep(name); ok {
			out = append(out, "with "+step.Flag+"="+step.From)
		} else {
			out = append(out, "without "+name)
		}
	}
	return out
}

// ValueAnswer is what another value of a guilty flag showed.
type ValueAnswer struct {
	Name   string      `json:"name"`
	Answer sets.Answer `json:"answer"`
}

// SafeSet does not show the complaint. Maximal says that nothing more can be on in it, Maximum that no safe set is
// worth more. Ratio, with its interval, is to nothing on; all three are null where the set was not timed. Metric is
// then empty.
type SafeSet struct {
	Assignment
	Metric    map[string]float64 `json:"metric"`
	Ratio     *float64           `json:"ratio"`
	Low       *float64           `json:"low"`
	High      *float64           `json:"high"`
	Better    string             `json:"better"` // lower or higher; "" where there is no ratio
	Maximum   bool               `json:"maximum"`
	Maximal   bool               `json:"maximal"`
	Confirmed bool               `json:"confirmed"`
	Setting   *Setting           `json:"setting"` // null for hunks
}

// Setting is what to give to a build and a run outside kbisect for a set of flags: all of them, also those at their
// base.
type Setting struct {
	Env     []string `json:"env"`     // NAME=value
	Args    []string `json:"args"`    // of the run
	Compile []string `json:"compile"` // macros and options for the compiler
	Flags   string   `json:"flags"`   // as kbisect takes them, behind a revision and a colon
}

// SlowSet is slow without showing the complaint, a time-out.
type SlowSet struct {
	Assignment
	Ratio   float64 `json:"ratio"` // its time over that of nothing on
	Seconds float64 `json:"seconds"`
}

// Hypothesis is a claim of the user and what became of it.
type Hypothesis struct {
	Name    string       `json:"name"`
	Claim   []string     `json:"claim"`
	Verdict sets.Verdict `json:"verdict"`
	With    []string     `json:"with"`
	Others  []string     `json:"others"`
	Why     string       `json:"why"`
}

// SetTest is one test of a set.
type SetTest struct {
	Assignment
	Purpose  sets.Purpose `json:"purpose"`
	Answer   sets.Answer  `json:"answer"`
	Inferred bool         `json:"inferred"`
	Class    bisect.Class `json:"class"`
	Phase    *string      `json:"phase"`
	Seconds  float64      `json:"seconds"`
}

// Term is what one flag, or flags that are on together, do to a metric.
type Term struct {
	Terms  []string `json:"terms"`
	Metric string   `json:"metric"`
	Better string   `json:"better"` // lower or higher
	Ratio  float64  `json:"ratio"`
	Low    float64  `json:"low"`
	High   float64  `json:"high"`
	Share  float64  `json:"share"` // of all that the flags do, as logarithms
}

// headline is the answer of a search over sets; advice is what to do about flags that were ranked by what they cost,
// the terms.
func (s *Sets) headline(f bisect.Finding, terms []Term, advice string) string {
	switch n := len(s.Minimal); {
	case n == 1:
		return s.caused(s.Minimal[0], f.Complaint)
	case n > 1:
		return fmt.Sprintf("%s; %s", s.caused(s.Minimal[0], f.Complaint), words.Count(n-1, "more minimal set"))
	case len(terms) > 0:
		return fmt.Sprintf("Flags change `%s` (%s is better): %s", terms[0].Metric, terms[0].Better, advice)
	case s.Spent:
		return "Inconclusive: the budget ran out before a cause was confirmed"
	}
	return "Inconclusive: " + cmp.Or(f.Ends.Why, "no cause was confirmed")
}

// caused says what a guilty set does. No phase is named where it times out in another one than all changes together
// do: the phase is then no part of the complaint.
func (s *Sets) caused(g sets.Guilty, all bisect.Complaint) string {
	if all.Phase != "" && all.Phase != g.Phase {
		g.Phase = ""
	}
	name, verb := s.Words(g.Atoms), "together cause"
	if g.Atoms.Len() == 1 || s.Assign != nil && len(s.Assign(g.Atoms)) == 1 {
		verb = "causes"
	}
	out := fmt.Sprintf("%s %s %s", name, verb, words.Failure(g.Class, g.Phase))
	if !g.Verified {
		out += " (not verified)"
	}
	return out
}

// assignment is a set with the roles of its hunks.
func (s *Sets) assignment(x sets.Set, roles []sets.Member) Assignment {
	a := Assignment{Assign: map[string]string{}, name: s.Words(x)}
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

// Guilty lists the hunks of a guilty set with their roles.
func (s *Sets) Guilty(g sets.Guilty) []Hunk { return s.assignment(g.Atoms, g.Roles()).Hunks }

// addSets fills in the part of the document that a search over sets has found.
func (d *Search) addSets(s *Sets) {
	d.Complete = s.Complete
	for _, g := range s.Minimal {
		m := MinimalSet{Assignment: s.assignment(g.Atoms, g.Roles()), Class: g.Class, Phase: text(g.Phase), Certified: g.Verified, Culprits: []string{}, Carriers: []string{}, Steps: []string{}, Others: []ValueAnswer{}}
		for _, x := range g.Roles() {
			to := &m.Culprits
			if x.Role == sets.Carrier {
				to = &m.Carriers
			}
			*to = append(*to, s.Space.Atom(x.Atom).Name)
			if x.Role == sets.Carrier && s.step(x.Atom, g) {
				m.Steps = append(m.Steps, s.Space.Atom(x.Atom).Name)
			}
		}
		for _, o := range g.Others {
			m.Others = append(m.Others, ValueAnswer{s.Space.Atom(o.Atom).Name, o.Answer})
		}
		d.MinimalSets = append(d.MinimalSets, m)
	}
	for _, x := range s.NotExcluded {
		d.NotExcluded = append(d.NotExcluded, s.assignment(x, nil))
	}
	for _, g := range s.Slow {
		d.SlowSets = append(d.SlowSets, SlowSet{s.assignment(g.Atoms, g.Roles()), g.Slow, g.Seconds})
	}
	for _, x := range s.Safe {
		d.SafeSets = append(d.SafeSets, s.safe(x))
	}
	if s.Recommended != nil {
		x := s.safe(*s.Recommended)
		d.Recommended = &x
	}
	for _, c := range s.Claims {
		d.Hypotheses = append(d.Hypotheses, s.hypothesis(c))
	}
	for _, x := range s.Tests {
		d.Tests = append(d.Tests, SetTest{s.assignment(x.Set, nil), x.Purpose, x.Answer, x.Inferred, x.Class, text(x.Phase), x.Seconds})
	}
}

// step reports whether an atom is a lower value of a flag of which another atom is guilty: it is on only because the
// higher value requires it.
func (s *Sets) step(atom int, g sets.Guilty) bool {
	if s.Assign == nil {
		return false
	}
	own := s.Assign(sets.Of(atom))
	return slices.ContainsFunc(g.Roles(), func(m sets.Member) bool {
		for flag := range s.Assign(sets.Of(m.Atom)) {
			if _, same := own[flag]; same && m.Role == sets.Culprit {
				return true
			}
		}
		return false
	})
}

// safe has numbers only for a set that was timed.
func (s *Sets) safe(x sets.Safe) SafeSet {
	out := SafeSet{Assignment: s.assignment(x.Atoms, nil), Metric: map[string]float64{}, Maximum: x.Maximum, Maximal: x.Maximal, Confirmed: x.Confirmed}
	if x.Effect != nil && x.Effect.Metric != "" {
		out.Ratio, out.Low, out.High, out.Better = &x.Effect.Ratio, &x.Effect.Low, &x.Effect.High, words.Direction(x.Effect.Higher)
		if v, ok := s.Levels[x.Atoms.Key()]; ok {
			out.Metric[x.Effect.Metric] = v
		}
	}
	if s.Setting != nil {
		out.Setting = s.Setting(x.Atoms)
	}
	return out
}

// hypothesis is a claim with what it needs besides itself (with) and what fails without it (others), one string a set.
func (s *Sets) hypothesis(c sets.Judged) Hypothesis {
	h := Hypothesis{Name: c.Name, Claim: s.settings(c.Atoms), Verdict: c.Verdict, With: []string{}, Others: []string{}, Why: c.Why}
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
