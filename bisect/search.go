package bisect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Judge turns launches into judgements. It holds the evidence of one search; a Judge for certain
// complaints launches a candidate once, one for a noisy metric as often as it needs to.
type Judge interface {
	// Ends judges both ends and reads the complaint off the bad one.
	Ends(ctx context.Context, good, bad Candidate) (Ends, error)
	// Judge says whether a candidate shows the complaint.
	Judge(ctx context.Context, c Candidate) (Verdict, error)
	// Confirm launches the culprit and its parents anew, from clean exports and clean builds.
	Confirm(ctx context.Context, culprit Candidate, parents []Candidate) (Confirmation, error)
	// Patient gives every trial from now on the whole of its limits.
	Patient()
}

// FlakySearcher is a Judge that keeps every launch it has made, and weighs them all against each other. A
// plain search takes an answer for certain; where the complaint shows only in some launches of a bad
// commit, its answers contradict each other, and the FlakySearcher goes on from all that was seen.
type FlakySearcher interface {
	Judge
	// MaybeFlaky reports that this complaint may show only sometimes.
	MaybeFlaky() bool
	// Ratio is what a bad answer is expected to cost, in units of a good one; 0 while nothing is known.
	Ratio() float64
	// SearchFlaky ends the search of s: it proves what the launches so far point to, or goes on searching
	// until something is proven, and writes the result into f. An error is machine trouble or an
	// interruption, with the suspects in f.
	SearchFlaky(ctx context.Context, s *Search, f *Finding) error
}

// Ends is what the two ends showed. The search goes on only when Differ is true.
type Ends struct {
	Differ     bool
	Sometimes  bool // not every launch of the bad end shows the complaint, or one of the good end does
	Untestable bool // an end could not be judged at all
	Unclear    bool // a difference worth finding can be neither shown nor ruled out
	Complaint  Complaint
	Good, Bad  Verdict
	Why        string // evidence in one line
	Hint       string // what a person may do when the ends do not differ
	OtherGood  bool   // Hint is to name another good end
	Check      string // what to look at before that: the beginning of such a hint
}

// Confirmation is the fresh test of the claim "the culprit shows the complaint, its parents do not".
type Confirmation struct {
	Culprit Verdict
	Parents []Verdict
	Effect  *Effect // culprit against parent, for a metric
}

// Result is how a search ended.
type Result string

// The results; their exit codes are 0, 3, 4, 5 and 130.
const (
	Found        Result = "found"
	Inconclusive Result = "inconclusive"
	NoDifference Result = "no-difference"
	Broken       Result = "infra"
	Interrupted  Result = "interrupted"
)

// Role says why a commit was judged.
type Role string

// The roles of a judgement.
const (
	RoleGoodEnd  Role = "good end"
	RoleBadEnd   Role = "bad end"
	RoleWalkBack Role = "walk back" // towards a good end
	RoleSearch   Role = "search"
	RoleCulprit  Role = "culprit"
	RoleParent   Role = "parent"
	RoleProbe    Role = "probe" // along the range, to see where else something changes
	RoleFrom     Role = "from"  // the ends, and a parent, of a part of the range that is searched by itself
	RoleTo       Role = "to"
	RoleBefore   Role = "before"
)

// Step is one judgement on the way of the search.
type Step struct {
	Commit    string  `json:"commit"`
	Role      Role    `json:"role"`
	Verdict   Verdict `json:"verdict"`
	Inferred  bool    `json:"inferred"`  // from equal inputs, not from trials of its own
	Remaining int     `json:"remaining"` // suspects left afterwards
}

// Culprit is the commit that brought the complaint.
type Culprit struct {
	Commit     string
	Parents    []string
	Class      Class
	Phase      string
	Effect     *Effect
	Besides    []Effect // what else of the metric moved: all cases together, or one case much more than these
	Confidence float64
	Confirmed  bool
	Merge      bool     // a merge whose parents are all good
	Share      *float64 // of the difference between the ends, as logarithms; nil where they do not differ
	Rate       *Rate    // of a complaint that shows only in some launches
}

// Rate is how often commits that hold the culprit showed the complaint.
type Rate struct {
	Failed   int `json:"failed"`
	Launches int `json:"launches"`
}

