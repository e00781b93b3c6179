package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/pelletier/go-toml/v2"

	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/source"
)

// acceptances are the regressions that a branch declares as accepted, in the order of the file, and which of them a
// gate has met. seen has an entry for each of list.
type acceptances struct {
	path     string // of the file in the work tree, "" in a bare repository
	list     []config.Acceptance
	seen     []bool
	warnings []string
}

// readAccepted reads what the branch declares: the entries of the work tree, or of HEAD in a bare repository,
// without those that the merge base has as well. An entry counts for the branch that adds it and no longer; if
// merged entries counted, thresholds would rise with every accepted regression. A file that cannot be read is a
// usage error.
func readAccepted(repo *source.Repo, base, head string) (*acceptances, error) {
	a := &acceptances{}
	data, _, err := repo.File(head, config.AcceptedName)
	if dir := repo.WorkDir(); dir != "" && err == nil {
		a.path = filepath.Join(dir, config.AcceptedName)
		if data, err = os.ReadFile(a.path); errors.Is(err, fs.ErrNotExist) {
			data, err = nil, nil
		}
	}
	if err != nil {
		return nil, exit.Usage(err)
	}
	all, err := config.ParseAccepted(config.AcceptedName, data)
	if err != nil {
		return nil, exit.Usage(err)
	}
	old, _, err := repo.File(base, config.AcceptedName)
	if err != nil {
		return nil, exit.Usage(err)
	}
	before, err := config.ParseAccepted(config.AcceptedName, old)
	if err != nil { // an error would keep out the very branch that repairs the file
		a.warnings = append(a.warnings, fmt.Sprintf("invalid %s at the merge base, so no accepted change counts: %s", config.AcceptedName, wording.Headline(err.Error())))
		return a, nil
	}
	for _, x := range all {
		if !slices.Contains(before, x) {
			a.list = append(a.list, x)
		}
	}
	a.seen = make([]bool, len(a.list))
	return a, nil
}

// allows reports whether a change is no worse than the branch declares, and marks the entries that say so. ratio is
// HEAD over the merge base; where higher numbers are better, the limit is the lowest ratio that is accepted. An entry
// without a case is about the geometric mean over all cases and not about each of them.
func (a *acceptances) allows(m metric.Metric, one string, ratio float64) bool {
	ok := false
	for i, x := range a.list {
		within := ratio <= x.Limit
		if m.Higher {
			within = ratio >= x.Limit
		}
		if x.Metric == m.Name && x.Case == one && within {
			a.seen[i], ok = true, true
		}
	}
	return ok
}

// report lists the entries for the document, those that were used first; never nil.
func (a *acceptances) report() []report.Acceptance {
	used, unused := []report.Acceptance{}, []report.Acceptance{}
	for i, x := range a.list {
		r := report.Acceptance{Metric: x.Metric, Limit: x.Limit, Commit: x.Commit, Reason: x.Reason, Seen: a.seen[i]}
		if x.Case != "" {
			r.Case = &x.Case
		}
		if r.Seen {
			used = append(used, r)
		} else {
			unused = append(unused, r)
		}
	}
	return append(used, unused...)
}

// checkAccept refuses --accept where the result could not be committed. In CI it would turn the gate off, since the
// file is written anew in every job.
func (x *request) checkAccept(o Options, repo *source.Repo) error {
	switch {
	case !o.Accepts:
		return nil
	case x.reason == "":
		return exit.Usagef("--accept needs a reason, which is kept in %s", config.AcceptedName)
	case repo.WorkDir() == "":
		return exit.Usagef("--accept needs a work tree to write %s to, and this repository is bare", config.AcceptedName)
	}
	for _, ci := range []string{"GITHUB_ACTIONS", "GITLAB_CI", "CI"} {
		if v := o.Env(ci); v != "" && v != "false" {
			return exit.Usagef("--accept is not allowed in a CI job (%s is set): it would accept every regression\nhint: run it in your clone and commit %s", ci, config.AcceptedName)
		}
	}
	return nil
}

