package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Schema names the JSON document of a search and its version.
const Schema = "kbisect.finding/1"

// The axes of a search.
const (
	AxisHistory = "history"
	AxisFlags   = "flags"
	AxisHunks   = "hunks"
)

// Search is what a search came to, over commits, flags or hunks. Keys of the other axes are empty.
type Search struct {
	Schema      string           `json:"schema"`
	Session     string           `json:"session"`
	Axis        string           `json:"axis"`
	Result      bisect.Result    `json:"result"`
	Headline    string           `json:"headline"` // the answer in one line
	Complaint   *Complaint       `json:"complaint"`
	Culprits    []Culprit        `json:"culprits"`
	Fixes       []Fix            `json:"fixes"`
	Rest        *Share           `json:"rest"` // of the difference between the ends that culprits and fixes do not explain
	Suspects    []Suspect        `json:"suspects"`
	MinimalSets []MinimalSet     `json:"minimal_sets"`
	SafeSets    []SafeSet        `json:"safe_sets"`
	Recommended *SafeSet         `json:"recommended"`
	SlowSets    []SlowSet        `json:"slow_sets"`
	NotExcluded []Assignment     `json:"not_excluded"` // within these there may be more guilty sets
	Effects     []Term           `json:"effects"`
	Advice      *string          `json:"advice"`
	Levels      []Level          `json:"levels"`
	Hypotheses  []Hypothesis     `json:"hypotheses"`
	Tests       []SetTest        `json:"tests"`
	Complete    bool             `json:"complete"`
	Ends        Ends             `json:"ends"`
	Steps       []bisect.Step    `json:"steps"`
	Range       int              `json:"range"`        // commits in it
	Matter      int              `json:"matter"`       // of these, commits that can be the culprit
	Unread      int              `json:"unread"`       // left out because no build and no launch opened what they change
	UnreadHunks int              `json:"unread_hunks"` // of culprits, likewise
	Prospect    *bisect.Prospect `json:"prospect"`     // that what was looked for costs too much; null where it does not
	Explain     *Table           `json:"explain"`
	Totals      Totals           `json:"totals"`
	Devices     []string         `json:"devices"`
	Warnings    []string         `json:"warnings"`
	Error       *string          `json:"error"`
	Stored      *Stored          `json:"stored"` // that this is an earlier answer; null where it was searched for
	Facts

	Spent     bool   `json:"budget_used_up"` // unknown, false, of a search before this key
	Unwatched string `json:"-"`              // why no device was watched, when one was wanted
}

func (*Search) schema() string { return Schema }

// about implements Document.
func (d *Search) about() subject {
	s := subject{totals: d.Totals, devices: d.Devices, left: leftOut(d)}
	if c := d.Complaint; c != nil && c.Ends != nil {
		s.metric, s.higher = c.Ends.Metric, c.Ends.Higher
	}
	return s
}

// leftOut is what a search left out of its range and of its culprits.
func leftOut(d *Search) LeftOut {
	switch left := d.Range - d.Matter; {
	case d.Axis != AxisHistory:
		return LeftOut{}
	case d.Unread > 0 || d.UnreadHunks > 0:
		return LeftOut{left, d.UnreadHunks, new("inotify")}
	case left > 0:
		return LeftOut{left, 0, new("paths")}
	}
	return LeftOut{}
}

// next implements Document.
func (d *Search) next(l Ledger) (out []Command) {
	add := func(why string, argv ...string) { out = append(out, Command{why, argv}) }
	switch {
	case d.Result == bisect.Found:
		for _, c := range d.Culprits {
			add("", "git", "show", bisect.ShortID(c.Commit))
			if log := outputFile(l, c); log != "" {
				add("read what it printed", "less", log)
			}
		}
		if r := d.Recommended; r != nil && r.Setting != nil && len(r.Parts()) > 0 {
			at := bisect.ShortID(d.Ends.Bad)
			base := at // without flags, a commit runs with its own defaults, which may be what fails
			if i := slices.IndexFunc(l.Launches, func(x Launch) bool { return x.Purpose == bisect.EndGood && x.Candidate.Assign != "" }); i >= 0 {
				base += ":" + l.Launches[i].Candidate.Assign
			}
			add("time it against the base", l.Call.Again("compare", base, at+":"+r.Setting.Flags)...)
		}
		if d.Spent {
			add("look for more", l.Call.Line("run", "--resume", "--budget", "10m")...)
		}
	case d.Result == bisect.Interrupted, d.Result == bisect.Broken:
		add("continue this session", l.Call.Line("run", "--resume")...)
	case d.Result == bisect.Inconclusive && d.Spent:
		add("continue this session", l.Call.Line("run", "--resume", "--budget", "10m")...)
	case (d.Result == bisect.Inconclusive || d.Result == bisect.NoDifference) && d.Ends.Bad != "":
		out = append(out, unsettled(d, l))
	}
	return append(out, every(l, d.Session))
}

