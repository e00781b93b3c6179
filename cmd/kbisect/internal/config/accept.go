package config

// AcceptedName is the file, beside kbisect.toml, that lists accepted regressions.
const AcceptedName = "kbisect-accepted.toml"

// AcceptedHead begins the file when kbisect makes it.
const AcceptedHead = `# Accepted regressions; kbisect gate --accept 'REASON' adds to this list.
#
# An entry applies to the branch that adds it and to no later one: it counts while the merge base does not
# have it, and may stay here as a record. A metric passes while its ratio, HEAD over the merge base, is no
# worse than limit; without a case the entry is about the metric over all of its cases.
`

// Acceptance is one [[accepted]] of that file: a regression that somebody has decided to live with.
type Acceptance struct {
	Metric string  `toml:"metric"`
	Case   string  `toml:"case,omitempty"`
	Limit  float64 `toml:"limit"`  // ratio of HEAD to the merge base up to which it passes
	Commit string  `toml:"commit"` // the commit that caused it, for people
	Reason string  `toml:"reason"`
}

// ParseAccepted reads the file, named name in messages. Empty data is an empty list. Its error is an [*Error] with
// every mistake. Which entries apply to a branch is decided by package gate, which knows what the merge base has.
func ParseAccepted(name string, data []byte) ([]Acceptance, error) {
	schema := map[string][]string{"": {"accepted"}, "accepted": {"metric", "case", "limit", "commit", "reason"}}
	top, err := parse(name, data, schema, "\nhint: remove entries that the base branch has had for a long time")
	if err != nil {
		return nil, err
	}
	var out []Acceptance
	for _, t := range top.tables("accepted") {
		out = append(out, readAcceptance(t))
	}
	return out, top.r.err()
}

// readAcceptance reads one [[accepted]]. Commit and case may be missing: the commit is only for people, and without a
// case the entry is about all cases together.
func readAcceptance(t table) Acceptance {
	a := Acceptance{Metric: t.str("metric"), Case: t.str("case"), Commit: t.str("commit"), Reason: t.str("reason")}
	t.require("metric", "limit", "reason")
	if t.has("limit") {
		n, ok := t.number("limit", "a ratio, such as 1.08")
		if ok && !(n > 0 && n < 1e6) {
			t.errorf("limit", "invalid ratio %g of HEAD to the merge base; expected a number as 1.08", n)
		}
		a.Limit = n
	}
	return a
}