// Level is the level of one commit against the good end.
type Level struct {
	Commit string
	Effect Effect
}

// Finding is what a search concluded.
type Finding struct {
	Result    Result
	Complaint Complaint
	Ends      Ends
	Culprits  []Culprit
	Suspects  []SuspectCommit // when inconclusive: the exact set that is left
	Steps     []Step
	Range     int     // commits in the range
	Matter    int     // of these, commits that can be the culprit
	Gradual   bool    // the metric got worse in steps too small to be told apart
	Levels    []Level // of commits all over the range, oldest first, where it was swept
	Inferred  int     // judgements that needed no trial
	Spent     bool    // the budget was used up before the search ended
	Err       error
	Warnings  []string
}

// SuspectCommit is a commit that may be the culprit.
type SuspectCommit struct {
	Commit      string
	Probability float64
	Why         string // why it could not be told from the others
}

// Search finds the first bad commit of a range.
type Search struct {
	Commits []Commit
	Good    Candidate // the good end, just before the range
	GoodKey string    // fingerprint of the good end's inputs
	Judge   Judge
	Tested  []string          // commits to ask about first, since their answers are known already
	OnStep  func(Step)        // progress; may be nil
	Spent   func() bool       // reports that the budget is used up; may be nil
	Ahead   func([]Candidate) // is told what will probably be asked for after the next candidate; may be nil
	Redo    func()            // from now on every build must be a clean one; may be nil
	Others  bool              // commits that fail in another way are the caller's business: no word of them
}

// maxRounds bounds how often a search starts again because its confirmation contradicted it.
const maxRounds = 3

// run is the state of one Search.
type run struct {
	*Search
	f      Finding
	h      *History
	known  map[string]Verdict // by input fingerprint
	judged map[int]Verdict    // commits with a verdict, by index
	cost   func() float64     // of a bad answer in units of a good one; may be nil
}

// Find runs the search. Machine trouble and interruption are part of the Finding, with what is
// known until then; an error means that the search could not begin.
func (s *Search) Find(ctx context.Context) (Finding, error) {
	h, err := NewHistory(s.Commits)
	if err != nil {
		return Finding{}, err
	}
	own := *s
	r := &run{Search: &own, h: h}
	r.f.Range, r.f.Matter = h.Len(), h.Remaining()
	err = r.all(ctx)
	if !r.Others {
		r.f.warnOthers()
	}
	if err != nil {
		r.f.Err = err
		r.f.Result = Broken
		if ctx.Err() != nil || errors.Is(err, context.Canceled) {
			r.f.Result = Interrupted
		}
		if r.f.Suspects == nil {
			r.setSuspects()
		}
	}
	return r.f, nil
}

// warnOthers reports the commits that were set aside because they fail in another way: no commit is
// blamed for that here, but a user may want to search for it next.
func (f *Finding) warnOthers() {
	count, example := map[string]int{}, map[string]string{}
	var kinds []string
	for _, s := range f.Steps {
		if !s.Verdict.Other || s.Inferred {
			continue
		}
		kind := Outcome{Class: s.Verdict.Class, Phase: s.Verdict.Phase}.Describe()
		if count[kind] == 0 {
			kinds, example[kind] = append(kinds, kind), s.Commit
		}
		count[kind]++
	}
	for _, kind := range kinds {
		f.Warnings = append(f.Warnings, fmt.Sprintf("%d of the commits tested fail in another way (%s) and were set aside, such as %s\nhint: to find where that came from, search again with --bad %s",
			count[kind], kind, ShortID(example[kind]), ShortID(example[kind])))
	}
}