// unsettled is the command that is likeliest to help where a search ended without an answer: a look at the suspects or
// at the ends, other ends, or more launches of them.
func unsettled(d *Search, l Ledger) Command {
	good, bad := bisect.ShortID(d.Ends.Good), bisect.ShortID(d.Ends.Bad)
	launched, failed := map[bisect.Purpose]int{}, map[bisect.Purpose]bool{}
	for _, x := range l.Launches {
		launched[x.Purpose]++
		failed[x.Purpose] = failed[x.Purpose] || x.Outcome.Class != bisect.OK
	}
	run := map[string][]string{"better": {"run", "--improvement"}, "worse": {"run"}}[d.Ends.Opposite]
	measure := func(args ...string) []string { return l.Call.Again(append(args, l.Call.metric...)...) }
	onWall := []string{"run", "--find", "slow", "--metric", "wall", "--bad", bad}
	switch n := len(d.Suspects); {
	case n > 0 && d.Result == bisect.Inconclusive:
		show := []string{"git", "show", "--stat"}
		const most = 5
		which := "the suspects"
		if n > most {
			which = fmt.Sprintf("the first %d of %d suspects", most, n)
		}
		for _, s := range d.Suspects[:min(n, most)] {
			show = append(show, bisect.ShortID(s.Commit))
		}
		return Command{"see what " + which + " change", show}
	case good == "", failed[bisect.EndGood] && (failed[bisect.EndBad] || launched[bisect.EndBad] == 0):
		return Command{"find a commit that passes", l.Call.Again("run", "--find-good", "--bad", bad)}
	case (failed[bisect.EndGood] || failed[bisect.EndBad]) && d.Axis == AxisHistory:
		return Command{"see what both ends do and print", l.Call.Again("try", "--good", good, "--bad", bad)}
	case d.Ends.Opposite != "":
		return Command{"find what made it " + d.Ends.Opposite, measure(append(run, "--good", good, "--bad", bad)...)}
	case d.Axis == AxisFlags:
		return Command{"compare the time of the whole run", l.Call.Again(append(onWall, "--axis", d.Axis)...)}
	case launched[bisect.EndGood] == 1 && d.Result == bisect.NoDifference:
		return Command{"compare the time of the whole run", l.Call.Again(append(onWall, "--good", good)...)}
	}
	return Command{"launch both until a change is shown or ruled out", measure("compare", good, bad)}
}

// outputFile is the file that keeps the output of the last launch in which a culprit showed what it is blamed for, and
// printed something; "" for none.
func outputFile(ledger Ledger, c Culprit) (log string) {
	for _, l := range ledger.Launches {
		if l.Candidate == (bisect.Candidate{Commit: c.Commit}) && l.Outcome.Class == c.Class && l.Outcome.Log != "" && l.Outcome.Tail != "" {
			log = l.Outcome.Log
		}
	}
	return log
}

// Stored says where an answer comes from that was not searched for again.
type Stored struct {
	Session string    `json:"session"`
	Made    time.Time `json:"made"`
	Version string    `json:"version"` // of kbisect
}

// Complaint is what the bad end shows and the good end does not.
type Complaint struct {
	Class  bisect.Class `json:"class"`
	Phase  *string      `json:"phase"`
	Metric *string      `json:"metric"`
	Ends   *Effect      `json:"ends"` // of the metric: bad end against good end
}

