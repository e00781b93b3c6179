package report

import (
	"cmp"
	"encoding/json"
	"io"

	"github.com/kbisect/kbisect/bisect"
)

// Document is the JSON report. Keys that do not apply are empty lists or null, never missing.
type Document struct {
	Schema      string        `json:"schema"`
	Session     string        `json:"session"`
	Axis        string        `json:"axis"`
	Result      bisect.Result `json:"result"`
	Headline    string        `json:"headline"` // the answer in one line
	Complaint   *complaint    `json:"complaint"`
	Culprits    []culprit     `json:"culprits"`
	Suspects    []suspect     `json:"suspects"`
	MinimalSets []minimalSet  `json:"minimal_sets"`
	SafeSets    []safeSet     `json:"safe_sets"`
	Recommended *safeSet      `json:"recommended"`
	SlowSets    []slowSet     `json:"slow_sets"`
	NotExcluded []assignment  `json:"not_excluded"` // within these there may be more guilty sets
	Effects     []Term        `json:"effects"`
	Advice      *string       `json:"advice"`
	Levels      []level       `json:"levels"`
	Hypotheses  []hypothesis  `json:"hypotheses"`
	Tests       []setTest     `json:"tests"`
	Complete    bool          `json:"complete"`
	Ends        ends          `json:"ends"`
	Steps       []step        `json:"steps"`
	Range       int           `json:"range"`  // commits in it
	Matter      int           `json:"matter"` // of these, commits that can be the culprit
	Explain     *Table        `json:"explain"`
	Totals      Totals        `json:"totals"`
	Devices     []string      `json:"devices"`
	Warnings    []string      `json:"warnings"`
	Error       *string       `json:"error"`
}

type complaint struct {
	Class  bisect.Class `json:"class"`
	Phase  *string      `json:"phase"`
	Metric *string      `json:"metric"`
}

type culprit struct {
	Commit     string       `json:"commit"`
	Parents    []string     `json:"parents"`
	Subject    string       `json:"subject"`
	Author     string       `json:"author"`
	Date       string       `json:"date"`
	Files      []string     `json:"files"`
	Class      bisect.Class `json:"class"`
	Phase      *string      `json:"phase"`
	Effect     *effect      `json:"effect"`
	Besides    []effect     `json:"besides"` // all cases together, or a case that moved more than these
	Rate       *bisect.Rate `json:"rate"`
	Confidence float64      `json:"confidence"`
	Confirmed  bool         `json:"confirmed"`
	Share      *float64     `json:"share"`
	Hunks      []Hunk       `json:"hunks"`
	Switch     *string      `json:"switch"`
}

// effect is a ratio with its 95 % interval; case is null for all cases together.
type effect struct {
	Metric string  `json:"metric"`
	Case   *string `json:"case"`
	Ratio  float64 `json:"ratio"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`

	Exact *bisect.Exact `json:"exact"` // null but for the effect of a culprit on a metric without noise
}

func newEffect(e bisect.Effect) effect {
	return effect{e.Metric, text(e.Case), e.Ratio, e.Low, e.High, e.Exact}
}

// effects lists those of a culprit.
func effects(es []bisect.Effect) []effect {
	out := []effect{}
	for _, e := range es {
		out = append(out, newEffect(e))
	}
	return out
}

// level is a commit against the good end, where the range was swept.
type level struct {
	Commit string  `json:"commit"`
	Ratio  float64 `json:"ratio"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

type suspect struct {
	Commit      string  `json:"commit"`
	Probability float64 `json:"probability"`
	Subject     string  `json:"subject"`
	Why         string  `json:"why"`
}

type ends struct {
	Good     string `json:"good"`
	Bad      string `json:"bad"`
	Evidence string `json:"evidence"`
	Hint     string `json:"hint"`
}

type step struct {
	Commit    string         `json:"commit"`
	Role      string         `json:"role"`
	Verdict   bisect.Verdict `json:"verdict"`
	Inferred  bool           `json:"inferred"`
	Remaining int            `json:"remaining"`
}

// NewDocument makes the JSON report.
func NewDocument(in Input) Document {
	f := in.Finding
	d := Document{
		Schema: Schema, Session: in.Session, Axis: cmp.Or(in.Axis, "history"), Result: f.Result,
		Culprits: []culprit{}, Suspects: []suspect{}, MinimalSets: []minimalSet{}, SafeSets: []safeSet{},
		Effects: append([]Term{}, in.Terms...), Advice: text(in.Advice), Levels: []level{}, SlowSets: []slowSet{}, NotExcluded: []assignment{}, Hypotheses: []hypothesis{}, Tests: []setTest{}, Complete: f.Result == bisect.Found && !f.Spent,
		Ends:     ends{in.Good.ID, in.Bad.ID, f.Ends.Why, f.Ends.Hint},
		Headline: in.headline(), Range: f.Range, Matter: f.Matter, Explain: in.Explain,
		Steps: []step{}, Totals: in.Totals(), Devices: in.Devices, Warnings: in.warnings(),
		Error: text(in.Error),
	}
	if d.Devices == nil {
		d.Devices = []string{}
	}
	if f.Complaint.Class != "" {
		d.Complaint = &complaint{f.Complaint.Class, text(f.Complaint.Phase), text(f.Complaint.Metric)}
	}
	for _, c := range f.Culprits {
		info := in.info(c.Commit)
		files := []string{}
		for _, x := range info.Files {
			files = append(files, x.Path)
		}
		var own *effect
		if c.Effect != nil {
			e := newEffect(*c.Effect)
			own = &e
		}
		d.Culprits = append(d.Culprits, culprit{
			Commit: c.Commit, Parents: c.Parents, Subject: info.Subject, Author: author(info), Date: date(info),
			Files: files, Class: c.Class, Phase: text(c.Phase), Effect: own, Besides: effects(c.Besides),
			Rate: c.Rate, Confidence: c.Confidence, Confirmed: c.Confirmed, Share: c.Share, Hunks: append([]Hunk{}, in.Hunks[c.Commit]...), Switch: text(in.Switch[c.Commit]),
		})
	}
	for _, s := range f.Suspects {
		d.Suspects = append(d.Suspects, suspect{s.Commit, s.Probability, in.info(s.Commit).Subject, s.Why})
	}
	for _, l := range f.Levels {
		d.Levels = append(d.Levels, level{l.Commit, l.Effect.Ratio, l.Effect.Low, l.Effect.High})
	}
	for _, s := range f.Steps {
		d.Steps = append(d.Steps, step(s))
	}
	if in.Sets != nil {
		d.addSets(in)
	}
	return d
}

// JSON writes the document, indented.
func JSON(w io.Writer, in Input) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(NewDocument(in))
}

// text is null for an empty string.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func author(c CommitInfo) string {
	if c.Email == "" {
		return c.Author
	}
	return c.Author + " <" + c.Email + ">"
}

func date(c CommitInfo) string {
	if c.When.IsZero() {
		return ""
	}
	return c.When.Format("2006-01-02T15:04:05-07:00")
}