func (r *run) all(ctx context.Context) error {
	last := len(r.Commits) - 1
	ends, err := r.Judge.Ends(ctx, r.Good, Candidate{Commit: r.Commits[last].ID})
	if err != nil {
		return err
	}
	r.f.Ends, r.f.Complaint = ends, ends.Complaint
	r.step(Step{Commit: r.Good.Commit, Role: RoleGoodEnd, Verdict: ends.Good})
	r.step(Step{Commit: r.Commits[last].ID, Role: RoleBadEnd, Verdict: ends.Bad})
	switch {
	case ends.Untestable, ends.Unclear:
		r.f.Result = Inconclusive
		r.setSuspects()
		return nil
	case !ends.Differ:
		r.f.Result = NoDifference
		return nil
	}
	r.forget()
	if r.h.Remaining() == 0 { // ends of equal inputs that differ
		if err := r.distrustKeys(r.Commits[last].ID); err != nil {
			return err
		}
	}
	if err := r.askTested(ctx); err != nil {
		return err
	}
	if w, ok := r.Judge.(FlakySearcher); ok && w.MaybeFlaky() {
		return r.searchFlaky(ctx, w)
	}
	for round := 1; ; round++ {
		done, err := r.round(ctx)
		if err != nil || done {
			return err
		}
		if round == maxRounds {
			r.f.Result = Inconclusive
			r.f.Warnings = append(r.f.Warnings, "the confirmation contradicted the search again and again: the complaint does not come and go with the commits alone")
			r.setSuspects()
			return nil
		}
	}
}

// searchFlaky searches as if every answer were certain, which costs least where it is so, and leaves the
// proof to the FlakySearcher, together with whatever does not fit. What is known to show only sometimes is
// left to it from the start.
func (r *run) searchFlaky(ctx context.Context, w FlakySearcher) error {
	if !r.f.Ends.Sometimes {
		r.cost = w.Ratio
		if err := r.narrow(ctx); err != nil {
			return err
		}
	}
	return w.SearchFlaky(ctx, r.Search, &r.f)
}

// askTested takes in what is known about commits that were tested before the search.
func (r *run) askTested(ctx context.Context) error {
	for i, c := range r.Commits {
		if !slices.Contains(r.Tested, c.ID) || i == len(r.Commits)-1 {
			continue
		}
		v, err := r.Judge.Judge(ctx, Candidate{Commit: c.ID})
		if err != nil {
			return err
		}
		r.learn(i, v, false, RoleWalkBack)
	}
	return nil
}

// forget drops every verdict but those of the ends.
func (r *run) forget() {
	bad := r.Commits[len(r.Commits)-1]
	r.judged = map[int]Verdict{}
	r.known = map[string]Verdict{bad.Key: r.f.Ends.Bad, r.GoodKey: r.f.Ends.Good}
	delete(r.known, "")
}

// round is one search with its confirmation; done is false when the two contradict each other.
func (r *run) round(ctx context.Context) (done bool, err error) {
	if err := r.narrow(ctx); err != nil {
		return false, err
	}
	left := r.h.Suspects()
	if len(left) != 1 && r.hasEarly() && !r.spent() {
		return false, r.takeTime("the search ended in more than one suspect and rests on trials that were stopped before their limit: those are made again with the whole limit")
	}
	if len(left) != 1 {
		r.f.Result = Inconclusive
		r.setSuspects()
		return true, nil
	}
	return r.confirm(ctx, left[0].Index)
}

// narrow asks for verdicts until nothing that can be tested tells the suspects apart.
func (r *run) narrow(ctx context.Context) error {
	for {
		if r.cost != nil {
			r.h.Costs(r.cost())
		}
		i, ok := r.h.Next()
		if !ok {
			return nil
		}
		if r.spent() {
			r.f.Spent = true
			return nil
		}
		v, inferred := r.known[r.Commits[i].Key]
		if !inferred {
			var err error
			r.tellAhead(i)
			if v, err = r.Judge.Judge(ctx, Candidate{Commit: r.Commits[i].ID}); err != nil {
				return err
			}
			if key := r.Commits[i].Key; key != "" {
				r.known[key] = v
			}
		}
		r.learn(i, v, inferred, RoleSearch)
	}
}

// tellAhead says which two candidates will be asked for next, whatever commit i turns out to be. A
// complaint about the build is judged by builds that nothing disturbs.
func (r *run) tellAhead(i int) {
	if c := r.f.Complaint; r.Ahead == nil || c.Class == BuildFailed || c.Phase == "build" || c.Any {
		return
	}
	var next []Candidate
	for _, is := range []func(*History, int){(*History).Good, func(h *History, i int) { h.Bad(i) }} {
		h := r.h.clone()
		is(h, i)
		if k, ok := h.Next(); ok && r.known[r.Commits[k].Key].Call == "" {
			next = append(next, Candidate{Commit: r.Commits[k].ID})
		}
	}
	r.Ahead(next)
}

