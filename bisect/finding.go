package bisect

// Commit is one commit of the range under search, as plain data.
type Commit struct {
	ID      string
	Parents []string // all parents, in git's order, inside the range or not
	InRange []int    // indices of the parents inside the range; each below the commit's own
	Key     string   // fingerprint of the inputs that build and run read; equal keys share one answer
	Neutral bool     // inputs equal to those of every parent: never a culprit, never built
}

// Difference is what of the files that launches opened differs between a commit and one of its parents.
type Difference int

// The differences.
const (
	Same      Difference = iota // nothing
	Nearby                      // names near them come or go, which may have been looked for
	Different                   // what was opened
)

// Ends is what the two ends showed. The search goes on only when Differ is true.
type Ends struct {
	Differ     bool
	Untestable bool // an end could not be judged at all
	Unclear    bool // a difference worth finding can be neither shown nor ruled out
	Complaint  Complaint
	Good, Bad  Verdict
	Why        string  // evidence in one line
	Hint       string  // what a person may do when the ends do not differ
	Opposite   string  // "better" or "worse": what the bad end is instead, where the ends differ the other way round; "" otherwise
	OtherGood  bool    // Hint is to name another good end
	Check      string  // what to look at before that: the beginning of such a hint
	Past       Scatter // of earlier sessions, where that made few launches enough; zero: launches of this one showed the noise
}

// Scatter is what launches of one candidate scattered by in earlier sessions of the same command on the same device.
type Scatter struct {
	SD       float64 // standard deviation of a level; 0: not known
	Launches int
	Sessions int
}

// Suspect is a commit that may be the culprit, with its probability.
type Suspect struct {
	Index       int
	Probability float64
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
	Inferred  bool    `json:"inferred"`         // from equal inputs or builds, not from trials of its own
	Remaining int     `json:"remaining"`        // suspects left afterwards
	Belief    []Mass  `json:"belief,omitempty"` // where the culprit was thought to be afterwards, oldest commits first
}

// Mass is the probability that the culprit is among commits that follow each other, from one to another.
type Mass struct {
	From string  `json:"from"`
	To   string  `json:"to,omitempty"` // "" for one commit alone
	P    float64 `json:"p"`
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
	Merge      bool   // a merge whose parents are all good
	Share      *Share // nil where one culprit was looked for, and where the ends do not differ clearly
	Rate       *Rate  // of a complaint that shows only in some launches
}

// Share is a part of the difference between the ends, as logarithms, with its 95 % interval: 0.6 is 60 %. Below 0 it
// is one that takes away from the difference. The shares of a finding and its rest add up to 1.
type Share struct{ Value, Low, High float64 }

// Fix is where a metric improved again.
type Fix struct {
	After, By string // the commits between which it did: it had not after the first, it has by the second
	Commits   int    // that may have done it
	Effect    Effect
	Share     *Share // below 0; nil where culprits have none
}

// Prospect is what is known early of a search for a metric, where the noise seen makes what it looks for cost too much.
type Prospect struct {
	Metric   string    `json:"metric"`   // that is searched for, with its case
	Noise    float64   `json:"noise"`    // standard deviation of one launch, a fraction
	Change   float64   `json:"change"`   // that is looked for, a fraction: the smallest worth finding, or that of the ends
	Seen     bool      `json:"seen"`     // the ends seem to differ by Change
	Made     int       `json:"made"`     // launches, by which this is said
	Launches float64   `json:"launches"` // that finding Change takes besides; 0: no number of launches would do
	Seconds  float64   `json:"seconds"`  // that these take
	Left     float64   `json:"left"`     // seconds of the budget; 0: there is none
	Within   float64   `json:"within"`   // launches that the budget leaves or, without one, that are a search's due
	Findable float64   `json:"findable"` // smallest change that so many find, a fraction; 0: none
	Quieter  []Quieter `json:"quieter"`  // other metrics of the same launches
}

// Quieter is a metric that scatters less.
type Quieter struct {
	Metric   string  `json:"metric"`
	Noise    float64 `json:"noise"`
	Ratio    float64 `json:"ratio"`    // of the bad end to the good one
	Differs  bool    `json:"differs"`  // clearly; else it may
	Launches float64 `json:"launches"` // that finding that takes, or the smallest change worth finding
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
	Fixes     []Fix           // where the range was swept for every culprit, oldest first
	Rest      *Share          // what neither culprits nor fixes explain; nil where culprits have no shares
	Suspects  []SuspectCommit // when inconclusive: the exact set that is left
	Steps     []Step
	Range     int     // commits in the range
	Matter    int     // of these, commits that can be the culprit
	Unread    int     // commits left out because no build and no launch opened what they change
	Misread   bool    // launches contradicted what was learned so, or left it in doubt: nothing was left out for it
	Gradual   bool    // the metric got worse in steps too small to separate
	Levels    []Level // of commits all over the range, oldest first, where it was swept
	Inferred  int     // judgements that needed no trial
	Prospect  *Prospect
	Spent     bool // the budget was used up before the search ended
	Err       error
	Warnings  []string
}

// SuspectCommit is a commit that may be the culprit.
type SuspectCommit struct {
	Commit      string
	Probability float64
	Why         string // why it could not be told apart from the others
}