// accept records every regression of a gate in the file of the work tree and changes the gate's result accordingly:
// to a pass, or to "cannot tell" if other numbers are undecided. A HEAD that fails is not accepted, since it gave
// no numbers.
func accept(x request, doc *report.Gate) error {
	if doc.Failure != nil {
		doc.Warnings = append(doc.Warnings, "nothing was accepted: HEAD fails, so there is no number to accept")
		return nil
	}
	commit := x.head
	if doc.Culprit != nil {
		commit = doc.Culprit.Commit
	}
	// Numbers that are undecided stay so: what was not found worse cannot be accepted.
	var fresh []config.Acceptance
	for i, c := range doc.Contrasts {
		if c.Result != report.GateRegression {
			continue
		}
		fresh = append(fresh, config.Acceptance{Metric: c.Metric, Case: report.Text(c.Case), Limit: acceptedLimit(c), Commit: commit, Reason: words.Printable(x.reason)})
		doc.Contrasts[i].Result = report.GateAccepted
	}
	if err := appendAccepted(x.accepted.path, fresh); err != nil {
		return exit.With(exit.Machine, err)
	}
	now := (&acceptances{list: fresh, seen: make([]bool, len(fresh))}).report()
	for i := range now {
		now[i].Seen, now[i].New = true, true
	}
	doc.Accepted = append(now, doc.Accepted...)
	doc.Result = report.GatePass
	if slices.ContainsFunc(doc.Contrasts, func(c report.Contrast) bool { return c.Result == report.GateOpen }) {
		doc.Result = report.GateOpen
	}
	return nil
}

// measured is the newest gate of the same commits and commands, if it found a regression: a user who types --accept has
// just seen it, and need not wait for another one. It is nil if there is none, or if --bisect asks for the commit and
// that gate does not name one.
func (x *request) measured(repo *source.Repo, p *policy.Policy) (*report.Gate, error) {
	const lookBack = 100 // sessions
	st, err := session.StoreOf(repo)
	if st == nil || err != nil {
		return nil, err
	}
	defer st.Close()
	all, err := st.Sessions(lookBack)
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	for _, s := range all {
		var past policy.Policy
		if s.Axis != Kind || s.Good != x.base || s.Bad != x.head || json.Unmarshal(s.Config, &past) != nil || past.Compares() != p.Compares() {
			continue
		}
		var d report.Gate
		if s.Status != report.GateRegression || json.Unmarshal(s.Finding, &d) != nil || d.Failure != nil || x.bisect && d.Culprit == nil {
			return nil, nil // a newer gate counts, whatever it found
		}
		d.Warnings = append(d.Warnings, "accepted as measured in session "+s.ID+"; nothing was launched")
		return &d, nil
	}
	return nil, nil
}

// acceptMeasured accepts what an earlier gate has measured, without a launch. ok is false if there is nothing to
// accept and the gate has to run. The error carries the exit code.
func (x *request) acceptMeasured(e session.Env, repo *source.Repo, p *policy.Policy, written *bool) (ok bool, err error) {
	if x.reason == "" {
		return false, nil
	}
	doc, err := x.measured(repo, p)
	if doc == nil || err != nil {
		return false, err
	}
	if err := accept(*x, doc); err != nil {
		return true, err
	}
	doc.Conclude("")
	doc.ExitCode, *written = x.exitCode(doc.Result), true
	if err := x.show(e, p, doc); err != nil || doc.ExitCode == exit.OK {
		return true, err
	}
	return true, exit.With(doc.ExitCode, nil)
}

// acceptedLimit is the ratio of HEAD to the merge base up to which a regression is accepted: the far end of its
// confidence interval, so that measuring the same commit again in CI does not fail by chance. It is rounded away
// from 1 to three digits. If the interval is open, it is the ratio itself.
func acceptedLimit(c report.Contrast) float64 {
	limit, round := float64(c.Bound.High), math.Ceil
	if c.Higher {
		limit, round = float64(c.Bound.Low), math.Floor
	}
	if math.IsInf(limit, 0) || math.IsNaN(limit) || limit <= 0 {
		limit = float64(c.Bound.Value)
	}
	return cmp.Or(round(limit*1000)/1000, limit) // a rate that has nearly vanished would round to 0
}

// appendAccepted adds entries to the end of the file, which it makes if there is none, and leaves what stands there as
// it is, comments included. The new file is parsed before it replaces the old one by a rename: no mistake of kbisect
// and no full disk can destroy the user's file.
func appendAccepted(path string, fresh []config.Acceptance) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var b bytes.Buffer
	b.Write(old)
	if len(old) == 0 {
		b.WriteString(config.AcceptedHead)
	} else if !bytes.HasSuffix(old, []byte("\n")) {
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	if err := toml.NewEncoder(&b).Encode(struct {
		Accepted []config.Acceptance `toml:"accepted"`
	}{fresh}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err := config.ParseAccepted(config.AcceptedName, b.Bytes()); err != nil {
		return fmt.Errorf("write %s: reading it back: %w", path, err)
	}
	return renameio.WriteFile(path, b.Bytes(), 0o666, renameio.WithTempDir(filepath.Dir(path)))
}