func (r *run) spent() bool { return r.Spent != nil && r.Spent() }

// hasEarly reports whether a verdict rests on a trial that was stopped before its limit.
func (r *run) hasEarly() bool {
	for _, v := range r.judged {
		if v.Early {
			return true
		}
	}
	return false
}

// takeTime forgets what rests on trials that were stopped before their limit, and begins again
// with the rest; from now on nothing is stopped early.
func (r *run) takeTime(why string) error {
	r.f.Warnings = append(r.f.Warnings, why)
	r.Judge.Patient()
	maps.DeleteFunc(r.judged, func(_ int, v Verdict) bool { return v.Early })
	maps.DeleteFunc(r.known, func(_ string, v Verdict) bool { return v.Early })
	if err := r.restart(len(r.Commits) - 1); err != nil {
		return err
	}
	for _, i := range slices.Sorted(maps.Keys(r.judged)) {
		r.take(i, r.judged[i])
	}
	return nil
}

// learn takes the verdict of commit i into the history.
func (r *run) learn(i int, v Verdict, inferred bool, role Role) {
	if inferred {
		r.f.Inferred++
	}
	r.judged[i] = v
	if !r.take(i, v) {
		r.f.Warnings = append(r.f.Warnings, fmt.Sprintf("commit %s is bad although a later one is good: the range holds more than one change of this kind", ShortID(r.Commits[i].ID)))
	}
	r.step(Step{Commit: r.Commits[i].ID, Role: role, Verdict: v, Inferred: inferred, Remaining: r.h.Remaining()})
}

// take moves the bounds of the search by a verdict; false when it contradicts them.
func (r *run) take(i int, v Verdict) bool {
	switch v.Call {
	case Good:
		r.h.Good(i)
	case Bad:
		if !r.h.Bad(i) {
			r.h.Skip(i)
			return false
		}
	default:
		r.h.Skip(i)
	}
	return true
}

// confirm tests the claim about commit k afresh. When a parent turns out bad, the search goes on
// below it; when the culprit turns out good, everything was built upon sand and starts again.
func (r *run) confirm(ctx context.Context, k int) (done bool, err error) {
	c := r.Commits[k]
	parents := make([]Candidate, len(c.Parents))
	for i, p := range c.Parents {
		parents[i] = Candidate{Commit: p}
	}
	conf, err := r.Judge.Confirm(ctx, Candidate{Commit: c.ID}, parents)
	if err != nil {
		return false, err
	}
	r.step(Step{Commit: c.ID, Role: RoleCulprit, Verdict: conf.Culprit, Remaining: 1})
	for i, v := range conf.Parents {
		r.step(Step{Commit: c.Parents[i], Role: RoleParent, Verdict: v, Remaining: 1})
	}
	if conf.Culprit.Call != Bad && r.hasEarly() {
		return false, r.takeTime(fmt.Sprintf("given the whole limit, commit %s does not show the complaint: trials that were stopped early are made again", ShortID(c.ID)))
	}
	if last := len(r.Commits) - 1; conf.Culprit.Call == Good && k != last && c.Key != "" && c.Key == r.Commits[last].Key {
		return false, r.distrustKeys(c.ID)
	}
	if conf.Culprit.Call == Good {
		r.f.Warnings = append(r.f.Warnings, fmt.Sprintf("commit %s looked bad in the search and is good from a clean build: searching again from clean builds", ShortID(c.ID)))
		r.forget()
		if r.Redo != nil {
			r.Redo()
		}
		return false, r.restart(len(r.Commits) - 1)
	}
	for i, v := range conf.Parents {
		if v.Call == Bad {
			return r.parentIsBad(k, c.Parents[i])
		}
	}
	r.accuse(k, conf)
	return true, nil
}

