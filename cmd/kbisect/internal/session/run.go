package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// LaunchWarnings are those of the job and, once for each commit, those of its launches, such as lines that were
// not understood.
func (t *Session) LaunchWarnings() []string {
	out := t.Warnings()
	told := map[string]bool{}
	for _, l := range t.Launches {
		for _, w := range l.Outcome.Warnings {
			commit := wording.Short(l.Candidate.Commit)
			kind := commit + strings.Trim(w, "0123456789") // as many as there were in the first launch
			if !told[kind] {
				told[kind] = true
				out = append(out, fmt.Sprintf("commit %s: %s", commit, w))
			}
		}
	}
	return out
}

// Begin opens the store, takes the repository and makes a session of this kind.
func Begin(e Env, repo *source.Repo, p *policy.Policy, kind string) (*Session, error) {
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadWrite)
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	s, err := NewSession(p, kind, e.Version)
	if err != nil {
		st.Close()
		return nil, err
	}
	lock, err := st.Lock(s.ID)
	if err != nil {
		st.Close()
		return nil, err
	}
	if n, err := proc.Sweep(s.ID); err != nil || n > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d processes of an earlier session were still running and have been killed", n))
	}
	t := &Session{Repo: repo, Store: st, Record: s, Policy: p, Display: e.Display, Output: e.Output}
	t.Close = func() {
		t.Devices.Close()
		lock.Unlock()
		st.Close()
	}
	return t, nil
}

// Start writes the session and opens the pipeline.
func (t *Session) Start(ctx context.Context) error {
	t.Began = time.Now()
	if err := t.KeepSession(); err != nil {
		return err
	}
	if err := t.Open(ctx); err != nil {
		return t.Fail(err)
	}
	return nil
}

// Ended closes the pipeline. What stopped the launches is a result, unless it is the user's to mend, which is
// the error that comes back.
func (t *Session) Ended(ctx context.Context, err error) (result string, mend error) {
	t.Display.End()
	if closeErr := t.ClosePipes(); closeErr != nil {
		t.Policy.Warnings = append(t.Policy.Warnings, closeErr.Error())
	}
	var unknown *compare.UnknownMetricError
	var infra *bisect.InfraError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &unknown):
		return "", t.Fail(cmp.Or(Unmeasured(t), exit.Usage(err)))
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return store.Interrupted, nil
	case errors.As(err, &infra):
		return store.Infra, nil
	}
	return "", t.Fail(err)
}

// Conclude keeps what a session came to and prints it; code is the exit code of the result.
func (t *Session) Conclude(result, summary string, code int, cause error, document any, print func() error) error {
	var data bytes.Buffer
	err := report.WriteJSON(&data, document)
	if err == nil {
		err = t.Store.UpdateSession(t.Record.ID, func(s *store.Session) {
			s.Status, s.Finding, s.Summary, s.Elapsed = result, data.Bytes(), wording.Headline(summary), time.Since(t.Began)
		})
	}
	if printErr := print(); printErr != nil {
		return exit.With(exit.Machine, fmt.Errorf("writing the report: %w\nhint: kbisect show --json %s prints it again", printErr, t.Record.ID))
	}
	switch {
	case err != nil:
		return exit.With(exit.Machine, err)
	case cause != nil:
		return exit.With(code, cause)
	case code != exit.OK:
		return exit.With(code, nil)
	}
	return nil
}

// Report shows a document in the formats that were asked for.
func (t *Session) Report(d report.Document) error { return t.Output.show(d, t.LedgerOf()) }

// LedgerOf is what the documents of a job rest on.
func (t *Session) LedgerOf() report.Ledger {
	l := report.Ledger{Launches: t.Launches, Commits: map[string]report.CommitInfo{}}
	for _, x := range t.Launches {
		if id := x.Candidate.Commit; l.Commits[id].ID == "" {
			l.Commits[id] = t.CommitInfo(id, false)
		}
	}
	l.Limits = InSeconds(t.Policy.Limits, GoodTimes(t.Launches, t.Policy.Good))
	return l
}

// Totals adds up what the launches took.
func (t *Session) Totals() report.Totals {
	return report.Ledger{Launches: t.Launches}.Totals(time.Since(t.Began), t.Policy.GPUHour)
}

// NameCandidate names a commit for a report.
func NameCandidate(t *Session, revision, commit string) report.Candidate {
	return t.CommitInfo(commit, false).Candidate(revision)
}