// Culprit is a commit that brought the complaint. Where that is a metric, Effect is set; where it is a failure, Why
// is, and for a time-out Limit and Before as well. The shares are null unless every culprit was looked for.
type Culprit struct {
	Commit     string       `json:"commit"`
	Parents    []string     `json:"parents"`
	Merge      bool         `json:"merge"` // of parents that are all good
	Subject    string       `json:"subject"`
	Author     string       `json:"author"`
	Date       string       `json:"date"`
	Files      []string     `json:"files"`
	Class      bisect.Class `json:"class"`
	Phase      *string      `json:"phase"`
	Why        *string      `json:"why"`      // how its launches failed
	Limit      *float64     `json:"limit_s"`  // that a time-out ran into, seconds
	Whole      bool         `json:"whole"`    // the limit is of the whole run, not of the phase
	Before     *float64     `json:"before_s"` // what the same took in the launches of its parents, median in seconds
	Effect     *Effect      `json:"effect"`
	Besides    []Effect     `json:"besides"` // all cases together, or a case that moved more than these
	Rate       *bisect.Rate `json:"rate"`
	Confidence float64      `json:"confidence"`
	Confirmed  bool         `json:"confirmed"`
	Share      *float64     `json:"share"`     // of the difference between the ends
	ShareLow   *float64     `json:"share_low"` // 95 % interval
	ShareHigh  *float64     `json:"share_high"`
	Hunks      []Hunk       `json:"hunks"`
	Switch     *string      `json:"switch"`
}

// Effect is a [bisect.Effect] of which every key is written.
type Effect bisect.Effect

// MarshalJSON implements json.Marshaler.
func (e Effect) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Metric string        `json:"metric"`
		Case   *string       `json:"case"` // null for all cases together
		Ratio  float64       `json:"ratio"`
		Low    float64       `json:"low"` // 95 % interval
		High   float64       `json:"high"`
		Higher bool          `json:"higher_is_better"`
		Exact  *bisect.Exact `json:"exact"` // null but for the effect of a culprit on a metric without noise

		Statistic *string `json:"statistic"` // that stands for the samples of a launch; null for the median
	}{e.Metric, text(e.Case), e.Ratio, e.Low, e.High, e.Higher, e.Exact, text(e.Statistic)})
}

// Fix is where the metric improved again: in one of so many commits.
type Fix struct {
	After   string `json:"after"`
	By      string `json:"by"`
	Commits int    `json:"commits"`
	Effect  Effect `json:"effect"`
	Share   *Share `json:"share"` // below 0
}

// Share is a part of the difference between the ends, 1 being all of it, with its 95 % interval.
type Share struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Words are a share in percent, with its interval unless it is all there is.
func (s Share) Words() string {
	value := fmt.Sprintf("%.0f %%", 100*s.Value)
	if low, high := 100*s.Low, 100*s.High; high-low >= 1 {
		return fmt.Sprintf("%s (%.0f to %.0f %%)", value, low, high)
	}
	return value
}

