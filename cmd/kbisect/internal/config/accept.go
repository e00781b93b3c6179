package config

// AcceptedName is the file, beside kbisect.toml, that lists changes for the worse which were meant.
const AcceptedName = "kbisect-accepted.toml"

// AcceptedHead begins the file.
const AcceptedHead = `# Changes for the worse that are meant; kbisect gate --accept 'REASON' adds to this list.
#
# An entry lets the branch pass on which it is added, and no later one: it counts while the merge base does
# not have it. It may stay here as a record. A number is let pass while its ratio, HEAD over the merge base,
# is no worse than limit; without a case it is the metric over all of its cases.
`

// Acceptance is one [[accepted]] of that file.
type Acceptance struct {
	Metric string  `toml:"metric"`
	Case   string  `toml:"case,omitempty"`
	Limit  float64 `toml:"limit"`
	Commit string  `toml:"commit"` // that brought it, for people
	Reason string  `toml:"reason"`
}

// ParseAccepted checks the file. Its error is a *ConfigError.
func ParseAccepted(name string, data []byte) ([]Acceptance, error) {
	r, root, err := readTOML(name, data, "\nhint: entries that the base branch has had for long may go")
	if err != nil {
		return nil, err
	}
	top := tableReader{r: r, values: root}
	top.unknown([]string{"accepted"}, nil)
	var out []Acceptance
	for _, t := range top.tables("accepted") {
		out = append(out, t.acceptance())
	}
	return out, r.err()
}

func (t tableReader) acceptance() Acceptance {
	t.unknown([]string{"metric", "case", "limit", "commit", "reason"}, nil)
	a := Acceptance{Metric: t.str("metric"), Case: t.str("case"), Commit: t.str("commit"), Reason: t.str("reason")}
	for _, key := range []string{"metric", "limit", "reason"} {
		if !t.has(key) {
			t.r.add(t.path, "%s is missing", key)
		}
	}
	if t.has("limit") {
		n, ok := t.number("limit", "a ratio, as 1.08")
		if ok && !(n > 0 && n < 1e6) {
			t.errorf("limit", "%g is no ratio of HEAD to the merge base, as 1.08", n)
		}
		a.Limit = n
	}
	return a
}
