package main

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

// launchWarnings are those of the job and, once for each commit, those of its launches, such as lines that were
// not understood.
func (t *Session) launchWarnings() []string {
	out := t.warnings()
	told := map[string]bool{}
	for _, l := range t.launches {
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

// beginTrials opens the store, takes the repository and makes a session of this kind.
func beginTrials(e env, repo *source.Repo, p *policy.Policy, kind string) (*Session, error) {
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadWrite)
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	s, err := newSession(p, kind, e.Version)
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
	t := &Session{repo: repo, store: st, record: s, policy: p, ui: e.Display, output: e.Output}
	t.close = func() {
		t.gpus.close()
		lock.Unlock()
		st.Close()
	}
	return t, nil
}

// begin writes the session and opens the pipeline.
func (t *Session) begin(ctx context.Context) error {
	t.began = time.Now()
	if err := t.keepSession(); err != nil {
		return err
	}
	if err := t.open(ctx); err != nil {
		return t.fail(err)
	}
	return nil
}

// ended closes the pipeline. What stopped the launches is a result, unless it is the user's to mend, which is
// the error that comes back.
func (t *Session) ended(ctx context.Context, err error) (result string, mend error) {
	t.ui.End()
	if closeErr := t.closePipes(); closeErr != nil {
		t.policy.Warnings = append(t.policy.Warnings, closeErr.Error())
	}
	var unknown *compare.UnknownMetricError
	var infra *bisect.InfraError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &unknown):
		return "", t.fail(cmp.Or(unmeasured(t), exit.Usage(err)))
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return store.Interrupted, nil
	case errors.As(err, &infra):
		return store.Infra, nil
	}
	return "", t.fail(err)
}

// conclude keeps what a session came to and prints it; code is the exit code of the result.
func (t *Session) conclude(result, summary string, code int, cause error, document any, print func() error) error {
	var data bytes.Buffer
	err := report.WriteJSON(&data, document)
	if err == nil {
		err = t.store.UpdateSession(t.record.ID, func(s *store.Session) {
			s.Status, s.Finding, s.Summary, s.Elapsed = result, data.Bytes(), wording.Headline(summary), time.Since(t.began)
		})
	}
	if printErr := print(); printErr != nil {
		return exit.With(exit.Machine, fmt.Errorf("writing the report: %w\nhint: kbisect show --json %s prints it again", printErr, t.record.ID))
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

// report shows a document in the formats that were asked for.
func (t *Session) report(d report.Document) error { return t.output.show(d, t.ledgerOf()) }

// ledgerOf is what the documents of a job rest on.
func (t *Session) ledgerOf() report.Ledger {
	l := report.Ledger{Launches: t.launches, Commits: map[string]report.CommitInfo{}}
	for _, x := range t.launches {
		if id := x.Candidate.Commit; l.Commits[id].ID == "" {
			l.Commits[id] = t.commitInfo(id, false)
		}
	}
	l.Limits = inSeconds(t.policy.Limits, goodTimes(t.launches, t.policy.Good))
	return l
}

// totals adds up what the launches took.
func (t *Session) totals() report.Totals {
	return report.Ledger{Launches: t.launches}.Totals(time.Since(t.began), t.policy.GPUHour)
}

// candidateOf names a commit for a report.
func candidateOf(t *Session, revision, commit string) report.Candidate {
	return t.commitInfo(commit, false).Candidate(revision)
}