// Level is a commit against the good end, where the range was swept.
type Level struct {
	Commit string  `json:"commit"`
	Ratio  float64 `json:"ratio"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Suspect is a commit that may be the culprit.
type Suspect struct {
	Commit      string  `json:"commit"`
	Probability float64 `json:"probability"`
	Subject     string  `json:"subject"`
	Why         string  `json:"why"` // it could not be told apart from the others
}

// Ends are the two ends of the range, with what they showed.
type Ends struct {
	Good     string `json:"good"`
	Bad      string `json:"bad"`
	Evidence string `json:"evidence"`
	Hint     string `json:"hint"`
	Opposite string `json:"opposite"` // better or worse: what the bad end is instead of what was looked for; "" otherwise
	Past     *Past  `json:"past"`     // what made few launches of the ends enough; null: nothing was known, or it was not needed
}

// Past is what launches of one candidate scattered by in earlier sessions of the same command on the same device.
type Past struct {
	Scatter  float64 `json:"scatter"` // standard deviation, as a share: 0.002
	Launches int     `json:"launches"`
	Sessions int     `json:"sessions"`
}

// Input is everything that the document of a search is made of. Session, Finding, Good and Bad are needed; all else
// may be missing.
type Input struct {
	Ledger
	Session   string
	Finding   bisect.Finding
	Good      CommitInfo
	Bad       CommitInfo
	Spent     []Spent  // where the time of the whole job went, all attempts
	GPUHour   float64  // price; 0 = none known
	Devices   []string // what the trials ran on
	Unwatched string   // why no device was watched, when one was wanted
	Warnings  []string
	Error     string // machine trouble in words

	Axis        string            // history, flags or hunks; "" is history
	Sets        *Sets             // what a search over flags or hunks found
	Hunks       map[string][]Hunk // by culprit: what of it is to blame
	UnreadHunks int               // of culprits that were not searched: in files that nothing opened
	Terms       []Term            // what flags do to the metric
	Advice      string            // what to do about that
	Switch      map[string]string // by culprit: the flag that it switches on, in words
	Explain     *Table            // why the culprit differs from its parent
}

// NewSearch makes the document of a search.
func NewSearch(in Input) *Search {
	f := in.Finding
	d := &Search{
		Schema: Schema, Session: in.Session, Axis: cmp.Or(in.Axis, AxisHistory), Result: f.Result,
		Culprits: []Culprit{}, Fixes: []Fix{}, Rest: (*Share)(f.Rest), Suspects: []Suspect{}, MinimalSets: []MinimalSet{}, SafeSets: []SafeSet{}, SlowSets: []SlowSet{}, NotExcluded: []Assignment{},
		Effects: append([]Term{}, in.Terms...), Advice: text(in.Advice), Levels: []Level{}, Hypotheses: []Hypothesis{}, Tests: []SetTest{},
		Complete: f.Result == bisect.Found && !f.Spent, Ends: Ends{in.Good.ID, in.Bad.ID, f.Ends.Why, f.Ends.Hint, f.Ends.Opposite, nil},
		Steps: append([]bisect.Step{}, f.Steps...), Range: f.Range, Matter: f.Matter, Unread: f.Unread, UnreadHunks: in.UnreadHunks, Prospect: f.Prospect, Explain: in.Explain, Totals: in.Totals(in.Spent, in.GPUHour),
		Devices: append([]string{}, in.Devices...), Warnings: in.warnings(), Error: text(in.Error), Spent: f.Spent, Unwatched: in.Unwatched,
	}
	d.Totals.Inferred += f.Inferred
	if p := f.Ends.Past; p.SD > 0 {
		d.Ends.Past = &Past{math.Expm1(p.SD), p.Launches, p.Sessions}
	}
	if f.Complaint.Class != "" {
		d.Complaint = &Complaint{f.Complaint.Class, text(f.Complaint.Phase), text(f.Complaint.Metric), (*Effect)(f.Complaint.Ends)}
	}
	for _, c := range f.Culprits {
		d.Culprits = append(d.Culprits, in.culprit(c))
	}
	for _, m := range f.Fixes {
		d.Fixes = append(d.Fixes, Fix{m.After, m.By, m.Commits, Effect(m.Effect), (*Share)(m.Share)})
	}
	for _, s := range f.Suspects {
		d.Suspects = append(d.Suspects, Suspect{s.Commit, s.Probability, in.Info(s.Commit).Subject, s.Why})
	}
	slices.SortStableFunc(d.Suspects, func(a, b Suspect) int { return cmp.Compare(b.Probability, a.Probability) })
	for _, l := range f.Levels {
		d.Levels = append(d.Levels, Level{l.Commit, l.Effect.Ratio, l.Effect.Low, l.Effect.High})
	}
	if in.Sets != nil {
		d.addSets(in.Sets)
	}
	d.Headline = in.headline(d)
	Complete(d, in.Ledger)
	return d
}

// culprit joins what the search found of a commit with what the repository and the later search of its hunks say of
// it.
func (in Input) culprit(c bisect.Culprit) Culprit {
	info := in.Info(c.Commit)
	out := Culprit{
		Commit: c.Commit, Parents: c.Parents, Merge: c.Merge, Subject: info.Subject, Author: info.author(), Date: info.date(), Files: append([]string{}, info.Files...),
		Class: c.Class, Phase: text(c.Phase), Effect: (*Effect)(c.Effect), Besides: []Effect{}, Rate: c.Rate, Confidence: c.Confidence,
		Confirmed: c.Confirmed, Hunks: append([]Hunk{}, in.Hunks[c.Commit]...), Switch: text(in.Switch[c.Commit]),
	}
	if x := c.Share; x != nil {
		out.Share, out.ShareLow, out.ShareHigh = &x.Value, &x.Low, &x.High
	}
	for _, e := range c.Besides {
		out.Besides = append(out.Besides, Effect(e))
	}
	if c.Effect == nil {
		in.failure(&out)
	}
	return out
}

// failure fills in how a culprit fails, as its latest launch shows it; a launch that had its whole limit is preferred
// to one that was stopped early. For a time-out, Before is what the same phase takes in its parents.
func (in Input) failure(c *Culprit) {
	var last *bisect.Outcome
	var before []float64
	for i, l := range in.Launches {
		o := &in.Launches[i].Outcome
		if l.Candidate == (bisect.Candidate{Commit: c.Commit}) && o.Class == c.Class && (!o.Early || last == nil) {
			last = o
		}
	}
	if last == nil {
		return
	}
	c.Why = text(last.Why)
	if c.Class != bisect.Timeout || last.Limit == 0 {
		return
	}
	c.Limit, c.Whole = &last.Limit, last.Whole
	for _, l := range in.Launches {
		if l.Candidate.Assign != "" || !slices.Contains(c.Parents, l.Candidate.Commit) || l.Outcome.Class != bisect.OK {
			continue
		}
		if last.Whole {
			before = append(before, l.Outcome.Wall)
		}
		for _, p := range l.Outcome.Phases {
			if !last.Whole && p.Name == last.Phase {
				before = append(before, p.Seconds)
			}
		}
	}
	if m := float64(Median(before)); len(before) > 0 {
		c.Before = &m
	}
}

// warnings are all things that a reader should know, each once: those of the command, of the search, of the launches.
func (in Input) warnings() []string {
	out := []string{}
	for _, w := range slices.Concat(in.Warnings, in.Finding.Warnings, in.Ledger.warnings()) {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// Summary is the answer in one line for a list of sessions.
func (d *Search) Summary() string {
	first, _, _ := strings.Cut(Text(d.Error), "\n")
	switch {
	case d.Result == bisect.Broken && first != "":
		return first
	case len(d.Culprits) > 0 && d.Axis == AxisHistory:
		return d.Headline + ": " + d.Culprits[0].Subject
	}
	return d.Headline
}

// headline is the answer in one line.
func (in Input) headline(d *Search) string {
	f := in.Finding
	switch {
	case d.Axis != AxisHistory && in.Sets != nil && (f.Result == bisect.Found || f.Result == bisect.Inconclusive):
		return in.Sets.headline(f, in.Terms, in.Advice)
	case f.Result == bisect.Found && len(f.Culprits) == 1:
		return CulpritWords(d.Culprits[0])
	case f.Result == bisect.Found:
		return fmt.Sprintf("%d culprits; the oldest: %s", len(f.Culprits), CulpritWords(d.Culprits[0]))
	case f.Result == bisect.Inconclusive:
		return inconclusive(f)
	case f.Result == bisect.NoDifference:
		return "No difference between the ends: " + f.Ends.Why
	case f.Result == bisect.Broken:
		return "Stopped: machine problem; no commit is blamed"
	case f.Complaint.Class == "", len(f.Suspects) == 0:
		return "Interrupted; the launches made so far are kept"
	}
	return fmt.Sprintf("Interrupted; the launches made so far are kept, %s left", words.Count(len(f.Suspects), "suspect"))
}

// inconclusive says why there is no culprit: the ends, a gradual change, the budget, or what the tests cannot tell.
func inconclusive(f bisect.Finding) string {
	n := len(f.Suspects)
	left := fmt.Sprintf("the culprit is one of %d commits", n)
	if n == 1 {
		left = "one suspect is left, not confirmed"
	}
	switch {
	case f.Ends.Untestable, f.Ends.Unclear:
		return "Inconclusive: " + f.Ends.Why
	case f.Gradual:
		return fmt.Sprintf("Inconclusive: gradual, no single culprit; `%s` got worse in steps too small to separate", f.Complaint.Metric)
	case f.Spent && n == 0:
		return "Inconclusive: the budget ran out before the whole range was searched"
	case f.Spent:
		return "Inconclusive: the budget ran out; " + left
	case n == 1:
		return "Inconclusive: " + left
	}
	return "Inconclusive: " + left + "; no test can tell them apart"
}

// CulpritWords says in a sentence which commit it is and what it did.
func CulpritWords(c Culprit) string {
	s := bisect.ShortID(c.Commit)
	if c.Merge {
		s = "merge " + s
	}
	return s + " " + did(c)
}

// did is what a culprit did, in the user's terms, as the end of a sentence that it begins.
func did(c Culprit) string {
	if c.Limit != nil {
		s := fmt.Sprintf("makes %s exceed its limit of %s", words.Doing(Text(c.Phase), c.Whole), words.Limit(*c.Limit))
		if c.Before != nil {
			s += fmt.Sprintf(" (before: %s)", words.Brief(*c.Before))
		}
		return s
	}
	s := words.Did(c.Class, Text(c.Phase), (*bisect.Effect)(c.Effect))
	if c.Why != nil {
		s += ": " + *c.Why
	}
	return s
}

// Words are a metric with its change and the interval of it, and which values are better.
func (e Effect) Words() string { return words.Effect(bisect.Effect(e)) }