// parentIsBad goes on below a parent that was taken for good and is not.
func (r *run) parentIsBad(k int, parent string) (done bool, err error) {
	if r.equalButBad(parent) {
		return false, r.distrustKeys(parent)
	}
	r.f.Warnings = append(r.f.Warnings, fmt.Sprintf("commit %s, the parent of %s, shows the complaint as well although a later commit does not", ShortID(parent), ShortID(r.Commits[k].ID)))
	for _, p := range r.Commits[k].InRange {
		if r.Commits[p].ID == parent {
			return false, r.restart(p)
		}
	}
	r.f.Warnings = append(r.f.Warnings, fmt.Sprintf("commit %s lies before the range: the complaint is older than the good end on that branch; try an earlier good end", ShortID(parent)))
	r.f.Result = Inconclusive
	r.f.Suspects = []SuspectCommit{{Commit: r.Commits[k].ID, Probability: 1, Why: "its parent before the range is bad too"}}
	return true, nil
}

// equalButBad reports whether a bad commit has the very inputs of one that was judged good.
func (r *run) equalButBad(id string) bool {
	for _, c := range r.Commits {
		if c.ID == id && c.Key != "" {
			return r.known[c.Key].Call == Good
		}
	}
	return false
}

// distrustKeys begins anew with every commit a candidate of its own: two commits of equal inputs
// behaved differently, so something else than the declared inputs matters.
func (r *run) distrustKeys(id string) error {
	r.f.Warnings = append(r.f.Warnings, fmt.Sprintf("commits of equal inputs behave differently, such as %s: the paths given leave out something that build or run read, so every commit was searched\nhint: add what is missing to paths (--path)", ShortID(id)))
	r.Commits = slices.Clone(r.Commits)
	for i := range r.Commits {
		r.Commits[i].Key, r.Commits[i].Neutral = "", false
	}
	r.forget()
	if r.Redo != nil {
		r.Redo()
	}
	if err := r.restart(len(r.Commits) - 1); err != nil {
		return err
	}
	r.f.Matter = r.h.Remaining()
	return nil
}

// restart begins again with commit bad as the bad end.
func (r *run) restart(bad int) error {
	h, err := NewHistory(r.Commits)
	if err != nil {
		return err
	}
	h.Bad(bad)
	r.h = h
	return nil
}

func (r *run) accuse(k int, conf Confirmation) {
	c := r.Commits[k]
	culprit := Culprit{
		Commit: c.ID, Parents: c.Parents, Merge: len(c.Parents) > 1,
		Class: r.f.Complaint.Class, Phase: r.f.Complaint.Phase,
		Effect: conf.Effect, Confirmed: conf.Culprit.Call == Bad, Confidence: conf.Culprit.Probability,
	}
	if r.f.Complaint.Any || r.f.Complaint.AnyPhase {
		culprit.Class, culprit.Phase = conf.Culprit.Class, conf.Culprit.Phase
	}
	for i, v := range conf.Parents {
		if v.Call != Good {
			culprit.Confirmed = false
			r.f.Warnings = append(r.f.Warnings, fmt.Sprintf("parent %s could not be tested (%s): that it is good is inferred from later good commits", ShortID(c.Parents[i]), v.Why))
		}
		culprit.Confidence *= v.Probability
	}
	if conf.Culprit.Call == Untestable {
		r.f.Warnings = append(r.f.Warnings, fmt.Sprintf("culprit %s could not be tested again: %s", ShortID(c.ID), conf.Culprit.Why))
	}
	if !culprit.Confirmed { // what is left is the search's own evidence
		culprit.Confidence = min(culprit.Confidence, 0.9)
		for _, v := range r.judged {
			culprit.Confidence *= v.certainty()
		}
	}
	r.f.Result, r.f.Culprits = Found, []Culprit{culprit}
}

// certainty is the chance that a verdict does not mislead a search.
func (v Verdict) certainty() float64 {
	if v.Call == Untestable {
		return 1
	}
	return v.Probability
}

func (r *run) setSuspects() {
	r.f.Suspects = nil
	for _, s := range r.h.Suspects() {
		why := ""
		if r.h.skipped[s.Index] {
			why = "untestable"
			if v, ok := r.judged[s.Index]; ok {
				why = v.Why
			}
		}
		r.f.Suspects = append(r.f.Suspects, SuspectCommit{r.Commits[s.Index].ID, s.Probability, why})
	}
}

func (r *run) step(s Step) {
	r.f.Steps = append(r.f.Steps, s)
	if r.OnStep != nil {
		r.OnStep(s)
	}
}
